// A browser with a GPU that every machine has, pages in it, and what a page must never do.

import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

/** Where the page is: `cargo xtask page` serves it and says so. */
const URL_OF_PAGE = process.env.PAGE_URL ?? "http://127.0.0.1:8080/";

const FLAGS = [
  "--headless=new",
  "--no-sandbox",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  "--disable-quic",
  "--no-first-run",
];

/** A GPU that every machine has. */
const GPU = ["--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader"];

/** Milliseconds for anything; the machine may be busy. */
export const PATIENCE = 90_000;

/** Small enough for a software adapter: 6 tokens, 2 heads of width 4. */
export const SMALL = "source=random&sizes=6.2.4.1&head=0.0&query=none";

export function openBrowser() {
  return launch([...FLAGS, ...GPU]);
}

/** A browser whose pages get no GPU. */
export function openBrowserWithoutGpu() {
  return launch([...FLAGS, "--disable-features=WebGPU"]);
}

function launch(args) {
  const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";
  // Playwright's own way to be headless is another one.
  return chromium.launch({ executablePath, headless: false, args });
}

/** An empty page; `faults` collects what no page may do. */
export async function newPage(browser, options = {}) {
  const context = await browser.newContext({
    viewport: { width: 1280, height: 900 },
    acceptDownloads: true,
    ...options,
  });
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE);
  const faults = [];
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) faults.push(`console ${message.type()}: ${message.text()}`);
  });
  page.on("pageerror", (error) => faults.push(`error: ${error}`));
  page.on("request", (request) => {
    const own = new URL(URL_OF_PAGE).origin;
    if (!request.url().startsWith(own) && !/^(blob|data):/.test(request.url()))
      faults.push(`request: ${request.url()}`);
  });
  await page.exposeFunction("tellFault", (fault) => faults.push(fault));
  await page.addInitScript(() => {
    document.addEventListener("securitypolicyviolation", (event) =>
      window.tellFault(`policy: ${event.violatedDirective} ${event.blockedURI}`),
    );
    window.jumps = [];
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) {
        const moved = entry.sources.map(({ node }) => node?.id || node?.className || node?.nodeName).join(", ");
        if (!entry.hadRecentInput) window.jumps.push({ value: entry.value, moved });
      }
    }).observe({ type: "layout-shift", buffered: true });
  });
  return { page, faults };
}

/** A page at this view, once it has numbers. */
export async function openPage(browser, hash = SMALL, options = {}) {
  const { page, faults } = await newPage(browser, options);
  await page.goto(addressOf(hash));
  await computed(page);
  return { page, faults };
}

/** Where the page shows this view. */
export function addressOf(hash) {
  return hash ? `${URL_OF_PAGE}#${hash}` : URL_OF_PAGE;
}

/** Waits until everything that is shown was computed and proved. */
export async function computed(page) {
  const ready = () =>
    document.querySelector("#badge").dataset.state === "good" &&
    document.querySelector("#grid").ariaBusy === "false" &&
    document.querySelector("#without").textContent !== "";
  await page.waitForFunction(ready, null, { timeout: PATIENCE });
}

/** Does something that makes the page compute, and waits until it has: the old answer is not taken for the new one. */
export async function recomputed(page, action) {
  await page.evaluate(() => {
    window.wasStale = false;
    const grid = document.querySelector("#grid");
    const observer = new MutationObserver(() => {
      if (grid.ariaBusy !== "true") return;
      window.wasStale = true;
      observer.disconnect();
    });
    observer.observe(grid, { attributes: true, childList: true });
  });
  await action();
  await page.waitForFunction(() => window.wasStale, null, { timeout: PATIENCE });
  await computed(page);
}

/** The bytes of what a button lets the browser save. */
export async function download(page, what) {
  if ((await page.getAttribute("#take", "open")) === null) await page.click("#take > summary");
  const [saved] = await Promise.all([page.waitForEvent("download"), page.click(`[data-take="${what}"]`)]);
  return { name: saved.suggestedFilename(), bytes: await readFile(await saved.path()) };
}

/** A case file of the repository. */
export function caseFile(name) {
  return fileURLToPath(new URL(`../../tests/cases/${name}.safetensors`, import.meta.url));
}

/** Comma-separated values without quotes, as rows of words. */
export function rowsOf(csv) {
  return csv
    .trim()
    .split("\r\n")
    .map((line) => line.split(","));
}

/** Header and tensors of a safetensors file: the format's own definition, apart from the page's code. */
export function safetensors(bytes) {
  const length = Number(bytes.readBigUInt64LE(0));
  const { __metadata__: metadata, ...tensors } = JSON.parse(bytes.subarray(8, 8 + length).toString());
  const floats = (name) => {
    const [start, end] = tensors[name].data_offsets;
    return new Float32Array(new Uint8Array(bytes.subarray(8 + length + start, 8 + length + end)).buffer);
  };
  return { metadata, tensors, floats };
}

/** The map of the head in view, by the page's own CSV. */
export async function mapInView(page) {
  const { bytes } = await download(page, "csv");
  const [header, ...rows] = rowsOf(bytes.toString());
  return {
    keys: header.slice(1),
    queries: rows.map(([query]) => query),
    weights: rows.map((row) => row.slice(1).map(Number)),
  };
}
