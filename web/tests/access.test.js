// For everyone: keyboard alone, screen readers, small windows, both themes, a strict policy.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";
import { computed, openBrowser, openPage, SMALL } from "./support.js";

let browser;

before(async () => {
  browser = await openBrowser();
});
after(() => browser.close());

const axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** What axe finds that is serious, as words. */
async function serious(page) {
  await page.evaluate(axe);
  const { violations, passes } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  assert.ok(passes.length > 20, "axe should have looked at something");
  return violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(
      ({ id, nodes }) => `${id}: ${nodes.map(({ html, failureSummary }) => `${html} ${failureSummary}`).join("\n")}`,
    );
}

for (const [name, options] of [
  ["light", { colorScheme: "light" }],
  ["dark", { colorScheme: "dark" }],
  ["phone", { viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true }],
]) {
  test(`axe finds nothing serious: ${name}`, async () => {
    const { page } = await openPage(browser, SMALL, options);
    await page.evaluate(() => document.querySelectorAll("details").forEach((panel) => (panel.open = true)));
    await page.locator("#copy-both").scrollIntoViewIfNeeded();
    await page.waitForFunction(() => document.querySelectorAll("#copy-both-chart .line").length === 6);
    await page.click("#options button:nth-child(1)");
    assert.deepEqual(await serious(page), []);
    await page.context().close();
  });
}

test("axe would find a fault", async () => {
  const { page } = await openPage(browser);
  await page.evaluate(() => document.body.append(document.createElement("button")));
  assert.match((await serious(page)).join(), /button-name/);
  await page.context().close();
});

test("at phone width nothing sticks out, and a tap keeps a head", async () => {
  const { page, faults } = await openPage(browser, SMALL, {
    viewport: { width: 360, height: 740 },
    hasTouch: true,
    isMobile: true,
  });
  await page.evaluate(() => document.querySelectorAll("details").forEach((panel) => (panel.open = true)));
  const {
    wide,
    window: width,
    outside,
  } = await page.evaluate(() => ({
    wide: document.documentElement.scrollWidth,
    window: innerWidth,
    outside: [...document.querySelectorAll("main *")]
      .filter(
        (element) => element.getClientRects().length > 0 && !element.closest(".graph-frame, .scroller, .hidden, svg"),
      )
      .filter((element) => element.getBoundingClientRect().right > innerWidth + 1)
      .map((element) => element.outerHTML.slice(0, 80)),
  }));
  assert.ok(wide <= width, `${wide} > ${width}`);
  assert.deepEqual(outside, []);
  await page.evaluate(() => document.querySelectorAll("details").forEach((panel) => (panel.open = false)));
  await page.locator("#grid button").nth(1).tap();
  await page.waitForFunction(() => /^Head 1/.test(document.querySelector("#map-title").textContent));
  const small = await page
    .locator("button:visible, select:visible, summary:visible")
    .evaluateAll((all) =>
      all
        .filter((one) => Math.min(one.getBoundingClientRect().height, one.getBoundingClientRect().width) < 24)
        .map((one) => one.outerHTML.slice(0, 80)),
    );
  assert.deepEqual(small, [], "targets of less than 24 pixels");
  assert.deepEqual(faults, []);
  await page.context().close();
});

test("all 72 heads can be tapped on a phone", async () => {
  // The heads of the model, where they cost no GPU anything.
  const { page } = await openPage(browser, "device=cpu", {
    viewport: { width: 390, height: 800 },
    hasTouch: true,
    isMobile: true,
  });
  const sizes = await page
    .locator("#grid button")
    .evaluateAll((all) =>
      all.map((one) => one.getBoundingClientRect()).map(({ width, height }) => Math.min(width, height)),
    );
  assert.equal(sizes.length, 72);
  assert.ok(Math.min(...sizes) >= 24, `${Math.min(...sizes)}`);
  await page.context().close();
});

test("everything can be done with the keyboard alone", async () => {
  const { page } = await openPage(browser);
  const press = (key) => page.keyboard.press(key);
  const focused = () => page.evaluate(() => document.activeElement.id || document.activeElement.textContent);
  // Once around: every control that is visible has its turn, but for heads and options, between which arrows move.
  const wanted = await page
    .locator(":is(button, select, input):visible:enabled, :is(a[href], summary, canvas[tabindex]):visible")
    .evaluateAll((all) =>
      all.filter((one) => one.tabIndex >= 0).map((one, place) => (one.dataset.place = String(place))),
    );
  const met = new Set();
  for (let turn = 0; turn < wanted.length + 20; turn += 1) {
    await press("Tab");
    met.add(await page.evaluate(() => document.activeElement.dataset.place));
  }
  assert.deepEqual(
    wanted.filter((place) => !met.has(place)),
    [],
  );

  await page.locator('#grid [aria-current="true"]').focus();
  await press("ArrowRight");
  await page.waitForFunction(() => document.querySelector("#map-title").textContent === "Head 1 (preview)");
  await press("Enter");
  await press("x");
  await page.waitForFunction(() => /^Without head 1/.test(document.querySelector("#without").textContent));
  await press("x");
  await page.locator("#map").focus();
  for (const key of ["ArrowDown", "ArrowDown", "ArrowRight"]) await press(key);
  await page.waitForFunction(() =>
    /^t1 → t1: .*row 1, column 1\.$/.test(document.querySelector("#readout").textContent),
  );
  await press("Enter");
  await page.waitForFunction(() => document.querySelector("#strip button:nth-child(2)").ariaPressed === "true");
  await press("Escape");
  await page.locator("#strip button").first().focus();
  await press("ArrowRight");
  await press("ArrowRight");
  assert.equal(await focused(), "t2");
  await press("Enter");
  await page.waitForFunction(() => /t2 looks most at/.test(document.querySelector("#finding").textContent));
  await page.locator("#take > summary").focus();
  await press("Enter");
  await press("Tab");
  const [saved] = await Promise.all([page.waitForEvent("download"), press("Enter")]);
  assert.match(saved.suggestedFilename(), /\.png$/);
  await press("Escape");
  assert.equal(await page.locator("#take").getAttribute("open"), null);
  await page.locator("#causal").focus();
  await press("Space");
  await page.waitForFunction(() => document.querySelector("#causal").checked);
  await computed(page);
  await page.context().close();
});

test("a screen reader is told of the strongest links", async () => {
  const { page } = await openPage(browser);
  const summary = await page.locator("#map-summary").textContent();
  assert.match(summary, /^6 queries by 6 keys\. Strongest: t\d to t\d \d+(\.\d)?\s%;/);
  assert.equal(await page.locator("#map").getAttribute("aria-describedby"), "map-summary");
  const first = await page.locator("#links li").first().textContent();
  assert.ok(summary.includes(first.replace(" → ", " to ")), `${first} in ${summary}`);
  await page.context().close();
});

test("the theme is the system's, or the one that is chosen", async () => {
  const { page } = await openPage(browser, SMALL, { colorScheme: "dark" });
  const back = () =>
    page.evaluate(() => {
      const copy = new OffscreenCanvas(2, 2).getContext("2d", { willReadFrequently: true });
      copy.drawImage(document.querySelector("#map"), 0, 0);
      const pixel = copy.getImageData(1, 1, 1, 1).data;
      return {
        page: getComputedStyle(document.body).backgroundColor,
        map: `rgb(${pixel[0]}, ${pixel[1]}, ${pixel[2]})`,
      };
    });
  const dark = await back();
  assert.equal(dark.page, "rgb(16, 19, 23)");
  assert.equal(dark.map, dark.page);
  await page.selectOption("#theme", "light");
  await page.waitForFunction(() => getComputedStyle(document.body).backgroundColor === "rgb(255, 255, 255)");
  await page.waitForTimeout(100);
  const light = await back();
  assert.equal(light.map, light.page);
  await page.context().close();
});

test("the policy lets no foreign script run and no other host be asked", async () => {
  const { page, faults } = await openPage(browser);
  const ran = await page.evaluate(async () => {
    const script = document.createElement("script");
    script.textContent = "window.ran = true";
    document.head.append(script);
    const answer = await fetch("http://127.0.0.1:1/").then(
      () => "answered",
      () => "refused",
    );
    return { ran: window.ran ?? false, answer };
  });
  assert.deepEqual(ran, { ran: false, answer: "refused" });
  // Policies are told of a moment later.
  for (let turn = 0; turn < 50 && faults.filter((fault) => fault.startsWith("policy: ")).length < 2; turn += 1)
    await page.waitForTimeout(50);
  const broken = faults.filter((fault) => fault.startsWith("policy: "));
  assert.ok(
    broken.some((fault) => /script-src/.test(fault)) && broken.some((fault) => /connect-src/.test(fault)),
    `${faults}`,
  );
  await page.context().close();
});
