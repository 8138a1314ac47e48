import assert from "node:assert/strict";
import { test } from "node:test";
import {
  boxOf, boxOfMost, distanceKm, EARTH_KM, mapOf, MARGINS, middleOf, projectionAbout, roundLength, screenOf, viewOfBox,
  wrapLongitude,
} from "../../../../../src/understudy/commutes/map/templates/projection.js";

const near = (a, b, within) => assert.ok(Math.abs(a - b) <= within, `${a} is not within ${within} of ${b}`);

test("forward and inverse undo each other, also across the date line and near a pole", () => {
  for (const middle of [[41.5, -71.5], [-17, 179.5], [84, 20], [0, 0]]) {
    const { forward, inverse } = projectionAbout(middle);
    for (const [north, east] of [[0, 0], [0.5, 1.2], [-3, 2], [2, -4]]) {
      const [latitude, longitude] = inverse(...forward(middle[0] + north, middle[1] + east));
      near(latitude, middle[0] + north, 1e-9);
      near(wrapLongitude(longitude - middle[1] - east), 0, 1e-9);
    }
  }
});

test("areas keep their size: small squares of a degree measure what the sphere says", () => {
  const { forward } = projectionAbout([50, 10]);
  for (const latitude of [40, 50, 65]) {
    const step = 0.01;
    const corners = [[0, 0], [0, 1], [1, 1], [1, 0]].map(([n, e]) => forward(latitude + n * step, 20 + e * step));
    let twice = 0;
    corners.forEach(([x, y], i) => {
      const [nextX, nextY] = corners[(i + 1) % 4];
      twice += x * nextY - y * nextX;
    });
    const radians = Math.PI / 180;
    const sphere = EARTH_KM ** 2 * step * radians * (Math.sin((latitude + step) * radians) - Math.sin(latitude * radians));
    near(twice / 2 / sphere, 1, 1e-6);
  }
});

test("the middle of places on both sides of the date line lies between them", () => {
  const [latitude, longitude] = middleOf([10, 10], [179, -179]);
  near(Math.abs(longitude), 180, 1e-9);
  near(latitude, 10, 0.01);
  assert.deepEqual(middleOf([0, 0], [0, 180]), [0, 0]);
  assert.deepEqual(middleOf([NaN], [NaN]), [0, 0]);
});

test("distances are those of the great circle", () => {
  near(distanceKm(0, 0, 0, 90), (Math.PI / 2) * EARTH_KM, 1e-6);
  near(distanceKm(0, 179.5, 0, -179.5), (Math.PI / 180) * EARTH_KM, 1e-6);
  near(distanceKm(41.82, -71.41, 42.36, -71.06), 66.7, 0.3); // Providence to Boston
  assert.equal(distanceKm(12, 34, 12, 34), 0);
});

test("the window shows every point, and pixels and kilometres agree", () => {
  const view = viewOfBox(boxOf([0, 100, NaN], [0, 40, NaN]), 800, 600);
  for (const [x, y] of [[0, 0], [100, 40]]) {
    const [left, top] = screenOf(view, 800, 600, x, y);
    assert.ok(left >= MARGINS.left - 1 && left <= 801 - MARGINS.right);
    assert.ok(top >= MARGINS.top - 1 && top <= 601 - MARGINS.bottom);
    const [backX, backY] = mapOf(view, 800, 600, left, top);
    near(backX, x, 1e-9);
    near(backY, y, 1e-9);
  }
  const [left, top] = screenOf(viewOfBox(boxOf([5], [5]), 800, 600), 800, 600, 5, 5);
  assert.deepEqual([left, top].map(Math.round), [(28 + 800 - 66) / 2, (30 + 600 - 116) / 2]);
  assert.deepEqual(viewOfBox(boxOf([NaN], [NaN]), 800, 600), { x: 0, y: 0, scale: 1 });
});

test("a few far places do not make the rest tiny", () => {
  const xs = Float64Array.from({ length: 300 }, (_, i) => (i < 299 ? i % 20 : 900));
  const ys = Float64Array.from({ length: 300 }, (_, i) => (i < 299 ? Math.floor(i / 20) : 0));
  const weights = new Float64Array(300).fill(1);
  const whole = boxOf(xs, ys);
  const most = boxOfMost(xs, ys, weights, whole);
  assert.ok(most.right < 30 && most.left > -5);
  weights[299] = 100; // many jobs there: it belongs
  assert.equal(boxOfMost(xs, ys, weights, whole), whole);
  assert.equal(boxOfMost(xs, ys, new Float64Array(300), whole), whole);
  assert.equal(boxOfMost([], [], [], null), null);
});

test("round lengths", () => {
  assert.deepEqual([0.3, 1, 4.9, 5, 37].map(roundLength), [0.2, 1, 2, 5, 20]);
});
