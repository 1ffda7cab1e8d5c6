// Files: what goes in, what comes out, and a link that restores the view.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, before, test } from "node:test";
import {
  caseFile,
  caseOf,
  download,
  drop,
  mapInView,
  openBrowser,
  openBrowserWithoutGpu,
  openPage,
  recomputed,
  rowsOf,
  safetensors,
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

/** A PNG file as the browser decodes it: its size, and the colours at some points. */
function decoded(bytes, points) {
  return page.evaluate(
    async ([bytes, points]) => {
      const picture = await createImageBitmap(new Blob([new Uint8Array(bytes)], { type: "image/png" }));
      const canvas = new OffscreenCanvas(picture.width, picture.height);
      const context = canvas.getContext("2d", { willReadFrequently: true });
      context.drawImage(picture, 0, 0);
      const colors = points.map(([x, y]) => [...context.getImageData(x, y, 1, 1).data.slice(0, 3)]);
      return { width: picture.width, height: picture.height, colors };
    },
    [[...bytes], points],
  );
}

// The ends of viridis, as matplotlib publishes them.
const [NOTHING, EVERYTHING] = [
  [68, 1, 84],
  [253, 231, 37],
];

test("random data has the sizes that were asked for", async () => {
  await page.click("#random-panel > summary");
  await page.fill("#random-tokens", "5");
  await page.fill("#random-heads", "3");
  await page.fill("#random-dim", "4");
  await page.fill("#random-seed", "7");
  // 8·5·12² + 4·5²·12, by D2L's count.
  assert.match(await text("#random-cost"), /E = 12; 6\.96 kFLOP/);
  await recomputed(page, () => page.click("#random-form button"));
  assert.equal(await page.locator("#grid button").count(), 3);
  const { keys, weights } = await mapInView(page);
  assert.deepEqual(keys, ["t0", "t1", "t2", "t3", "t4"]);
  for (const row of weights) assert.ok(Math.abs(row.reduce((sum, weight) => sum + weight) - 1) < 2 ** -20);
});

test("a PNG shows the weights in the colours of the scale", async () => {
  await recomputed(page, () => page.check("#causal"));
  const svg = (await download(page, "map-svg")).bytes.toString();
  const cells = [
    ...svg.matchAll(
      /<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)" fill="rgb\((\d+),(\d+),(\d+)\)"/g,
    ),
  ];
  const middle = (place) =>
    [cells[place][1] * 1 + cells[place][3] / 2, cells[place][2] * 1 + cells[place][4] / 2].map((at) =>
      Math.round(at * 3),
    );
  const { name, bytes } = await download(page, "map-png");
  assert.equal(name, "multihead-layer0-head0-map.png");
  // The first query sees the first key alone: (0, 0) is 1 and (0, 4) is 0.
  const { width, colors } = await decoded(bytes, [middle(0), middle(4)]);
  assert.equal(width, 560 * 3);
  assert.deepEqual(colors, [EVERYTHING, NOTHING]);
});

test("an SVG is well formed, with a rectangle for each cell and every word", async () => {
  const { name, bytes } = await download(page, "map-svg");
  assert.equal(name, "multihead-layer0-head0-map.svg");
  const { cells, words, title, wrong } = await page.evaluate((text) => {
    const drawing = new DOMParser().parseFromString(text, "image/svg+xml");
    return {
      wrong: drawing.querySelectorAll("parsererror").length,
      // 25 cells, and 64 steps of the colour bar.
      cells: drawing.querySelectorAll("g rect").length,
      words: [...drawing.querySelectorAll("text")].map((word) => word.textContent),
      title: drawing.querySelector("title").textContent,
    };
  }, bytes.toString());
  assert.equal(wrong, 0);
  assert.equal(cells, 25 + 64);
  assert.equal(title, "head 0 · causal · random numbers, seed 7");
  for (const token of ["t0", "t4"]) assert.equal(words.filter((word) => word === token).length, 2);
});

test("a whole layer and the lines can be had as pictures", async () => {
  for (const [what, name] of [
    ["layer-png", "multihead-layer0.png"],
    ["lines-png", "multihead-layer0-head0-lines.png"],
  ]) {
    const file = await download(page, what);
    assert.equal(file.name, name);
    const { width, height } = await decoded(file.bytes, []);
    assert.ok(width > 400 && height > 200, `${width}×${height}`);
  }
  const layer = (await download(page, "layer-svg")).bytes.toString();
  for (const head of [0, 1, 2]) assert.ok(layer.includes(`>head ${head}</text>`));
  assert.ok(
    layer.includes("<title>causal · random numbers, seed 7</title>"),
    "the layer's picture is named after no head",
  );
  const lines = (await download(page, "lines-svg")).bytes.toString();
  const { weights } = await mapInView(page);
  const drawn = weights.flat().filter((weight) => weight >= 0.05).length;
  assert.equal([...lines.matchAll(/<line /g)].length, drawn);
});

test("CSV, NPY and case file hold the same numbers", async () => {
  const csv = rowsOf((await download(page, "csv")).bytes.toString())
    .slice(1)
    .map((row) => row.slice(1).map(Number));
  const npy = await download(page, "npy");
  assert.equal(npy.name, "multihead-layer0.npy");
  assert.equal(npy.bytes.subarray(0, 8).toString("latin1"), "\x93NUMPY\x01\x00");
  const length = npy.bytes.readUInt16LE(8);
  const header = npy.bytes.subarray(10, 10 + length).toString();
  assert.match(header, /'descr': '<f4'/);
  assert.match(header, /'fortran_order': False/);
  assert.match(header, /'shape': \(3, 5, 5\)/);
  const numbers = new Float32Array(new Uint8Array(npy.bytes.subarray(10 + length)).buffer);
  assert.equal(numbers.length, 75);
  assert.deepEqual([...numbers.subarray(0, 25)], csv.flat().map(Math.fround));

  const file = await download(page, "case");
  const { metadata, tensors, floats } = safetensors(file.bytes);
  const settings = JSON.parse(metadata.attention);
  assert.equal(settings.num_heads, 3);
  assert.equal(settings.causal, true);
  assert.deepEqual(JSON.parse(metadata.tokens), [["t0", "t1", "t2", "t3", "t4"]]);
  assert.deepEqual(tensors.query.shape, [1, 5, 12]);
  assert.deepEqual(tensors["expected.attention_weights"].shape, [1, 3, 5, 5]);
  floats("expected.attention_weights").forEach((weight, place) => assert.equal(weight, numbers[place]));
  await recomputed(page, () => drop(page, { "mine.safetensors": file.bytes }));
  assert.match(await text("#verdict"), /The answer is as the file expects/);
  assert.ok(await page.isChecked("#causal"));
});

test("case files of the repository are read, each with its answer", async () => {
  for (const [name, heads, masks] of [
    ["valid_lens_per_query", null, /valid_lens/],
    ["r14_causal_and_mask", null, /attend_mask/],
    ["cross_4_9", null, null],
    ["dropout_quarter", null, /dropout 0\.25, seed 3\. Maps show the weights before that\./],
    ["r17_window_3", null, /sets (causal and )?window 3;/],
    ["r15_causal_offset_2", null, /sets causal; .* query_offset 2: query 0 stands at position 2\./],
  ]) {
    const bytes = await readFile(caseFile(name));
    await recomputed(page, () => page.setInputFiles("#file", caseFile(name)));
    const { metadata } = safetensors(bytes);
    assert.equal(await page.locator("#grid button").count(), JSON.parse(metadata.attention).num_heads, name);
    assert.match(await text("#verdict"), /The answer is as the file expects/, name);
    assert.ok((await text("#source-about")).startsWith(`${name}.safetensors`));
    if (masks) assert.match(await text("#own-masks"), masks);
  }
});

test("NaN is called NaN, and nothing is proved of it", async () => {
  await recomputed(page, () => page.setInputFiles("#file", caseFile("nan_visible")), "bad");
  assert.match(await text("#badge"), /^[1-9][\d,]* NaN$/);
  assert.match(await text("#verdict"), /but for [1-9][\d,]* NaN/);
  assert.match(await text("#verdict"), /NaN: [1-9][\d,]*, as in the reference/);
  assert.match(await text("#verdict"), /The answer is as the file expects/);
  // There the values have it. Where a query has it, its weights are NaN.
  const data = [1, 0, Number.NaN, 0, 1, 1, 0, 1];
  const key = { data: [1, 0, 0, 1, 0, 1], shape: [1, 3, 2] };
  const bytes = caseOf({ query: { data, shape: [1, 4, 2] }, key }, { num_heads: 1 });
  await recomputed(page, () => drop(page, { "nan.safetensors": bytes }), "bad");
  assert.equal(await text("#finding"), "In head 0, 3 of 12 weights are NaN.");
  assert.match(await text("#statistics"), /3 of 12 are NaN/);
  assert.match(await text("#links"), /^q1 → k0 NaN/);
  await page.locator("#strip button").nth(1).click();
  await page.waitForFunction(() => /q1 has weights that are NaN/.test(document.querySelector("#finding").textContent));
  assert.doesNotMatch(await text("#heads"), /sees no key|–/);
});

test("what is said of a token after is said of those that have one", async () => {
  // The first token looks at the second alone, which looks at itself.
  const [query, key] = [
    [9, 0, 0, 9],
    [0, 0, 9, 9],
  ].map((data) => ({ data, shape: [1, 2, 2] }));
  const bytes = caseOf({ query, key }, { num_heads: 1 });
  await recomputed(page, () => drop(page, { "two.safetensors": bytes }));
  // Over a map it would be about a row.
  await page.mouse.move(1, 1);
  assert.match(
    await text("#finding"),
    /^In head 0, 100\s% of the attention of tokens that have one after them goes to the token after\.$/,
  );
  assert.match((await text("#statistics")).replace(/\s+/g, " "), /next token 100 % .*separator –/);
});

test("a row that sees no key says so, and so does a head", async () => {
  await recomputed(page, () => page.setInputFiles("#file", caseFile("one_head")));
  await recomputed(page, () => page.locator("#valid").fill("0"));
  assert.match(await text("#finding"), /no query sees a key\.$/);
  assert.match(await text("#statistics"), /no query sees one/);
  assert.equal(await text("#links"), "");
  assert.match(await page.locator("#map-summary").textContent(), /No query sees a key/);
  await page.locator("#strip button").first().click();
  await page.waitForFunction(() =>
    /sees no key: its weights are zeros/.test(document.querySelector("#finding").textContent),
  );
  assert.doesNotMatch(await text("#heads"), /NaN keys|–/);
});

test("a file whose answer is another one is called out", async () => {
  const bytes = Buffer.from(await readFile(caseFile("one_head")));
  const { tensors } = safetensors(bytes);
  const place = 8 + Number(bytes.readBigUInt64LE(0)) + tensors["expected.output"].data_offsets[0];
  bytes.writeFloatLE(bytes.readFloatLE(place) + 1, place);
  await recomputed(page, () => drop(page, { "wrong.safetensors": bytes }), "bad");
  assert.equal(await text("#badge"), "not what the file expects");
  assert.match(await text("#verdict"), /The answer is NOT what the file expects/);
});

test("a file that is none changes nothing, and says why", async () => {
  const seen = () => Promise.all([text("#source-about"), text("#badge")]);
  const before = await seen();
  await drop(page, { "bad.safetensors": Buffer.from("this is no case file, whatever its name says") });
  await page.waitForSelector('.notice[data-name="source"][data-kind="error"]');
  const said = await text('.notice[data-name="source"]');
  assert.match(said, /^[A-Z].*\./);
  assert.deepEqual(await seen(), before);
  await page.click('.notice[data-name="source"] button');
  await recomputed(page, () => page.setInputFiles("#file", caseFile("causal_33")));
  assert.equal(await page.locator('.notice[data-kind="error"]').count(), 0);
});

test("an empty case says that there is nothing to see", async () => {
  await page.setInputFiles("#file", caseFile("r54_no_keys"));
  await page.waitForFunction(() => /nothing to see/.test(document.querySelector("#readout").textContent));
});

test("a link restores the whole view", async () => {
  const hash = [
    "source=random&sizes=6.2.4.1&head=0.1&query=3&causal=1&window=3&valid_len=5&temperature=2&off=0.0,0.0&pattern=first",
    "threshold=0.2&only_query=1&palette=cividis&theme=dark&graph=graph&asks=heads&asked=shade",
  ].join("&");
  const { page: first } = await openPage(browser, hash);
  await first.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  await first.click("#take > summary");
  await first.click('[data-take="link"]');
  await first.waitForSelector('.notice[data-name="link"]');
  const link = await first.evaluate(() => navigator.clipboard.readText());
  const { page: second } = await openPage(browser, new URL(link).hash.slice(1));
  const view = (page) =>
    page.evaluate(() => ({
      title: document.querySelector("#map-title").textContent,
      asks: document.querySelector('#strip [aria-pressed="true"]')?.textContent,
      finding: document.querySelector("#finding").textContent,
      checks: [...document.querySelectorAll("input[type=checkbox]")].map((box) => box.checked),
      sliders: [...document.querySelectorAll("input[type=range]")].map((slider) => slider.value),
      selects: [...document.querySelectorAll("select")].map((select) => select.value),
      off: [...document.querySelectorAll("#grid button")].map((button) => [
        button.dataset.off,
        button.dataset.dim,
        button.ariaCurrent,
      ]),
      without: document.querySelector("#without").textContent,
      links: document.querySelector("#links").textContent,
      theme: document.documentElement.dataset.theme,
      words: [document.querySelector("#alignment-query").value, document.querySelector("#alignment-key").value],
    }));
  const restored = await view(second);
  assert.deepEqual(restored, await view(first));
  assert.equal(restored.title, "Head 1");
  assert.equal(restored.asks, "t3");
  assert.equal(restored.theme, "dark");
  assert.deepEqual(restored.words, ["heads", "shade"]);
  assert.deepEqual(restored.checks, [true, true, true, true]);
  assert.ok(restored.selects.includes("cividis") && restored.selects.includes("graph"));
  assert.deepEqual(restored.off[0].slice(0, 1), ["true"]);
  assert.match(restored.without, /^Without head 0, /);
  await Promise.all([first.context().close(), second.context().close()]);
});

test("an address that makes no sense shows the page as it is by default", async (t) => {
  const nonsense = [
    "sentence=x&head=9.99.9&query=-1&temperature=99&off=a,b&window=0&valid_len=no",
    "sizes=0.0.0.0&palette=red&device=toaster",
  ].join("&");
  // By default the model is read, whose layers a software adapter is spared.
  const withoutGpu = await openBrowserWithoutGpu();
  t.after(() => withoutGpu.close());
  const { page: odd, faults } = await openPage(withoutGpu, nonsense);
  assert.equal(await odd.locator("#grid button").count(), 72);
  assert.equal(await odd.locator("#map-title").innerText(), "Layer 3, head 1");
  assert.equal(await odd.locator("#mask-none").getAttribute("aria-pressed"), "true");
  assert.equal(await odd.innerText("#temperature-out"), "1.00");
  await odd.click("#random-panel > summary");
  await odd.waitForFunction(() => document.querySelector("#random-tokens").value === "16");
  assert.deepEqual(faults, []);
});

test("nothing of all this was an error to the browser", async () => {
  assert.deepEqual(faults, []);
});
