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
// workers by home area, as a share and in jobs; if it measured none, a fifth is assumed.
//
// A release of flows between areas says nothing of a single workplace. It states the noise of every pair of areas, and a
// sum of whole pairs has the sum of their variances.

const MODEL_OFF_BY = 0.25;
export const MODEL_OFF_ALIKE = { share: 0.2, jobs: 0 };

/** Variance of the draw for a group that shows `shown` of the `drawn` jobs of a workplace. */
export function drawVariance(shown, drawn, noise) {
  if (drawn <= 0) return 0;
  const p = Math.min((shown + 0.5) / (drawn + 1), 1);
  return noise * drawn * p * (1 - p);
}

/** How many of the `shown` jobs follow the public model. A zone that somebody lives in has at least one job. */
export function followed(shown, drawn, model, zones) {
  return model * shown + (1 - model) * Math.min(shown, Math.max(drawn / zones, 1));
}

/** What is unsure about a count of one workplace: variances add over workplaces, and so do jobs that follow the model. */
export function unsure(shown, drawn, { model, noise, zones }) {
  const modelled = followed(shown, drawn, model, zones);
  return { variance: drawVariance(shown, drawn, noise) + (MODEL_OFF_BY * modelled) ** 2, modelled };
}

/**
 * How far to either side a range reaches: two standard errors, and the shared error of the model. That is a share of the
 * jobs that follow the model, and at least as many jobs as an area may be off, for the `part` of all jobs that is selected.
 */
export function reachOf(variance, modelled, off = MODEL_OFF_ALIKE, part = 0) {
  return 2 * Math.sqrt(variance) + (modelled > 0 ? Math.max(off.share * modelled, off.jobs * part) : 0);
}

/** The law of one workplace, for homes inside or outside: these may have zones of their own. */
export function lawOf(law, place, away = false) {
  const zones = away && law.outside ? law.outside[place] : law.zones[place];
  return { model: law.model[place], noise: law.noise[place], zones };
}

/**
 * How far the mean distance of jobs reaches, from what each workplace shows: [{jobs, sum, squares, model, noise, zones}],
 * with sums of distances and of their squares. A count of a workplace has `noise` times the variance of a sample, so the
 * sum of its distances has `noise` times n times their variance. Jobs that follow the model, and homes inside a zone, may
 * be off by a quarter of the spread of distances at each workplace, and by the shared error at all of them together. One
 * or two jobs say little of their own spread, so it leans on that of all jobs.
 */
export function meanReach(workplaces, off = MODEL_OFF_ALIKE) {
  const total = (value) => workplaces.reduce((sum, one) => sum + value(one), 0);
  const jobs = total((one) => one.jobs);
  if (!jobs) return null;
  const everywhere = Math.max(total((one) => one.squares) / jobs - (total((one) => one.sum) / jobs) ** 2, 0);
  const modelled = ({ model, zones }) => model + (1 - model) / Math.max(zones, 1);
  const variance = total((one) => {
    const spread = (one.squares - one.sum ** 2 / one.jobs + everywhere) / one.jobs;
    return one.noise * one.jobs * spread + (MODEL_OFF_BY * modelled(one) * one.jobs) ** 2 * spread;
  });
  const shared = off.share * total((one) => modelled(one) * one.jobs) * Math.sqrt(everywhere);
  return (2 * Math.sqrt(variance) + shared) / jobs;
}

/**
 * How far a sum of pairs of areas reaches, if every pair has noise of its own of this variance: the pairs of `areas` areas
 * on one side and `others` on the other. Half a job is added because noise is in whole jobs.
 */
export function reachOfPairs(variance, areas, others) {
  return others ? 2 * Math.sqrt(variance * areas * others) + 0.5 : 0;
}

/**
 * The value of each area, if all its places have the same; null if some area has places of several values. `valueOf`
 * gives the value of a place, or undefined for a place that does not count.
 */
export function byWholeAreas(areaOf, areas, valueOf) {
  const values = new Array(areas).fill(undefined);
  for (let place = 0; place < areaOf.length; place += 1) {
    const value = valueOf(place);
    if (value === undefined) continue;
    const known = values[areaOf[place]];
    if (known !== undefined && known !== value) return null;
    values[areaOf[place]] = value;
  }
  return values;
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
