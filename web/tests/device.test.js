// Devices that are lost, refused, or not there at all.

import assert from "node:assert/strict";
import { test } from "node:test";
import {
  addressOf,
  computed,
  mapInView,
  newPage,
  openBrowser,
  openBrowserWithoutGpu,
  openPage,
  PATIENCE,
  recomputed,
  SMALL,
} from "./support.js";

/** Notes what is shown at every change of the page, while the device is away. */
function watch(page) {
  return page.evaluate(() => {
    window.seen = [];
    const note = () => {
      const lost = document.querySelector('.notice[data-name="lost"]')?.textContent ?? "";
      window.seen.push({
        away: /Opening it again/.test(lost),
        chip: document.querySelector("#device-chip").textContent,
        badge: document.querySelector("#badge").dataset.state,
        map: !document.querySelector("#map").hidden,
        links: document.querySelectorAll("#links li").length,
        graph: document.querySelectorAll("#graph-frame .node").length,
        book: document.querySelectorAll("#copy-both-chart .line, #free-table tr").length,
        cells: [...document.querySelectorAll("#grid canvas")].filter((canvas) => canvas.width > 1).length,
      });
    };
    new MutationObserver(note).observe(document.body, {
      subtree: true,
      childList: true,
      attributes: true,
      characterData: true,
    });
  });
}

/** Notes every notice of a loss. */
function noteLosses(page) {
  return page.evaluate(() => {
    window.losses = [];
    const note = () => {
      const lost = document.querySelector('.notice[data-name="lost"]');
      if (lost) window.losses.push(lost.textContent);
    };
    new MutationObserver(note).observe(document.querySelector("#notices"), { childList: true });
  });
}

test("a lost device takes everything that it computed with it, and comes back without a reload", async (t) => {
  const browser = await openBrowser();
  t.after(() => browser.close());
  const { page, faults } = await openPage(browser);
  for (const [card, shown] of [
    ["#copy-both", "#copy-both-chart .line"],
    ["#free", "#free-table tr"],
  ]) {
    await page.locator(card).scrollIntoViewIfNeeded();
    await page.waitForSelector(shown);
  }
  const before = await mapInView(page);
  await page.evaluate(() => (window.mark = "not reloaded"));
  for (const round of [1, 2]) {
    await watch(page);
    await page.click("#lose");
    await page.waitForFunction(
      () => /is back/.test(document.querySelector('.notice[data-name="lost"]')?.textContent ?? ""),
      null,
      { timeout: PATIENCE },
    );
    await computed(page);
    const seen = await page.evaluate(() => window.seen);
    const away = seen.filter(({ chip }) => chip === "looking for a GPU…");
    assert.ok(away.length > 0, `round ${round}: the loss was never shown`);
    for (const now of away) {
      assert.deepEqual(
        { badge: now.badge, map: now.map, links: now.links, graph: now.graph, book: now.book, cells: now.cells },
        { badge: "waiting", map: false, links: 0, graph: 0, book: 0, cells: 0 },
      );
    }
    assert.deepEqual((await mapInView(page)).weights, before.weights);
    await page.click('.notice[data-name="lost"] button');
  }
  assert.equal(await page.evaluate(() => window.mark), "not reloaded");
  assert.deepEqual(faults, []);
});

test("without WebGPU the page computes on the CPU, and says so and why", async (t) => {
  const browser = await openBrowserWithoutGpu();
  t.after(() => browser.close());
  const { page, faults } = await openPage(browser);
  assert.deepEqual(faults, []);
  const adapter = await page.evaluate(async () => (await navigator.gpu?.requestAdapter()) ?? null);
  assert.equal(adapter, null, "the flag should take WebGPU away");
  assert.equal(await page.innerText("#device-chip"), "CPU, no GPU");
  assert.match(await page.innerText("#device-warning"), /WebGPU/);
  assert.ok(await page.isDisabled("#lose"));
  assert.match(await page.innerText("#verdict"), /the CPU path/);
  const { weights } = await mapInView(page);
  for (const row of weights) assert.ok(Math.abs(row.reduce((sum, weight) => sum + weight) - 1) < 2 ** -20);
  // What the browser itself said when this test asked for an adapter.
  assert.deepEqual(faults, ["console warning: No available adapters."]);
});

test("an adapter that is refused is told of in the same way", async (t) => {
  const browser = await openBrowser();
  t.after(() => browser.close());
  const { page, faults } = await newPage(browser);
  // Whatever the machine has: this page gets none. Workers have no init script, so their script is changed.
  await page.route("**/assets/worker-*.js", async (route) => {
    const response = await route.fetch();
    const body = `navigator.gpu && (navigator.gpu.requestAdapter = async () => null);\n${await response.text()}`;
    await route.fulfill({ response, body });
  });
  await page.goto(addressOf(SMALL));
  await computed(page);
  assert.equal(await page.innerText("#device-chip"), "CPU, no GPU");
  assert.match(await page.innerText("#device-warning"), /adapter/);
  assert.deepEqual(faults, []);
});

test("the visitor may choose the CPU, and the numbers stay", async (t) => {
  const browser = await openBrowser();
  t.after(() => browser.close());
  const { page, faults } = await openPage(browser);
  await noteLosses(page);
  const { weights: onGpu } = await mapInView(page);
  await page.selectOption("#backend", "cpu");
  await page.waitForFunction(() => document.querySelector("#device-chip").textContent === "CPU, no GPU");
  await computed(page);
  const { weights: onCpu } = await mapInView(page);
  // Each is within 2⁻²⁰ of the truth, and within four times what plain arithmetic is off by.
  onCpu.flat().forEach((weight, place) => assert.ok(Math.abs(weight - onGpu.flat()[place]) < 2 ** -19));
  await page.selectOption("#backend", "auto");
  await page.waitForFunction(() => /swiftshader/.test(document.querySelector("#device-chip").textContent));
  await computed(page);
  // One GPU device after another: opening takes longer than losing.
  await recomputed(page, () => page.evaluate(() => (location.hash += "&device=webgpu")));
  assert.deepEqual(await page.evaluate(() => window.losses), [], "a device that is replaced is not lost");
  assert.deepEqual(faults, []);
});

test("a model that cannot be loaded is told of, and random data works all the same", async (t) => {
  const browser = await openBrowser();
  t.after(() => browser.close());
  const { page, faults } = await newPage(browser);
  await page.route("**/data/*.safetensors", (route) => route.fulfill({ status: 503, body: "" }));
  await page.goto(addressOf());
  await page.waitForSelector('.notice[data-kind="error"]', { timeout: PATIENCE });
  assert.match(await page.innerText('.notice[data-kind="error"]'), /503/);
  assert.ok(await page.isHidden("#progress"));
  await page.click("#random-panel > summary");
  await page.click("#random-form button");
  await computed(page);
  assert.deepEqual(faults, []);
});

test("the page shows how far the model has come", async (t) => {
  const browser = await openBrowser();
  t.after(() => browser.close());
  const { page, faults } = await newPage(browser);
  await page.addInitScript(() => {
    window.bars = [];
    document.addEventListener("DOMContentLoaded", () => {
      const bar = document.querySelector("#progress-bar");
      new MutationObserver(() => window.bars.push(bar.value)).observe(bar, { attributes: true });
    });
  });
  await page.goto(addressOf());
  await computed(page);
  const bars = await page.evaluate(() => window.bars);
  assert.ok(
    bars.some((share) => share > 0 && share < 1),
    `${bars}`,
  );
  assert.deepEqual(
    bars,
    bars.toSorted((one, other) => one - other),
  );
  assert.equal(bars.at(-1), 1);
  assert.ok(await page.isHidden("#progress"));
  assert.deepEqual(faults, []);
});
