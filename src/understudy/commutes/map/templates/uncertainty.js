// How far a synthetic count may be from the count behind it.
//
// A release says of every workplace, from public facts: the variance of its counts in units of a binomial one (`noise`:
// the draw's own, independent between workplaces, so that variances add), the share of its jobs that follows the public
// model and not its workers (`model`), and how many zones of homes it tells apart. The binomial's p is not known;
// (z + 1/2) / (n + 1) stands for it, so that a count of zero is not shown as certain.
//
// Inside a zone homes follow the model too: all of a count smaller than a zone, and the zone at the edge of a larger
// count. The model has two errors. One is a quarter for each workplace by itself; it adds up as a variance. The other
// is shared by all workplaces; it adds up as it is. The release computes the shared error from its own noisy counts of
// workers by home area; if it measured none, a fifth is assumed.

const MODEL_OFF_BY = 0.25;
export const MODEL_OFF_ALIKE = 0.2;

/** Variance of the draw for a group that shows `shown` of the `drawn` jobs of a workplace. */
export function drawVariance(shown, drawn, noise) {
  if (drawn <= 0) return 0;
  const p = Math.min((shown + 0.5) / (drawn + 1), 1);
  return noise * drawn * p * (1 - p);
}

/** How many of the `shown` jobs follow the public model. */
export function followed(shown, drawn, model, zones) {
  return model * shown + (1 - model) * Math.min(shown, drawn / zones);
}

/** What is unsure about a count of one workplace: variances add over workplaces, and so do jobs that follow the model. */
export function unsure(shown, drawn, { model, noise, zones }) {
  const modelled = followed(shown, drawn, model, zones);
  return { variance: drawVariance(shown, drawn, noise) + (MODEL_OFF_BY * modelled) ** 2, modelled };
}

/** How far to either side a range reaches: two standard errors, and the shared error of the model. */
export function reachOf(variance, modelled, off = MODEL_OFF_ALIKE) {
  return 2 * Math.sqrt(variance) + off * modelled;
}

/** The whole numbers within reach of a count: at least nothing and at most all jobs. */
export function rangeOf(count, reach, all) {
  return [Math.max(0, Math.ceil(count - reach)), Math.min(all, Math.floor(count + reach))];
}

/** The value that half of the weight does not exceed, of a Map from value to weight; null if there is none. */
export function weightedMedian(weights) {
  const values = [...weights.keys()].sort((a, b) => a - b);
  const half = values.reduce((sum, value) => sum + weights.get(value), 0) / 2;
  let passed = 0;
  return values.find((value) => (passed += weights.get(value)) >= half) ?? null;
}
