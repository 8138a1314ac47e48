// How far a synthetic count may be from the count behind it.
//
// A workplace with n real jobs and a public prior of size A publishes m synthetic jobs drawn from a Dirichlet-
// multinomial law over zones of homes: the number z of them in a group of zones is beta-binomial with m draws and
// N = n + A balls in the urn, of which n_g + a_g belong to the group. Its variance is m p (1 - p) (N + m) / (N + 1) with
// p = (n_g + a_g) / N. Multiplied by N / m it estimates n_g + a_g. Draws of different workplaces are independent, so
// variances add. p is not known; (z + 1/2) / (m + 1) stands for it, so that a count of zero is not shown as certain.
//
// The prior pulls every workplace towards a public model, and all of them in the same way: of z jobs the share
// A / (n + A) may be where the model is and workers are not. These shares add up as they are, not as variances.
//
// Inside a zone homes are placed by a public model, and nothing in the release can tell whether it is right there. The
// range allows it to be off by half: half of the count for a group smaller than a zone, half of a zone for larger ones.

const MODEL_OFF_BY = 0.5;

/** Variance of the estimate for a group that shows `shown` of the `drawn` jobs of a workplace with so many zones. */
export function drawVariance(shown, drawn, prior, zones = Infinity) {
  if (drawn <= 0) return 0;
  const urn = drawn + prior;
  const p = Math.min((shown + 0.5) / (drawn + 1), 1);
  const placed = MODEL_OFF_BY * Math.min(shown, drawn / zones);
  return ((urn * urn) / drawn) * p * (1 - p) * ((urn + drawn) / (urn + 1)) + placed * placed;
}

/** How far to either side a range reaches: two standard errors, and what the prior may have pulled. */
export function reachOf(variance, pull) {
  return 2 * Math.sqrt(variance) + pull;
}

/** The range shown for a count: at least nothing and at most all jobs. */
export function rangeOf(count, reach, all) {
  return [Math.max(0, Math.floor(count - reach)), Math.min(all, Math.ceil(count + reach))];
}

/** Of the jobs of a workplace, the share that on average comes from the public prior and not from its workers. */
export function priorShare(drawn, prior) {
  return drawn > 0 ? prior / (drawn + prior) : 0;
}

/** The value that half of the weight does not exceed, of a Map from value to weight; null if there is none. */
export function weightedMedian(weights) {
  const values = [...weights.keys()].sort((a, b) => a - b);
  const half = values.reduce((sum, value) => sum + weights.get(value), 0) / 2;
  let passed = 0;
  return values.find((value) => (passed += weights.get(value)) >= half) ?? null;
}
