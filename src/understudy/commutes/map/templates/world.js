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
    names: arrays[`level_${number}_names`] ?? arrays[`level_${number}_areas`],
    of: arrays[`level_${number}_of`], // the area of every place
  }));
  for (const level of levels) {
    level.names = level.names.map((name, area) => name || nameOfNone(places, level, area));
    const seen = new Set();
    level.of.forEach((area, place) => places.known(place) && level.areas[area] !== "" && seen.add(area));
    level.onMap = seen.size;
    level.isOnMap = (area) => seen.has(area);
  }
  const releases = meta.releases.map((about, number) => makeFlows(about, number, arrays, places));
  const shapes = (name) => makeOutlines(arrays, places.projection, name);
  const outlines = shapes("outline");
  const outlineNames = (arrays.outline_names ?? []).map(([text, south, west, north, east, first, count]) => {
    const corners = [[south, west], [north, east]].map((corner) => places.projection.forward(...corner));
    return { text, corners, rings: outlines.slice(first, first + count).filter(isClosed) };
  });
  return { meta, places, levels, releases, outlines, outlineNames, water: shapes("water"), roads: shapes("road") };
}

// Lines have no inside.
const isClosed = (ring) => ring.length > 3 && ring[0][0] === ring.at(-1)[0] && ring[0][1] === ring.at(-1)[1];

// What the places in no area of a level are called: other states are in no ZIP, and the places of a state in no ring.
function nameOfNone(places, level, none) {
  let [inside, outside, others] = [0, 0, 0];
  level.of.forEach((area, place) => {
    if (area !== none) others += places.known(place) ? 1 : 0;
    else if (places.known(place)) inside += 1;
    else outside += 1;
  });
  if (!inside) return "outside";
  if (!others && !outside) return "inside";
  return outside ? "in none, or outside" : "in none";
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
    offOutside: about.offOutside ?? about.off ?? undefined, // the same for homes outside, which are whole states
    off: about.off ?? undefined, // how far the model is off for all workplaces alike, where that was measured
    near: about.near // noisy jobs minus shown ones by group of workplaces and band of distance
      ? { ...about.near, of: arrays[`near_${number}_of`], apart: arrays[`near_${number}_apart`] }
      : null,
    segments: (about.segments ?? []).map((_, place) => arrays[`segment_${number}_${place}`]),
    pairs: about.pairs ?? null, // level and noise of the pairs of areas that were measured, where that is all there is
    law: arrays[`model_${number}`] // of each place as a workplace, where the release states one
      ? {
          model: arrays[`model_${number}`],
          noise: arrays[`noise_${number}`],
          zones: arrays[`cells_${number}`],
          outside: arrays[`outside_${number}`] ?? null, // zones of homes outside, where those have their own
        }
      : null,
  };
}

/** The flows of one segment. Nothing is known of the error of single counts in it. */
export function flowsOfSegment(flows, segment, places) {
  const jobs = flows.segments[segment];
  const totals = { dest: new Float64Array(places.count + 1), home: new Float64Array(places.count + 1) };
  let all = 0;
  jobs.forEach((count, pair) => {
    totals.dest[flows.destination[pair]] += count;
    totals.home[flows.origin[pair]] += count;
    all += count;
  });
  return { ...flows, jobs, totals, all, law: null, pairs: null, base: undefined, lit: undefined };
}

function makeOutlines(arrays, projection, name) {
  const [starts, numbers] = [arrays[`${name}_starts`], arrays[`${name}_points`]];
  if (!starts) return [];
  const rings = [];
  for (let ring = 0; ring + 1 < starts.length; ring += 1) {
    const points = [];
    for (let i = starts[ring]; i < starts[ring + 1]; i += 1) {
      const [latitude, longitude] = [numbers[2 * i], numbers[2 * i + 1]];
      points.push(projection.forward(latitude * MICRODEGREES, longitude * MICRODEGREES));
    }
    rings.push(points);
  }
  return rings;
}

// Areas that are on the map; other states are not.
const countOf = (level) => level.onMap ?? level.areas.length;

/** The level whose areas are most legible on a map: the one nearest to fifty areas. Null if there are none. */
export function usualLevel(levels) {
  const off = (level) => Math.abs(Math.log(countOf(level) / 50));
  const useful = levels.filter((level) => countOf(level) > 1);
  return useful.length ? levels.indexOf(useful.reduce((best, level) => (off(level) < off(best) ? level : best))) : null;
}
