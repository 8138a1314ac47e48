import assert from "node:assert/strict";
import { test } from "node:test";
import { drawVariance, priorShare, rangeOf, reachOf, weightedMedian } from "../../../../src/understudy/reporting/templates/map/uncertainty.js";

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

test("the formula is the variance of the beta-binomial law, scaled to the urn", () => {
  for (const [draws, prior, shown] of [[20, 5, 7], [50, 30, 3], [8, 2, 4]]) {
    const urn = draws + prior;
    const p = (shown + 0.5) / (draws + 1);
    const exact = betaBinomialVariance(draws, p * urn, (1 - p) * urn) * (urn / draws) ** 2;
    assert.ok(Math.abs(drawVariance(shown, draws, prior) / exact - 1) < 1e-3);
  }
});

test("neither nothing seen nor everything seen is certain", () => {
  assert.ok(drawVariance(0, 10, 3) > 0);
  assert.ok(drawVariance(10, 10, 3) > 0);
  assert.ok(drawVariance(1, 1, 1) > 0.5);
  assert.equal(drawVariance(0, 0, 3), 0);
});

test("the fewer the zones, the more the public model may be wrong", () => {
  const fine = drawVariance(8, 100, 10, 1000);
  assert.ok(Math.abs(drawVariance(8, 100, 10, 2) - fine - 16) < 0.01); // half of eight, squared
  assert.ok(Math.abs(drawVariance(60, 100, 10, 20) - drawVariance(60, 100, 10) - 6.25) < 1e-9); // half of a zone of five
});

test("medians by weight", () => {
  assert.equal(weightedMedian(new Map([[40, 1], [2, 5], [7, 3]])), 2);
  assert.equal(weightedMedian(new Map([[40, 1], [2, 1], [7, 3]])), 7);
  assert.equal(weightedMedian(new Map()), null);
});

test("ranges stay between nothing and all", () => {
  assert.deepEqual(rangeOf(1, reachOf(4, 0), 100), [0, 5]);
  assert.deepEqual(rangeOf(10, reachOf(4, 1.5), 100), [4, 16]);
  assert.deepEqual(rangeOf(99, 4, 100), [95, 100]);
  assert.deepEqual(rangeOf(50, 0, 100), [50, 50]);
});

test("the larger the prior, the less a workplace says about its workers", () => {
  assert.equal(priorShare(30, 10), 0.25);
  assert.equal(priorShare(0, 10), 0);
});
