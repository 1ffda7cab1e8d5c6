// What hasty and clumsy visitors do, and files that mean harm.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test, before, after } from "node:test";
import {
  addressOf,
  caseFile,
  caseOf,
  computed,
  download,
  drop,
  newPage,
  openBrowser,
  openPage,
  PATIENCE,
  recomputed,
  SMALL,
} from "./support.js";

let browser;
let page;
let faults;

before(async () => {
  browser = await openBrowser();
  ({ page, faults } = await openPage(browser));
});
after(() => browser.close());

const text = (selector) => page.locator(selector).innerText();
const query = { data: Array.from({ length: 12 }, (_, place) => Math.sin(place)), shape: [1, 3, 4] };

/** Closes the notice of this name, once it says this. */
async function dismiss(name, said) {
  const notice = page.locator(`.notice[data-name="${name}"]`);
  await page.waitForSelector(`.notice[data-name="${name}"]`);
  assert.match(await notice.innerText(), said);
  await notice.locator("button").click();
}

test("one of several files is not guessed, and what is no file is not followed", async () => {
  const before = await text("#source-about");
  const file = await readFile(caseFile("one_head"));
  await drop(page, { "a.safetensors": file, "b.safetensors": file });
  await dismiss("source", /^2 files were dropped; .*drop one\./);
  await drop(page, {}, "http://127.0.0.1:1/elsewhere");
  await page.waitForTimeout(200);
  assert.equal(await text("#source-about"), before);
  // A file that is dragged out again leaves no veil.
  await page.dispatchEvent("body", "dragleave", {});
  await recomputed(page, () => drop(page, { "one.safetensors": file }));
  assert.match(await text("#source-about"), /^one\.safetensors/);
});

test("settings of 64 bits are shown like others", async () => {
  for (const settings of [
    '{"num_heads": 2, "causal": true, "query_offset": 9223372036854775807}',
    '{"num_heads": 2, "window": 18446744073709551615, "seed": 18446744073709551615}',
  ]) {
    await recomputed(page, () => drop(page, { "wide.safetensors": caseOf({ query }, settings) }));
    assert.match(await text("#badge"), /^proved to/);
  }
});

test("a word of a hundred thousand letters is shortened, and the page goes on", async () => {
  const tokens = JSON.stringify([["x".repeat(100_000), "b", "<b>c</b>"]]);
  const start = Date.now();
  await recomputed(page, () => drop(page, { "long.safetensors": caseOf({ query }, { num_heads: 2 }, { tokens }) }));
  assert.ok(Date.now() - start < 20_000, `${Date.now() - start} ms`);
  const words = await page.locator("#strip button").allInnerTexts();
  assert.match(words[0], /^x{20,40}…$/);
  assert.equal(words[2], "<b>c</b>");
});

test("a word cannot turn the text around it", async () => {
  const tokens = JSON.stringify([["a\u202eb", "\u2067c", "שלום"]]);
  await recomputed(page, () => drop(page, { "turned.safetensors": caseOf({ query }, { num_heads: 2 }, { tokens }) }));
  const words = await page.locator("#strip button").evaluateAll((all) => all.map((one) => one.textContent));
  assert.deepEqual(words, ["a\ufffdb", "\ufffdc", "שלום"]);
  assert.equal(await page.locator("#links li").first().locator("bdi").count(), 2);
  assert.doesNotMatch((await download(page, "map-svg")).bytes.toString(), /[\u202a-\u202e\u2066-\u2069]/);
  // As for one that opens a page of its own.
  await page.click("#take > summary");
});

test("a map of thousands of tokens freezes nothing", async () => {
  const length = 1500;
  const long = { data: Array.from({ length: 2 * length }, (_, place) => Math.sin(place)), shape: [1, length, 2] };
  const bytes = caseOf({ query: long }, { num_heads: 2 });
  // The longest time between two frames of the page.
  await page.evaluate(() => {
    window.longest = 0;
    let last = performance.now();
    const tick = (now) => {
      window.longest = Math.max(window.longest, now - last);
      last = now;
      requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
  });
  await recomputed(page, () => page.setInputFiles("#file", { name: "long.safetensors", mimeType: "", buffer: bytes }));
  await page.locator("#map").hover();
  const longest = await page.evaluate(() => window.longest);
  assert.ok(longest < 4000, `${longest} ms without a frame`);
  assert.equal(await page.locator("#strip button").count(), 256);
});

test("a file that cannot be computed changes nothing, and says why", async () => {
  await recomputed(page, () => page.setInputFiles("#file", caseFile("one_head")));
  const before = await text("#source-about");
  const wide = { data: [], shape: [1, 0, 4] };
  for (const [bytes, said] of [
    [caseOf({ query, key: { data: query.data, shape: [2, 3, 2] } }, { num_heads: 2 }), /key has shape/i],
    [caseOf({ query }, { num_heads: 2 }, { tokens: '[["a", "b"]]' }), /tokens.*3 queries/],
    [caseOf({ query: wide }, '{"num_heads": 3}'), /num_heads|4/],
    [caseOf({ query }, { num_heads: 3 }), /num_heads is 3|3/],
  ]) {
    await drop(page, { "bad.safetensors": bytes });
    await dismiss("source", said);
    assert.equal(await text("#source-about"), before);
    assert.equal(await page.getAttribute("#badge", "data-state"), "good");
  }
});

test("junk in the form of random data is refused there", async () => {
  await page.click("#random-panel > summary");
  const before = page.url();
  for (const junk of ["0", "-1", "1e9", "", "2.5", "1e-9"]) {
    await page.fill("#random-tokens", junk);
    await page.click("#random-form button");
    assert.ok(await page.locator("#random-tokens").evaluate((field) => !field.validity.valid), junk);
    assert.match(await text("#random-cost"), /^E = \d+; [\d.]+ [kMG]?FLOP/);
  }
  assert.equal(page.url(), before);
  // Letters never reach a field of numbers.
  await page.fill("#random-tokens", "4");
  await page.locator("#random-tokens").pressSequentially("abc");
  await page.fill("#random-heads", "2");
  await page.fill("#random-dim", "2");
  await page.fill("#random-seed", "999999");
  await recomputed(page, () => page.click("#random-form button"));
  assert.match(await text("#source-about"), /4 tokens, 2 heads of width 2/);
});

test("any words can be aligned, or are told why not", async () => {
  await page.locator("#alignment").scrollIntoViewIfNeeded();
  for (const [word, said] of [
    ["   ", /Both words need a letter/],
    ["<b>&amp;", /behave so/],
    ["0", /behave so/],
    ["😀👩‍👩‍👧é", /behave so/],
    ["שלום", /behave so/],
    ["a".repeat(64), /behave so/],
  ]) {
    await page.fill("#alignment-query", word);
    await page.click("#alignment-form button");
    await page.waitForFunction(
      ([word, said]) =>
        (new URLSearchParams(location.hash.slice(1)).get("asks") ?? "attention") === word.trim() &&
        new RegExp(said).test(document.querySelector("#alignment-said").textContent),
      [word, said.source],
      { timeout: PATIENCE },
    );
  }
});

test("whoever clicks everything at once gets what was clicked last", async () => {
  await page.goto(addressOf(SMALL));
  await page.reload();
  await computed(page);
  await page.evaluate(() => {
    const keep = ["lose", "open-file"];
    const all = document.querySelectorAll("main button, main input[type=checkbox]");
    for (let turn = 0; turn < 4; turn += 1)
      for (const control of all)
        if (!keep.includes(control.id) && !control.closest("#take") && control.checkVisibility()) control.click();
    for (const select of document.querySelectorAll("main select:not(#sentence, #backend)"))
      for (const option of select.options) {
        select.value = option.value;
        select.dispatchEvent(new Event("change", { bubbles: true }));
      }
    for (const slider of document.querySelectorAll("main input[type=range]"))
      for (const value of [slider.min, slider.max, "1"]) {
        slider.value = value;
        slider.dispatchEvent(new Event("input", { bubbles: true }));
      }
    document.querySelector("#mask-none").click();
  });
  await computed(page);
  await page.waitForFunction(() => !/computing|timing/.test(document.querySelector("#book").textContent), null, {
    timeout: PATIENCE,
  });
  assert.equal(await page.getAttribute("#mask-none", "aria-pressed"), "true");
  assert.ok(!(await page.isChecked("#causal")));
  assert.match(await text("#free-table tbody tr:first-child"), /1,048,576/, "the width that was chosen last");
  assert.equal(await page.locator('.notice[data-kind="error"]').count(), 0);
});

test("what is timed is shown, whatever is counted meanwhile", async () => {
  const { page: fresh } = await openPage(browser);
  // Both at once: the card comes into view, and is clicked.
  await fresh.evaluate(() => document.querySelector("#free-form button").click());
  await fresh.locator("#free").scrollIntoViewIfNeeded();
  await fresh.waitForFunction(() => /medians of 5 runs/.test(document.querySelector("#free-note").textContent), null, {
    timeout: PATIENCE,
  });
  await fresh.waitForTimeout(500);
  assert.match(await fresh.innerText("#free-note"), /medians of 5 runs/);
  await fresh.context().close();
});

test("what is chosen while the model comes is shown, and stays", async () => {
  const { page: fresh, faults } = await newPage(browser);
  const about = () => fresh.innerText("#source-about");
  let letIn;
  const gate = new Promise((resolve) => (letIn = resolve));
  await fresh.route("**/minilm_heads.safetensors", async (route) => {
    await gate;
    await route.continue();
  });
  await fresh.goto(addressOf("device=cpu"));
  await fresh.waitForSelector("#progress:not([hidden]), #device-chip:not(:empty)");
  await drop(fresh, { "mine.safetensors": caseOf({ query }, '{"num_heads": 2}') });
  await computed(fresh);
  assert.match(await about(), /^mine\.safetensors/);
  letIn();
  await fresh.waitForFunction(() => document.querySelectorAll("#sentence option").length > 2);
  await fresh.waitForTimeout(1000);
  assert.match(await about(), /^mine\.safetensors/);
  assert.equal(await fresh.locator("#strip button").count(), 3);
  // Both in one breath: the later one counts, and its numbers are its own.
  await fresh.click("#random-panel > summary");
  await recomputed(fresh, () =>
    fresh.evaluate(() => {
      const sentence = document.querySelector("#sentence");
      sentence.value = "2";
      sentence.dispatchEvent(new Event("change"));
      document.querySelector("#random-form button").click();
    }),
  );
  await fresh.waitForTimeout(500);
  assert.match(await about(), /^random numbers/);
  const tokens = Number(await fresh.inputValue("#random-tokens"));
  assert.equal(await fresh.locator("#strip button").count(), tokens);
  assert.match(await fresh.innerText("#badge"), /^proved to/);
  assert.deepEqual(faults, []);
  await fresh.context().close();
});

test("what did not come may be asked for again", async () => {
  const { page: fresh } = await newPage(browser);
  let broken = true;
  await fresh.route("**/minilm_heads.safetensors", (route) =>
    broken ? route.fulfill({ status: 200, body: "<!doctype html>" }) : route.continue(),
  );
  await fresh.goto(addressOf("device=cpu"));
  const notice = fresh.locator('.notice[data-name="source"]');
  await notice.waitFor();
  assert.match(await notice.innerText(), /^What came from http.* is not the model's data/);
  broken = false;
  await fresh.selectOption("#sentence", "0");
  await computed(fresh);
  assert.match(await fresh.innerText("#badge"), /^proved to/);
  await fresh.context().close();
});

test("Back and Forward show what was shown", async () => {
  await page.goto(addressOf(SMALL));
  await page.reload();
  await computed(page);
  const views = ["sizes=5.2.2.1&head=0.1&source=random&query=none", "sizes=4.2.2.1&head=0.0&source=random&query=none"];
  for (const view of views) await recomputed(page, () => page.evaluate((view) => (location.hash = view), view));
  assert.equal(await page.locator("#strip button").count(), 4);
  await recomputed(page, () => page.goBack());
  assert.equal(await page.locator("#strip button").count(), 5);
  assert.equal(await text("#map-title"), "Head 1");
  await recomputed(page, () => page.goBack());
  assert.equal(await page.locator("#strip button").count(), 6);
  await recomputed(page, () => page.goForward());
  assert.equal(await page.locator("#strip button").count(), 5);
  // Several steps at once.
  await page.evaluate(() => history.back());
  await page.evaluate(() => history.forward());
  await page.evaluate(() => history.forward());
  // A step that is still under way gives place to the next: which view it ends with is the browser's to say.
  await page.waitForFunction(() => {
    const asked = new URLSearchParams(location.hash.slice(1));
    const [tokens, head] = [asked.get("sizes").split(".")[0], asked.get("head").split(".")[1]];
    const title = document.querySelector("#map-title").textContent;
    return document.querySelectorAll("#strip button").length === Number(tokens) && title === `Head ${head}`;
  });
  await computed(page);
});

test("a link may ask for lengths that no key has", async () => {
  await recomputed(page, () =>
    page.evaluate(() => (location.hash = "source=random&sizes=4.2.2.2&valid_len=999&query=none")),
  );
  assert.ok(!(await page.isChecked("#valid-on")));
  assert.equal(await page.getAttribute("#badge", "data-state"), "good");
  assert.doesNotMatch(page.url(), /valid_len/);
});

test("from random data the way leads to the sentences", async () => {
  const { page: fresh, faults } = await openPage(browser, `${SMALL}&device=cpu`);
  assert.ok(await fresh.isEnabled("#sentence"));
  assert.match(await fresh.innerText("#sentence"), /choose one/);
  await recomputed(fresh, () => fresh.selectOption("#sentence", "0"));
  assert.equal(await fresh.locator("#grid button").count(), 72);
  assert.equal(await fresh.locator("#sentence option:enabled").count(), 8);
  assert.deepEqual(faults, []);
  await fresh.context().close();
});

test("a device that is lost twice is back once", async () => {
  await page.evaluate(() => {
    window.claims = [];
    new MutationObserver(() => {
      const lost = document.querySelector('.notice[data-name="lost"]')?.textContent ?? "";
      if (/is back/.test(lost)) window.claims.push(document.querySelector("#device-chip").textContent);
    }).observe(document.querySelector("#notices"), { childList: true });
  });
  // As soon as it can be lost again, while it is still being computed on.
  await page.evaluate(() => {
    const lose = document.querySelector("#lose");
    window.losses = 1;
    new MutationObserver(() => {
      if (lose.disabled || window.losses === 2) return;
      window.losses = 2;
      lose.click();
    }).observe(lose, { attributes: true });
    lose.click();
  });
  await page.waitForFunction(() => window.losses === 2 && window.claims.length > 0, null, { timeout: PATIENCE });
  await computed(page);
  const claims = await page.evaluate(() => window.claims);
  assert.ok(
    claims.every((chip) => /swiftshader/.test(chip)),
    `${claims}`,
  );
  assert.equal(await page.locator('.notice[data-kind="error"]').count(), 0);
});

test("the window changes its size while something is computed", async () => {
  for (const [width, height] of [
    [400, 800],
    [1280, 500],
    [820, 900],
    [1280, 900],
  ]) {
    await page.evaluate(() => document.querySelector("#causal").click());
    await page.setViewportSize({ width, height });
  }
  await computed(page);
  const { map, frame } = await page.evaluate(() => ({
    map: document.querySelector("#map").getBoundingClientRect().width,
    frame: document.querySelector("#map-frame").getBoundingClientRect().width,
  }));
  assert.ok(Math.abs(map - frame) < 2, `${map} in ${frame}`);
});

test("good news goes away by itself", async () => {
  await page.click("#take > summary");
  await page.click('[data-take="csv"]');
  await page.waitForSelector('.notice[data-name="link"]');
  await page.waitForSelector('.notice[data-name="link"]', { state: "detached", timeout: 15_000 });
});

test("nothing of all this was an error to the browser", () => assert.deepEqual(faults, []));
