import assert from "node:assert/strict";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { csvCell, csvText } from "../../../../../src/understudy/commutes/map/templates/csv.js";
import { decodeArrays } from "../../../../../src/understudy/commutes/map/templates/decode.js";
import { distanceColours, viridis } from "../../../../../src/understudy/commutes/map/templates/colours.js";
import { countsCsv } from "../../../../../src/understudy/commutes/map/templates/download.js";
import { lengthText } from "../../../../../src/understudy/commutes/map/templates/furniture.js";
import { linkOf, selectionOf } from "../../../../../src/understudy/commutes/map/templates/link.js";
import { fold, makeSearch } from "../../../../../src/understudy/commutes/map/templates/search.js";
import { everything, summarise } from "../../../../../src/understudy/commutes/map/templates/select.js";
import { testWorld } from "./world.mjs";

test("links and selections are the same thing", () => {
  const world = testWorld();
  const selections = [
    everything("dest"),
    everything("home"),
    { side: "dest", kind: "place", value: 2 },
    { side: "home", kind: "area", value: [0, 1] },
    { side: "dest", kind: "box", value: [-1.5, -2, 3.25, 4] },
  ];
  for (const selection of selections) assert.deepEqual(selectionOf(world, `#${linkOf(world, selection)}`), { selection });
  assert.equal(linkOf(world, selections[2]), "dest=c");
});

test("ids with every character survive a link", () => {
  const world = testWorld();
  world.places.ids = ["a&b=c", "#x", "%41", "é,:", "lost"];
  for (let value = 0; value < 4; value += 1) {
    const selection = { side: "dest", kind: "place", value };
    assert.deepEqual(selectionOf(world, `#${linkOf(world, selection)}`), { selection });
  }
});

test("a link that names nothing says so", () => {
  const world = testWorld();
  const links = ["#dest=zz", "#nonsense", "#dest-area=county:north", "#dest-area=x:east", "#dest-box=1,2", "#dest-box=1,2,,4", "#dest=%", "#dest-box=1,9,2,3"];
  for (const link of links) {
    const { selection, problem } = selectionOf(world, link);
    assert.equal(selection, undefined, link);
    assert.ok(problem.length > 10, link);
  }
});

test("search finds by id, by name without accents, by area; exact first", () => {
  const search = makeSearch(testWorld());
  assert.deepEqual(search.find("delta").map((found) => found.value), [3]);
  assert.deepEqual(search.find("D")[0].value, 3);
  assert.deepEqual(search.find("GAM")[0], { kind: "place", value: 2, label: "Gamma", note: "c", keys: ["gamma", "c"] });
  assert.deepEqual(search.find("east").map((found) => [found.kind, found.value]), [["area", [0, 0]]]);
  assert.deepEqual(search.find("lost")[0].label, "lost");
  assert.deepEqual(search.find("  "), []);
  assert.deepEqual(search.find("zzz"), []);
  assert.equal(fold(" São Paulo "), "sao paulo");
});

test("a spreadsheet does not take a name for a formula", () => {
  assert.equal(csvCell('=cmd|"x"'), `"'=cmd|""x"""`);
  assert.equal(csvCell("@sum"), "'@sum");
  assert.equal(csvCell("-12.5"), "-12.5");
  assert.equal(csvCell(-3), "-3");
  assert.equal(csvCell("a,b"), '"a,b"');
  assert.equal(csvCell(null), "");
  assert.equal(csvText(["x\ny"], ["a", "b"], [[1, "c"]]), "# x y\r\na,b\r\n1,c\r\n");
});

test("the file has one line for every place with jobs, elsewhere last", () => {
  const world = testWorld({ prior: 4 });
  const flows = world.releases[0];
  const classes = new Uint8Array(flows.jobs.length);
  const summary = summarise(world, flows, everything("dest"), null, classes, 12, null, 0);
  const lines = countsCsv(world, everything("dest"), "All", [summary]).trim().split("\r\n");
  assert.ok(lines[0].startsWith("# Synthetic data"));
  assert.equal(lines[4], "home,name,county,jobs,low,high");
  assert.equal(lines.length, 5 + 6);
  assert.match(lines[5], /^a,Alpha,west,4,\d+,\d+$/);
  assert.match(lines.at(-1), /^elsewhere,,,4,\d+,\d+$/);
});

test("arrays come out as they went in", async () => {
  const floats = Float32Array.of(1.5, -2);
  const json = new TextEncoder().encode('["ä","<"]');
  const bytes = Buffer.concat([Buffer.from(floats.buffer), Buffer.from(json)]);
  const directory = [
    { name: "x", type: "Float32Array", offset: 0, length: 2 },
    { name: "ids", type: "json", offset: 8, length: json.length },
  ];
  const arrays = await decodeArrays(gzipSync(bytes).toString("base64"), directory);
  assert.deepEqual([...arrays.x], [1.5, -2]);
  assert.deepEqual(arrays.ids, ["ä", "<"]);
  await assert.rejects(decodeArrays(gzipSync(bytes).toString("base64"), [{ name: "x", type: "Function", offset: 0, length: 1 }]), /unknown type/);
});

/** How bright a colour is to the eye (relative luminance). */
function luminance(colour) {
  const [r, g, b] = colour.map((value) => (value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

test("colours change steadily in brightness, so that they are told apart in grey too", () => {
  for (const dark of [false, true]) {
    const bright = distanceColours(12, dark).map(luminance);
    for (let c = 1; c < bright.length; c += 1) assert.ok(dark ? bright[c] > bright[c - 1] : bright[c] < bright[c - 1]);
  }
  assert.deepEqual(viridis(0), [68, 1, 84]);
  assert.deepEqual(viridis(2), [253, 231, 37]);
});

test("lengths of the scale bar", () => {
  assert.deepEqual([lengthText(0.2, "km"), lengthText(5, "km"), lengthText(0.5, "mi")], ["200 m", "5 km", "0.5 mi"]);
});
