import assert from "node:assert/strict";
import { test } from "node:test";
import { makeDots, stride } from "../../../../../src/understudy/commutes/map/templates/dots.js";
import { IDS, testWorld } from "./world.mjs";

const chosen = (...ids) => Uint8Array.from([...IDS, ""], (id) => (ids.includes(id) ? 1 : 0));

test("every job with a known home has one dot, and the others are counted", () => {
  const world = testWorld();
  const dots = makeDots(world.releases[0], world.places, "dest");
  assert.equal(dots.pairs.length, 3 + 2 + 1 + 1 + 5);
  assert.equal(dots.nowhere, 4 + 2);
  assert.equal(dots.every, 1);
});

test("a dot lies within the spread of its place", () => {
  const world = testWorld();
  const { positions, pairs } = makeDots(world.releases[0], world.places, "dest");
  pairs.forEach((pair, dot) => {
    const place = world.releases[0].origin[pair];
    const off = Math.hypot(positions[2 * dot] - world.places.x[place], positions[2 * dot + 1] - world.places.y[place]);
    assert.ok(off <= 0.5 + 1e-4, `${off}`);
  });
});

test("no two dots of a place share a seat", () => {
  const world = testWorld();
  const { positions } = makeDots(world.releases[0], world.places, "dest");
  const seats = new Set();
  for (let i = 0; i < positions.length; i += 2) seats.add(`${positions[i].toFixed(4)},${positions[i + 1].toFixed(4)}`);
  assert.equal(seats.size, positions.length / 2);
});

test("a selection shows its own dots where they were before", () => {
  const world = testWorld();
  const all = makeDots(world.releases[0], world.places, "dest");
  const some = makeDots(world.releases[0], world.places, "dest", chosen("a"));
  assert.equal(some.pairs.length, 6);
  assert.deepEqual([...some.positions], [...all.positions.slice(0, 12)]); // pairs of destination a come first
  const homes = makeDots(world.releases[0], world.places, "home", chosen("a"));
  assert.deepEqual([...homes.pairs].map((pair) => world.releases[0].destination[pair]), [0, 0, 0, 2]);
});

test("beyond the limit every k-th job has a dot, always the same", () => {
  const world = testWorld();
  const thin = makeDots(world.releases[0], world.places, "dest", null, 5);
  assert.equal(thin.every, 3);
  assert.equal(thin.pairs.length, 4);
  const all = makeDots(world.releases[0], world.places, "dest");
  assert.deepEqual([...thin.pairs], [0, 3, 6, 9].map((job) => all.pairs[job]));
  assert.deepEqual(thin, makeDots(world.releases[0], world.places, "dest", null, 5));
});

test("strides visit every seat", () => {
  for (const total of [1, 2, 3, 4, 6, 10, 97, 360, 1000]) {
    const seats = new Set(Array.from({ length: total }, (_, job) => (job * stride(total)) % total));
    assert.equal(seats.size, total);
  }
});
