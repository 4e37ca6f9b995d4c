// Looks again every few seconds and replaces the parts of the page that changed; forms are never touched.
"use strict";
(() => {
  const seconds = Number(document.body.dataset.refresh);
  const button = document.getElementById("pause");
  const offline = document.getElementById("offline");
  const served = new Map();
  let paused = sessionStorage.getItem("paused") === "yes";
  let answered = new Date();

  const parts = (page) => page.querySelectorAll("[data-part]");
  const label = (element) => element.getAttribute("href") || element.getAttribute("aria-label") || element.id;

  function replaced(part, html) {
    const active = part.contains(document.activeElement) ? label(document.activeElement) : null;
    const scrolled = [part, ...part.querySelectorAll(".wide")].map((one) => one.scrollLeft);
    part.innerHTML = html;
    [part, ...part.querySelectorAll(".wide")].forEach((one, i) => { one.scrollLeft = scrolled[i] || 0; });
    if (active) {
      const again = [...part.querySelectorAll("a, [tabindex]")].find((one) => label(one) === active);
      if (again) again.focus({ preventScroll: true });
    }
  }

  function selecting(part) {
    const selection = getSelection();
    return !selection.isCollapsed && part.contains(selection.anchorNode);
  }

  function show(page) {
    document.title = page.title;
    for (const fresh of parts(page)) {
      const part = document.getElementById(fresh.id);
      if (!part || served.get(fresh.id) === fresh.innerHTML || selecting(part)) continue;
      served.set(fresh.id, fresh.innerHTML);
      replaced(part, fresh.innerHTML);
    }
  }

  async function look() {
    if (paused || document.hidden) return;
    try {
      const answer = await fetch(location.href, { cache: "no-store", signal: AbortSignal.timeout(seconds * 1000) });
      if (!answer.ok) throw new Error(`it says ${answer.status}`);
      show(new DOMParser().parseFromString(await answer.text(), "text/html"));
      answered = new Date();
      offline.textContent = "";
    } catch (error) {
      const since = answered.toISOString().slice(11, 19);
      const why = error instanceof TypeError || error.name === "TimeoutError" ? "" : ` (${error.message})`;
      offline.textContent = `The agent gives no new page since ${since} UTC${why}: what is shown is as old as that.`;
    }
  }

  function tell() {
    button.setAttribute("aria-pressed", String(paused));
    button.textContent = paused ? "Refreshing is paused" : "Pause refreshing";
  }

  if (!seconds) return;
  for (const part of parts(document)) served.set(part.id, part.innerHTML);
  button.hidden = false;
  tell();
  button.addEventListener("click", () => {
    paused = !paused;
    sessionStorage.setItem("paused", paused ? "yes" : "no");
    tell();
    look();
  });
  document.addEventListener("visibilitychange", look);
  setInterval(look, seconds * 1000);
})();
