// Asks for the page again every few seconds and replaces the parts that changed; adds what needs a script: filtering
// while typing, values of charts, copying, local times, labels of cells for narrow windows.
"use strict";
(() => {
  const seconds = Number(document.body.dataset.refresh);
  const button = document.getElementById("pause");
  const offline = document.getElementById("offline");
  const served = new Map();
  let paused = sessionStorage.getItem("paused") === "yes";
  let answered = new Date();

  const parts = (page) => page.querySelectorAll("[data-part]");
  const label = (element) =>
    element.getAttribute("href") || element.getAttribute("aria-label") || element.id || element.parentElement.dataset.key;
  const made = (name, given) => Object.assign(document.createElement(name), given);

  // --- the same page again

  function replaced(part, html) {
    const active = part.contains(document.activeElement) ? label(document.activeElement) : null;
    const scrolled = [part, ...part.querySelectorAll(".wide")].map((one) => one.scrollLeft);
    const open = new Set([...part.querySelectorAll("details[open]")].map((one) => one.dataset.key));
    part.innerHTML = html;
    for (const one of part.querySelectorAll("details")) one.open ||= open.has(one.dataset.key);
    [part, ...part.querySelectorAll(".wide")].forEach((one, i) => { one.scrollLeft = scrolled[i] || 0; });
    dress(part);
    if (active) {
      const again = [...part.querySelectorAll("a, button, summary, [tabindex]")].find((one) => label(one) === active);
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

  let asked = 0;
  async function look() {
    const mine = ++asked;
    try {
      const answer = await fetch(location.href, { cache: "no-store", signal: AbortSignal.timeout(seconds * 1000) });
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (mine !== asked) return; // what was typed since asks for another
      show(page);
      answered = new Date();
      offline.textContent = "";
    } catch (error) {
      if (mine !== asked) return;
      const since = answered.toISOString().slice(11, 19);
      const why = error instanceof TypeError || error.name === "TimeoutError" ? "" : ` (${error.message})`;
      offline.textContent = `No answer from the agent since ${since} UTC${why}: this page shows what was known then.`;
    }
  }
  const again = () => { if (!paused && !document.hidden) look(); };

  function press() {
    button.setAttribute("aria-pressed", String(paused));
    button.textContent = paused ? "Refreshing is paused" : "Pause refreshing";
  }

  // --- filters

  const form = document.querySelector("form.filters");
  let typing = 0;
  function filter() {
    const given = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
    history.replaceState(null, "", `${form.getAttribute("action")}?${given}`);
    look();
  }
  if (form && seconds) {
    form.addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(filter, 250); });
    form.querySelector("[type=search]").labels[0].append(made("kbd", { textContent: "/", ariaHidden: "true" }));
  }
  document.addEventListener("keydown", (event) => {
    const field = form && form.querySelector("[type=search]");
    if (event.key !== "/" || !field || event.ctrlKey || event.metaKey || event.altKey) return;
    if (document.activeElement.matches("input, select, textarea")) return;
    event.preventDefault();
    field.focus();
    field.select();
  });

  // --- what is added to a part

  const zone = new Intl.DateTimeFormat([], { timeZoneName: "short" });
  const clock = new Intl.DateTimeFormat([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
  const zoneName = zone.formatToParts().find((one) => one.type === "timeZoneName").value;

  function localTime(element) {
    const at = new Date(element.dateTime);
    if (Number.isNaN(at.valueOf()) || at.getTimezoneOffset() === 0) return;
    element.title = at.toLocaleString([], { timeZoneName: "short" });
    element.after(made("span", { className: "faint local", textContent: ` (${clock.format(at)} ${zoneName})` }));
  }

  async function copied(text) {
    if (navigator.clipboard) return navigator.clipboard.writeText(text);
    const field = document.body.appendChild(made("textarea", { value: text, className: "hidden" })); // over plain http
    field.select();
    document.execCommand("copy");
    field.remove();
  }

  function copyButton(element) {
    const text = element.dataset.copy || element.textContent;
    const copy = made("button", { type: "button", className: "copy", textContent: "Copy" });
    copy.setAttribute("aria-label", `Copy ${text.slice(0, 80)}`);
    copy.addEventListener("click", async () => {
      await copied(text);
      copy.textContent = "Copied";
      setTimeout(() => { copy.textContent = "Copy"; }, 1500);
    });
    element.after(copy);
  }

  function cells(table) {
    const heads = [...table.querySelectorAll("thead th")].map((one) => one.textContent.replace(/[▲▼]/g, "").trim());
    for (const row of table.tBodies[0].rows) [...row.cells].forEach((one, i) => { one.dataset.label = heads[i] || ""; });
    table.classList.add("cards");
  }

  // The values under the pointer, or by the arrow keys as of a slider.
  function chart(plot) {
    const values = plot.dataset.values.split(",").map((one) => (one === "" ? null : Number(one)));
    const { step, end, name } = plot.dataset;
    const line = made("span", { className: "cursor", hidden: true });
    const readout = made("span", { className: "readout", hidden: true });
    let at = values.length - 1;
    const said = (i) => {
      const time = new Date((end - (values.length - 1 - i) * step) * 1000).toISOString().replace("T", " ");
      return `${time.slice(values.length * step > 80000 ? 5 : 11, step < 60 ? 19 : 16)} UTC: ${values[i] === null ? "not read" : values[i].toLocaleString("en")}`;
    };
    function point(i) {
      at = Math.min(Math.max(i, 0), values.length - 1);
      const share = values.length > 1 ? at / (values.length - 1) : 1;
      line.hidden = readout.hidden = false;
      line.style.left = `${share * 100}%`;
      readout.style[share > .5 ? "right" : "left"] = `calc(${(share > .5 ? 1 - share : share) * 100}% + .25rem)`;
      readout.style[share > .5 ? "left" : "right"] = "auto";
      readout.textContent = said(at);
      plot.setAttribute("aria-valuenow", at);
      plot.setAttribute("aria-valuetext", said(at));
    }
    const leave = () => { line.hidden = readout.hidden = true; };
    const given = { role: "slider", tabindex: 0, "aria-label": `${name}, values`, "aria-valuemin": 0,
                    "aria-valuemax": values.length - 1, "aria-valuenow": at, "aria-valuetext": said(at) };
    for (const [key, value] of Object.entries(given)) plot.setAttribute(key, value);
    plot.querySelector("svg").setAttribute("aria-hidden", "true");
    plot.append(line, readout);
    plot.addEventListener("pointermove", (event) => {
      const box = plot.getBoundingClientRect();
      point(Math.round((event.clientX - box.left) / box.width * (values.length - 1)));
    });
    plot.addEventListener("pointerleave", leave);
    plot.addEventListener("focus", () => point(at));
    plot.addEventListener("blur", leave);
    const steps = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageUp: -10, PageDown: 10, Home: -1e6, End: 1e6 };
    plot.addEventListener("keydown", (event) => {
      if (!(event.key in steps)) return;
      event.preventDefault();
      point(at + steps[event.key]);
    });
  }

  function dress(part) {
    part.querySelectorAll("time[datetime]").forEach(localTime);
    part.querySelectorAll("[data-copy], pre").forEach(copyButton);
    part.querySelectorAll(".wide > table").forEach(cells);
    part.querySelectorAll(".chart").forEach(chart);
  }

  for (const part of parts(document)) served.set(part.id, part.innerHTML);
  dress(document);
  if (!seconds) return;
  button.hidden = false;
  press();
  button.addEventListener("click", () => {
    paused = !paused;
    sessionStorage.setItem("paused", paused ? "yes" : "no");
    press();
    again();
  });
  document.addEventListener("visibilitychange", again);
  setInterval(again, seconds * 1000);
})();
