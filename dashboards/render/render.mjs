// node render.mjs PROMETHEUS_URL OUT_DIR [MINUTES] [DASHBOARD?var-queue=…]...
// Serves the built page, hands its queries on to Prometheus, and writes a picture of each dashboard.
import { createServer } from 'node:http';
import { mkdir, readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { chromium } from 'playwright-core';

const here = import.meta.dirname;
const [prometheus, out, minutes = '30', ...wanted] = process.argv.slice(2);
if (!out) throw new Error('usage: node render.mjs PROMETHEUS_URL OUT_DIR [MINUTES] [DASHBOARD?var-NAME=VALUE]...');
const TYPES = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.json': 'application/json' };

async function answer(request, response) {
  const url = new URL(request.url, 'http://page');
  try {
    if (url.pathname.startsWith('/api/')) {
      const found = await fetch(new URL(request.url, prometheus));
      const body = await found.text();
      response.writeHead(found.status, { 'content-type': 'application/json' }).end(body);
      return;
    }
    const folder = url.pathname.startsWith('/dashboards/') ? path.join(here, '../..') : path.join(here, 'dist');
    const file = path.join(folder, url.pathname === '/' ? 'index.html' : url.pathname);
    const body = await readFile(file);
    response.writeHead(200, { 'content-type': TYPES[path.extname(file)] ?? 'application/octet-stream' }).end(body);
  } catch (error) {
    response.writeHead(404).end(String(error));
  }
}

const server = createServer(answer);
await new Promise((ready) => server.listen(0, '127.0.0.1', ready));
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox'] });
await mkdir(out, { recursive: true });
const files = (await readdir(path.join(here, '..'))).filter((name) => name.endsWith('.json'));
const boards = wanted.length ? wanted : files.map((name) => path.basename(name, '.json'));
const to = Math.floor(Date.now() / 5000) * 5;
for (const board of boards) {
  const [dashboard, variables = ''] = board.split('?');
  const page = await browser.newPage({ viewport: { width: 1420, height: 4000 } }); // tables draw only what is in view
  page.on('pageerror', (error) => console.error(`${dashboard}: ${error.message}`));
  const query = new URLSearchParams(variables);
  for (const [name, value] of Object.entries({ dashboard, from: to - Number(minutes) * 60, to })) query.set(name, value);
  await page.goto(`http://127.0.0.1:${server.address().port}/?${query}`);
  await page.waitForSelector('#board', { timeout: 60_000 });
  await page.waitForFunction(() => !document.querySelector('.waiting'), null, { timeout: 60_000 });
  await page.waitForTimeout(1500);
  await page.locator('#board').screenshot({ path: path.join(out, `${dashboard}.png`) });
  await page.close();
}
await browser.close();
server.close();
