// Distances in classes of equal width; the last class holds everything beyond.

import { KM_PER_MILE, roundLength } from "./projection.js";

export const CLASSES = 12;
const SLICES = 1024;
const USUAL = 0.95; // the share of jobs that the classes before the last should hold

/** Width of a class, in the chosen unit, such that the usual commute fits into the classes before the last. */
export function classWidth(releases, unit) {
  const longest = Math.max(...releases.map((flows) => quantileKm(flows, USUAL, () => true) || 0));
  const inUnit = unit === "mi" ? longest / KM_PER_MILE : longest;
  const width = roundLength(Math.max(inUnit / (CLASSES - 1), 0.1));
  return [width, 2 * width, 2.5 * width, 5 * width].find((wide) => wide * (CLASSES - 1) >= inUnit) ?? 10 * width;
}

/** Upper ends of the classes before the last, in kilometres. */
export function classEdgesKm(width, unit) {
  const km = unit === "mi" ? KM_PER_MILE : 1;
  return Float64Array.from({ length: CLASSES - 1 }, (_, number) => (number + 1) * width * km);
}

/** The class of a distance: `edges[c - 1] <= km < edges[c]`. */
export function classOf(km, edges) {
  let low = 0;
  let high = edges.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (km < edges[middle]) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** The classes of all pairs; 255 where the distance is not known. */
export function classesOf(flows, edges) {
  const classes = new Uint8Array(flows.km.length);
  for (let pair = 0; pair < classes.length; pair += 1) {
    classes[pair] = Number.isNaN(flows.km[pair]) ? 255 : classOf(flows.km[pair], edges);
  }
  return classes;
}

/**
 * The distance that `share` of the jobs do not exceed, over the pairs that `counts(pair)` says; NaN if there are none.
 *
 * Exact, in time proportional to the pairs: a coarse count finds the slice that holds the quantile, and only the pairs
 * of that slice are sorted.
 */
export function quantileKm(flows, share, counts) {
  let [all, longest] = [0, 0];
  const use = [];
  for (let pair = 0; pair < flows.km.length; pair += 1) {
    if (Number.isNaN(flows.km[pair]) || !counts(pair)) continue;
    use.push(pair);
    all += flows.jobs[pair];
    longest = Math.max(longest, flows.km[pair]);
  }
  const sliceOf = (pair) => Math.min(SLICES - 1, Math.floor((flows.km[pair] / longest) * SLICES) || 0);
  const slices = new Float64Array(SLICES);
  for (const pair of use) slices[sliceOf(pair)] += flows.jobs[pair];
  let passed = 0;
  let slice = 0;
  while (slice < SLICES - 1 && passed + slices[slice] < share * all) passed += slices[slice++];
  const within = use.filter((pair) => sliceOf(pair) === slice).sort((a, b) => flows.km[a] - flows.km[b]);
  for (const pair of within) {
    passed += flows.jobs[pair];
    if (passed >= share * all) return flows.km[pair];
  }
  return NaN;
}

/** "0-2", "2-4", ..., "22+". */
export function classNames(width) {
  const text = (number) => String(Math.round(number * 100) / 100);
  const names = [];
  for (let c = 0; c < CLASSES - 1; c += 1) names.push(`${text(c * width)}–${text((c + 1) * width)}`);
  names.push(`${text((CLASSES - 1) * width)}+`);
  return names;
}
