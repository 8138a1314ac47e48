import assert from "node:assert/strict";
import { test } from "node:test";
import { byWholeAreas, drawVariance, followed, lawOf, meanReach, rangeOf, reachOf, reachOfPairs, unsure, weightedMedian } from "../../../../../src/understudy/commutes/map/templates/uncertainty.js";

/** Variance of a beta-binomial count, from its probabilities one by one. */
function betaBinomialVariance(draws, a, b) {
  const logGamma = (x) => {
    let shift = 0;
    for (; x < 12; x += 1) shift -= Math.log(x);
    return shift + (x - 0.5) * Math.log(x) - x + 0.918938533204673 + 1 / (12 * x) - 1 / (360 * x ** 3);
  };
  const logBeta = (p, q) => logGamma(p) + logGamma(q) - logGamma(p + q);
  let [mean, square] = [0, 0];
  for (let z = 0; z <= draws; z += 1) {
    const choose = logGamma(draws + 1) - logGamma(z + 1) - logGamma(draws - z + 1);
    const probability = Math.exp(choose + logBeta(z + a, draws - z + b) - logBeta(a, b));
    mean += z * probability;
    square += z * z * probability;
  }
  return square - mean * mean;
}

test("a draw from an urn has the variance of the beta-binomial law, scaled to the urn", () => {
  for (const [draws, prior, shown] of [[20, 5, 7], [50, 30, 3], [8, 2, 4]]) {
    const urn = draws + prior;
    const noise = (urn / draws) ** 2 * ((urn + draws) / (urn + 1)); // as map_law.py states it
    const p = (shown + 0.5) / (draws + 1);
    const exact = betaBinomialVariance(draws, p * urn, (1 - p) * urn) * (urn / draws) ** 2;
    assert.ok(Math.abs(drawVariance(shown, draws, noise) / exact - 1) < 1e-3);
  }
});

test("neither nothing seen nor everything seen is certain", () => {
  assert.ok(drawVariance(0, 10, 2) > 0);
  assert.ok(drawVariance(10, 10, 2) > 0);
  assert.ok(drawVariance(1, 1, 2) > 0.3);
  assert.equal(drawVariance(0, 0, 2), 0);
});

test("what follows the model: the model's share, and what is placed inside zones", () => {
  assert.equal(followed(8, 100, 0, 2), 8); // smaller than a zone of fifty
  assert.equal(followed(60, 100, 0, 20), 5); // one zone at its edge
  assert.equal(followed(60, 100, 0.5, 20), 32.5);
  assert.equal(followed(60, 100, 1, 20), 60);
  assert.equal(followed(1, 1, 0, 7), 1); // a zone with somebody in it has a job
  assert.equal(followed(3, 3, 0, 7), 1);
});

test("the only job of a workplace may live elsewhere in its zone, however small the noise", () => {
  const { variance, modelled } = unsure(1, 1, { model: 0, noise: 1, zones: 7 });
  assert.deepEqual(rangeOf(1, reachOf(variance, modelled), 1), [0, 1]);
});

test("the model is off by a quarter apart and a fifth alike", () => {
  const law = { model: 0, noise: 2, zones: 2 };
  const { variance, modelled } = unsure(8, 100, law);
  assert.ok(Math.abs(variance - drawVariance(8, 100, 2) - 4) < 1e-9); // a quarter of eight, squared
  assert.equal(modelled, 8);
  assert.equal(reachOf(9, 10), 6 + 2);
  const measured = { share: 0.7, jobs: 40 }; // by the release
  assert.equal(reachOf(9, 10, measured), 6 + 7);
  assert.equal(reachOf(9, 10, measured, 1), 6 + 40); // all jobs: noise is as large in a small area as in a large one
  assert.equal(reachOf(9, 10, measured, 0.5), 6 + 20);
  assert.equal(reachOf(9, 0, measured, 1), 6);
  // A hundred workplaces alike: errors apart grow with the root, those alike with the number.
  assert.equal(reachOf(100 * 9, 100 * 10), 60 + 200);
});

test("medians by weight", () => {
  assert.equal(weightedMedian(new Map([[40, 1], [2, 5], [7, 3]])), 2);
  assert.equal(weightedMedian(new Map([[40, 1], [2, 1], [7, 3]])), 7);
  assert.equal(weightedMedian(new Map()), null);
});

test("ranges hold whole numbers within reach, between nothing and all", () => {
  assert.deepEqual(rangeOf(1, reachOf(4, 0), 100), [0, 5]);
  assert.deepEqual(rangeOf(10, 5.5, 100), [5, 15]);
  assert.deepEqual(rangeOf(99, 4, 100), [95, 100]);
  assert.deepEqual(rangeOf(50, 0, 100), [50, 50]);
});

test("pairs of areas have the sum of their variances, and half a job because noise is whole", () => {
  assert.equal(reachOfPairs(4, 1, 1), 4.5);
  assert.equal(reachOfPairs(4, 2, 8), 16.5);
  assert.equal(reachOfPairs(4, 2, 0), 0);
});

test("an area has a value if all its places have it", () => {
  assert.deepEqual(byWholeAreas([0, 0, 1, 2], 4, (place) => place > 1), [false, true, true, undefined]);
  assert.equal(byWholeAreas([0, 0, 1], 2, (place) => place > 0), null);
  assert.deepEqual(byWholeAreas([0, 0, 1], 2, (place) => (place === 0 ? undefined : true)), [true, true]);
});

test("a mean distance reaches as far as its noise, the model and the error that all share", () => {
  const one = { jobs: 4, sum: 20, squares: 120, model: 0, noise: 1, zones: 1e9 }; // a sample of four, and no model
  const spread = (120 - 100 + 5) / 4; // its own, leaning on that of all, which is 5
  assert.ok(Math.abs(meanReach([one]) - (2 * Math.sqrt(4 * spread)) / 4) < 1e-6);
  const modelled = { ...one, model: 1 };
  assert.ok(Math.abs(meanReach([modelled]) - (2 * Math.sqrt(4 * spread + 1 * spread) + 0.2 * 4 * Math.sqrt(5)) / 4) < 1e-6);
  assert.ok(meanReach([modelled], { share: 0.5, jobs: 0 }) > meanReach([modelled]));
  assert.ok(meanReach([one, one, one, one]) < meanReach([one]));
  assert.equal(meanReach([]), null);
});

test("homes outside have zones of their own, where the release says so", () => {
  const law = { model: [0.5], noise: [2], zones: [8], outside: [3] };
  assert.equal(lawOf(law, 0).zones, 8);
  assert.equal(lawOf(law, 0, true).zones, 3);
  assert.equal(lawOf({ ...law, outside: null }, 0, true).zones, 8);
});
