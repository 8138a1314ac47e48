// Places, areas and the synthetic flows between them, made from the arrays of the page.

import { distanceKm, middleOf, projectionAbout } from "./projection.js";

const NOWHERE = -2147483648; // stands for a coordinate that is not known
const MICRODEGREES = 1e-6;

/** Everything the page shows. `meta` is the page's JSON, `arrays` its decoded data. */
export function makeWorld(meta, arrays) {
  const places = makePlaces(arrays);
  const levels = meta.levels.map((level, number) => ({
    name: level.name,
    areas: arrays[`level_${number}_areas`],
    of: arrays[`level_${number}_of`], // the area of every place
  }));
  const releases = meta.releases.map((about, number) => makeFlows(about, number, arrays, places));
  return { meta, places, levels, releases, outlines: makeOutlines(arrays, places.projection) };
}

function makePlaces(arrays) {
  const count = arrays.latitude.length;
  const latitude = new Float64Array(count);
  const longitude = new Float64Array(count);
  for (let i = 0; i < count; i += 1) {
    const known = arrays.latitude[i] !== NOWHERE && arrays.longitude[i] !== NOWHERE;
    latitude[i] = known ? arrays.latitude[i] * MICRODEGREES : NaN;
    longitude[i] = known ? arrays.longitude[i] * MICRODEGREES : NaN;
  }
  const projection = projectionAbout(middleOf(latitude, longitude));
  const x = new Float64Array(count).fill(NaN);
  const y = new Float64Array(count).fill(NaN);
  for (let i = 0; i < count; i += 1) {
    if (!Number.isNaN(latitude[i])) [x[i], y[i]] = projection.forward(latitude[i], longitude[i]);
  }
  const names = arrays.names ?? [];
  return {
    count,
    elsewhere: count, // the number that stands for "elsewhere" as an origin
    latitude,
    longitude,
    x,
    y,
    spread: arrays.spread, // kilometres around a place within which its dots are scattered
    ids: arrays.ids,
    names,
    projection,
    known: (i) => i < count && !Number.isNaN(x[i]),
    label: (i) => (i === count ? "elsewhere" : names[i] || arrays.ids[i]),
  };
}

function makeFlows(about, number, arrays, places) {
  const starts = arrays[`starts_${number}`];
  const origin = arrays[`origin_${number}`];
  const jobs = arrays[`jobs_${number}`];
  const listed = arrays[`destinations_${number}`]; // the destinations in the order of their pairs
  const destination = new Uint32Array(origin.length);
  const km = new Float64Array(origin.length);
  const totals = { dest: new Float64Array(places.count + 1), home: new Float64Array(places.count + 1) };
  let all = 0;
  for (let d = 0; d < listed.length; d += 1) {
    const to = listed[d];
    destination.fill(to, starts[d], starts[d + 1]);
    for (let pair = starts[d]; pair < starts[d + 1]; pair += 1) {
      const from = origin[pair];
      km[pair] =
        places.known(from) && places.known(to)
          ? distanceKm(places.latitude[from], places.longitude[from], places.latitude[to], places.longitude[to])
          : NaN;
      totals.dest[to] += jobs[pair];
      totals.home[from] += jobs[pair];
      all += jobs[pair];
    }
  }
  return {
    about,
    origin,
    destination,
    jobs,
    km,
    totals,
    all,
    off: about.off ?? undefined, // how far the model is off for all workplaces alike, where that was measured
    pairs: about.pairs ?? null, // level and noise of the pairs of areas that were measured, where that is all there is
    law: arrays[`model_${number}`] // of each place as a workplace, where the release states one
      ? { model: arrays[`model_${number}`], noise: arrays[`noise_${number}`], zones: arrays[`cells_${number}`] }
      : null,
  };
}

function makeOutlines(arrays, projection) {
  if (!arrays.outline_starts) return [];
  const rings = [];
  for (let ring = 0; ring + 1 < arrays.outline_starts.length; ring += 1) {
    const points = [];
    for (let i = arrays.outline_starts[ring]; i < arrays.outline_starts[ring + 1]; i += 1) {
      const [latitude, longitude] = [arrays.outline_points[2 * i], arrays.outline_points[2 * i + 1]];
      points.push(projection.forward(latitude * MICRODEGREES, longitude * MICRODEGREES));
    }
    rings.push(points);
  }
  return rings;
}

/** The level whose areas are most legible on a map: the one nearest to fifty areas. Null if there are none. */
export function usualLevel(levels) {
  const off = (level) => Math.abs(Math.log(level.areas.length / 50));
  const useful = levels.filter((level) => level.areas.length > 1);
  return useful.length ? levels.indexOf(useful.reduce((best, level) => (off(level) < off(best) ? level : best))) : null;
}
