import assert from "node:assert/strict";
import { test } from "node:test";
import { CLASSES, classEdgesKm, classesOf, classNames, classOf, classWidth, quantileKm } from "../../../../../src/understudy/commutes/map/templates/histogram.js";
import { boxAround, chosenPlaces, everything, flowsBetween, isInside, summarise, topGroups } from "../../../../../src/understudy/commutes/map/templates/select.js";
import { nearestAreas } from "../../../../../src/understudy/commutes/map/templates/overlay.js";
import { usualLevel } from "../../../../../src/understudy/commutes/map/templates/world.js";
import { testWorld } from "./world.mjs";

function counted(world, selection, level = 0) {
  const flows = world.releases[0];
  const classes = classesOf(flows, classEdgesKm(1, "km"));
  const { of, areas } = world.levels[level] ?? { of: null, areas: [] };
  return summarise(world, flows, selection, chosenPlaces(world, selection), classes, CLASSES, of, areas.length);
}

test("all jobs: counts, distances and areas", () => {
  const all = counted(testWorld(), everything("dest"));
  assert.equal(all.jobs, 18);
  assert.equal(all.elsewhere, 4);
  assert.equal(all.unplaced, 2);
  assert.equal(all.known, 12);
  assert.deepEqual([...all.groups], [2 + 1 + 5, 3 + 2 + 1, 4]); // homes in the east, in the west, elsewhere
  assert.deepEqual([...all.classes.slice(0, 4)], [3, 2, 1, 0]); // 0, 1.11 and 2.22 km
  assert.equal(all.classes[CLASSES - 1], 6); // 33 and 31 km
  assert.equal([...all.classes].reduce((a, b) => a + b), all.known);
});

test("workers of a place", () => {
  const world = testWorld();
  const one = counted(world, { side: "dest", kind: "place", value: 0 });
  assert.equal(one.jobs, 10);
  assert.deepEqual([...one.groups], [1, 5, 4]);
  const { km, jobs } = world.releases[0];
  assert.ok(Math.abs(one.meanKm - (2 * km[1] + km[2]) / 6) < 1e-9);
  assert.equal(one.medianKm, km[0]);
  assert.equal(jobs[0], 3);
});

test("residents of a place and of an area", () => {
  const world = testWorld();
  assert.deepEqual([...counted(world, { side: "home", kind: "place", value: 0 }).groups], [1, 3, 0]);
  const west = counted(world, { side: "home", kind: "area", value: [0, 1] });
  assert.equal(west.jobs, 6);
  assert.equal(west.elsewhere, 0);
});

test("counting by place keeps every place apart", () => {
  const one = counted(testWorld(), everything("dest"), null);
  assert.deepEqual([...one.groups], [4, 2, 5, 1, 2, 4]);
});

test("a box holds what lies inside, also across the date line, and never what lies nowhere", () => {
  const world = testWorld({ longitudes: [179_000_000, 179_900_000, -179_900_000, -100_000_000] });
  const box = (value) => [...chosenPlaces(world, { side: "dest", kind: "box", value })];
  assert.deepEqual(box([179.5, -1, -179.5, 1]), [0, 1, 1, 0, 0, 0]);
  assert.deepEqual(box([178, -1, 179.95, 1]), [1, 1, 0, 0, 0, 0]);
  assert.deepEqual(box([179.5, 1, -179.5, 2]), [0, 0, 0, 0, 0, 0]);
  assert.deepEqual(boxAround([[1, 179], [-1, -179]], 180), [179, -1, -179, 1]);
});

test("a selection of nothing counts nothing", () => {
  const none = counted(testWorld(), { side: "dest", kind: "box", value: [50, 50, 51, 51] });
  assert.equal(none.jobs, 0);
  assert.ok(Number.isNaN(none.meanKm));
  assert.ok(Number.isNaN(none.medianKm));
});

test("ranges add up over workplaces; only the public size of a workplace is certain", () => {
  const world = testWorld({ prior: 5 });
  const all = counted(world, everything("dest"));
  assert.ok([0, 1, 2].every((group) => all.groupReach[group] > 0));
  assert.equal(all.zones, 3); // ten jobs at a workplace with three zones, eight at others
  const only = counted(world, { side: "dest", kind: "place", value: 3 }); // all five of its workers live in c
  assert.ok(only.groupReach[0] > 0);
  assert.equal(only.zones, 9);
  assert.ok(Math.abs(only.fromModel - 2.5) < 1e-9);
  const work = counted(world, everything("home"));
  assert.ok(work.groupReach.every((reach) => reach === 0));
  assert.ok(work.classReach.some((reach) => reach > 0));
  assert.equal(counted(testWorld(), everything("dest")).groupReach, null);
});

test("flows between areas leave out those within one", () => {
  const world = testWorld();
  const between = () => flowsBetween(world.releases[0], everything("dest"), null, world.levels[0], 0, 10);
  world.releases[0].law = null;
  world.releases[0].pairs = { level: 0, variance: 0.01 };
  assert.deepEqual(between(), [{ from: 0, to: 1, jobs: 1 }, { from: 1, to: 0, jobs: 1 }]);
  world.releases[0].pairs = { level: 0, variance: 1 }; // the real number may be zero
  assert.deepEqual(between(), []);
  world.releases[0].pairs = null; // nothing says what it may be
  assert.deepEqual(between(), []);
});

test("a polygon chooses the places inside it, and a point on the other side of a dent is outside", () => {
  const dented = [[0, 0], [4, 0], [4, 4], [2, 1], [0, 4]];
  assert.equal(isInside(dented, 1, 1), true);
  assert.equal(isInside(dented, 2, 3), false);
  assert.equal(isInside(dented, 5, 1), false);
  const world = testWorld();
  const { latitude, longitude } = world.places;
  const around = (i) => [[-1, -1], [-1, 1], [1, 1], [1, -1]].map(([a, b]) => [latitude[i] + a * 1e-4, longitude[i] + b * 1e-4]);
  const chosen = chosenPlaces(world, { side: "dest", kind: "polygon", value: around(0) });
  assert.deepEqual([...chosen].flatMap((one, i) => (one ? [i] : [])), [0]);
});

test("who lives and works in a selection, and who does only one of the two, are all jobs that touch it", () => {
  const world = testWorld();
  const flows = world.releases[0];
  const selection = { side: "dest", kind: "area", value: [0, 0] };
  const chosen = chosenPlaces(world, selection);
  const { flow, turns, known } = counted(world, selection);
  const sums = [0, 0, 0];
  flows.jobs.forEach((jobs, pair) => {
    const [live, work] = [chosen[flows.origin[pair]], chosen[flows.destination[pair]]];
    if (live || work) sums[live && work ? 0 : work ? 1 : 2] += jobs;
  });
  assert.deepEqual([...flow.counts], sums);
  assert.ok([...turns].reduce((a, b) => a + b) <= known);
  assert.equal(counted(world, everything("dest")).flow, null);
});

test("the largest groups come first, ties by name, empty ones not at all", () => {
  assert.deepEqual(topGroups(Float64Array.from([2, 0, 5, 2]), (i) => "dcba"[i], 3), [2, 3, 0]);
});

test("classes are closed below and open above", () => {
  const edges = classEdgesKm(2, "km");
  assert.deepEqual([0, 1.99, 2, 21.99, 22, 500].map((km) => classOf(km, edges)), [0, 0, 1, 10, 11, 11]);
  assert.deepEqual(classNames(2).slice(0, 2), ["0–2", "2–4"]);
  assert.equal(classNames(2).at(-1), "22+");
  assert.ok(Math.abs(classEdgesKm(1, "mi")[0] - 1.609344) < 1e-12);
});

test("quantiles are those of the sorted jobs", () => {
  let seed = 7;
  const random = () => (seed = (seed * 16807) % 2147483647) / 2147483647;
  const flows = { km: Float64Array.from({ length: 500 }, () => random() ** 3 * 90), jobs: Uint8Array.from({ length: 500 }, () => 1 + random() * 5) };
  flows.km[3] = NaN;
  const sorted = [...flows.km.keys()].filter((i) => i !== 3).flatMap((i) => Array(flows.jobs[i]).fill(flows.km[i])).sort((a, b) => a - b);
  for (const share of [0.05, 0.5, 0.95, 1]) {
    assert.equal(quantileKm(flows, share, () => true), sorted[Math.ceil(share * sorted.length) - 1]);
  }
  assert.ok(Number.isNaN(quantileKm(flows, 0.5, () => false)));
});

test("the classes before the last hold the usual commute", () => {
  for (const longest of [0.01, 3, 37, 800]) {
    const flows = { km: Float64Array.from({ length: 100 }, (_, i) => (longest * (i + 1)) / 100), jobs: new Uint8Array(100).fill(1) };
    for (const unit of ["km", "mi"]) {
      const edges = classEdgesKm(classWidth([flows], unit), unit);
      assert.ok(edges.at(-1) >= 0.95 * longest - 1e-9, `${longest} ${unit}`);
    }
  }
});

test("the usual level has about fifty areas", () => {
  const level = (count) => ({ areas: Array(count) });
  assert.equal(usualLevel([level(1), level(5), level(40), level(3000)]), 2);
  assert.equal(usualLevel([level(1)]), null);
  assert.equal(usualLevel([]), null);
});

test("where only pairs of areas were measured, whole areas have ranges and parts of them none", () => {
  const world = testWorld();
  world.releases[0].pairs = { level: 0, variance: 9 };
  const reach = (selection, level) => counted(world, selection, level).groupReach;
  // Workplaces with jobs: a in the west; c and d in the east. Homes are in both areas.
  assert.deepEqual([...reach(everything("dest"))], [2 * Math.sqrt(9 * 2) + 0.5, 2 * Math.sqrt(9 * 2) + 0.5, 0]);
  assert.deepEqual([...reach({ side: "dest", kind: "area", value: [0, 0] })], [6.5, 6.5, 0]);
  assert.deepEqual([...reach({ side: "dest", kind: "place", value: 0 })], [6.5, 6.5, 0]); // b has no jobs: a is the area
  assert.equal(reach({ side: "dest", kind: "place", value: 2 }), null);
  assert.equal(reach({ side: "home", kind: "place", value: 0 }), null);
  assert.deepEqual([...reach({ side: "home", kind: "area", value: [0, 1] })], [6.5, 6.5, 0]);
  assert.deepEqual([...reach(everything("home"))], [0, 0, 0]); // all jobs of each workplace are public
  assert.equal(reach(everything("dest"), null), null); // place by place
  assert.equal(counted(world, everything("dest")).classReach, null);
});

test("a named outline selects the places inside it, and not those in its hole", () => {
  const world = testWorld();
  const { x, y } = world.places;
  const square = (middle, half) => {
    const corners = [[-half, -half], [half, -half], [half, half], [-half, half], [-half, -half]];
    return corners.map(([dx, dy]) => [x[middle] + dx, y[middle] + dy]);
  };
  const across = Math.abs(x[2] - x[0]);
  world.outlineNames = [{ text: "Ring", rings: [square(1, 1.2 * across), square(1, 0.1 * across)] }];
  const chosen = chosenPlaces(world, { side: "dest", kind: "outline", value: 0 });
  assert.deepEqual([...chosen].slice(0, 5), [1, 0, 1, 0, 0]); // b is in the hole, d is far away, one is nowhere
});

test("a spot of the window belongs to the area of the nearest place, and to none far from all", () => {
  const { places, levels } = testWorld();
  const view = { x: places.x[1], y: places.y[1], scale: 20 };
  const size = { width: 400, height: 100 };
  const spots = nearestAreas(places, levels[0].of, view, size);
  const at = (left, top) => spots[Math.floor(top / 5) * spots.columns + Math.floor(left / 5)];
  const leftOf = (place) => 200 + (places.x[place] - view.x) * view.scale;
  for (const place of [0, 1, 2]) assert.equal(at(leftOf(place), 52), levels[0].of[place]);
  const between = (leftOf(1) + leftOf(2)) / 2;
  assert.deepEqual([at(between - 6, 52), at(between + 6, 52)], [levels[0].of[1], levels[0].of[2]]);
  assert.equal(at(395, 2), -1);
});
