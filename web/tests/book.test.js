// The book's claims, live.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, before, test } from "node:test";
import { openBrowser, openPage, PATIENCE } from "./support.js";

let browser;
let page;
let faults;

before(async () => {
  browser = await openBrowser();
  ({ page, faults } = await openPage(browser));
});
after(() => browser.close());

const text = (selector) => page.locator(selector).innerText();

test("one head loses at least √½ of two values, two heads lose nothing", async () => {
  await page.locator("#copy-both").scrollIntoViewIfNeeded();
  await page.waitForFunction(() => document.querySelectorAll("#copy-both-chart .line").length === 6, null, {
    timeout: PATIENCE,
  });
  const lines = await page.locator("#copy-both-chart .line").allInnerTexts();
  for (const line of lines) {
    const [, heads] = /^(\d) head/.exec(line);
    const [, lost] = /([\d.]+) % lost$/.exec(line.trim());
    if (heads === "1") assert.ok(Math.abs(Number(lost) / 100 - Math.SQRT1_2) < 0.005, line);
    else assert.equal(lost, "0");
  }
  assert.deepEqual(
    lines.map((line) => line[0]),
    ["1", "1", "1", "1", "2", "2"],
  );
  assert.match(
    await page.getAttribute("#copy-both-chart", "aria-label"),
    /1 head with weights .* loses 70\.\d %;.* 2 heads with weights .* lose 0 %/,
  );
  assert.match(await text("#copy-both p"), /√½ = 70\.7 % .*fitted on the very samples/);
  await page.click("#copy-both-run");
  await page.waitForFunction(() => /16,384 samples/.test(document.querySelector("#copy-both-note").textContent), null, {
    timeout: PATIENCE,
  });
});

test("letters of any two words find their partners", async () => {
  await page.locator("#alignment").scrollIntoViewIfNeeded();
  await page.waitForFunction(
    () => /^i, o: one partner/.test(document.querySelector("#alignment-said").textContent),
    null,
    { timeout: PATIENCE },
  );
  assert.match(
    await text("#alignment-said"),
    /a, t, n: several copies share alike\. e: no partner.* 9 of 9 letters behave so/,
  );
  await page.fill("#alignment-query", "ab");
  await page.fill("#alignment-key", "bc");
  await page.waitForFunction(
    () => /^b: one partner/.test(document.querySelector("#alignment-said").textContent),
    null,
    { timeout: PATIENCE },
  );
  assert.match(await text("#alignment-said"), /a: no partner/);
  assert.match(
    await page.getAttribute("#alignment-map", "aria-label"),
    /2 queries by 2 keys\. Strongest: b to b (9\d|100)\s%/,
  );
  assert.match(new URL(page.url()).hash, /asks=ab&asked=bc/);
  await page.fill("#alignment-query", "b");
  await page.waitForFunction(() => / 1 query by 2 keys\./.test(document.querySelector("#alignment-map").ariaLabel));
  await page.fill("#alignment-query", "ab");
  await page.waitForFunction(() => /2 queries by 2 keys\./.test(document.querySelector("#alignment-map").ariaLabel));
  for (const ending of ["png", "svg"]) {
    const [saved] = await Promise.all([
      page.waitForEvent("download"),
      page.click(`#alignment-take [data-ending="${ending}"]`),
    ]);
    assert.equal(saved.suggestedFilename(), `alignment.${ending}`);
    const bytes = await readFile(await saved.path());
    if (ending === "svg") assert.match(bytes.toString(), /<title>ab asks bc<\/title>/);
    else assert.equal(bytes.subarray(1, 4).toString(), "PNG");
  }
  await page.fill("#alignment-key", " ");
  await page.waitForFunction(
    () => document.querySelector("#alignment-said").textContent === "Both words need a letter.",
  );
});

test("heads are counted at once, and timed when asked for", async () => {
  await page.locator("#free").scrollIntoViewIfNeeded();
  await page.selectOption("#free-width", "64");
  const counted = () =>
    page.waitForFunction(
      () =>
        document.querySelectorAll("#free-table tbody tr").length === 5 &&
        document.querySelector("#free-table td:nth-child(2)").textContent === "16,384",
      null,
      { timeout: PATIENCE },
    );
  await counted();
  await page.click("#free-form button");
  await page.waitForFunction(() => /medians of 5 runs/.test(document.querySelector("#free-note").textContent), null, {
    timeout: PATIENCE,
  });
  const rows = await page
    .locator("#free-table tbody tr")
    .evaluateAll((rows) => rows.map((row) => [...row.cells].map((cell) => cell.textContent)));
  // 4d²; 8nd² + 4n²d; h·n², for d = 64 and n = 32.
  rows.forEach(([heads, parameters, flops, exponentials, time], place) => {
    assert.equal(heads, String(2 ** place));
    assert.equal(parameters, "16,384");
    assert.equal(flops, "1,310,720");
    assert.equal(exponentials, (2 ** place * 1024).toLocaleString("en"));
    assert.match(time, /^[\d.]+ m?s$/);
  });
  assert.match(await page.getAttribute("#free-chart", "aria-label"), /Time: 1: 1\.00 times, 2: \d/);
});

test("each of the four answers is explained once it is picked, and one is right", async () => {
  const options = page.locator("#options button");
  assert.equal(await options.count(), 4);
  assert.equal(await text("#explanation"), "");
  const told = [];
  for (let place = 0; place < 4; place += 1) {
    await options.nth(place).click();
    told.push(await text("#explanation"));
    assert.equal(await options.nth(place).getAttribute("aria-pressed"), "true");
  }
  assert.equal(new Set(told).size, 4);
  assert.deepEqual(
    told.map((words) => words.split(":")[0]),
    ["Not so", "Right", "Not so", "Not so"],
  );
  assert.deepEqual(await options.evaluateAll((buttons) => buttons.map((button) => button.dataset.right)), [
    "false",
    "true",
    "false",
    "false",
  ]);
});

test("nothing of all this was an error to the browser", () => assert.deepEqual(faults, []));
