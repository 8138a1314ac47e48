// What is selected, and the numbers that follow from it.
//
// A selection is {side, kind, value}: side "dest" selects workplaces and shows homes, "home" the reverse; kind is "all",
// "place" (value: number of the place), "area" (value: [level, area]), "box" (value: [west, south, east, north]),
// "polygon" (value: corners as [latitude, longitude]) or "outline" (value: number of a named outline).

import { endOf, SHOWN } from "./dots.js";
import { quantileKm } from "./histogram.js";
import { wrapLongitude } from "./projection.js";
import { byWholeAreas, lawOf, meanReach, reachOf, reachOfPairs, unsure, weightedMedian } from "./uncertainty.js";

export const everything = (side) => ({ side, kind: "all", value: null });

/** 1 for every place in the selection; null for all of them. */
export function chosenPlaces(world, selection) {
  const { places, levels } = world;
  if (selection.kind === "all") return null;
  const chosen = new Uint8Array(places.count + 1);
  if (selection.kind === "place") {
    chosen[selection.value] = 1;
  } else if (selection.kind === "area") {
    const [level, area] = selection.value;
    levels[level].of.forEach((of, place) => {
      if (of === area) chosen[place] = 1;
    });
  } else if (selection.kind === "outline") {
    const { rings } = world.outlineNames[selection.value];
    for (let place = 0; place < places.count; place += 1) {
      const within = rings.filter((ring) => places.known(place) && isInside(ring, places.x[place], places.y[place]));
      chosen[place] = within.length % 2; // a ring within a ring is a hole
    }
  } else if (selection.kind === "polygon") {
    const corners = selection.value.map((corner) => places.projection.forward(...corner));
    for (let place = 0; place < places.count; place += 1) {
      if (places.known(place) && isInside(corners, places.x[place], places.y[place])) chosen[place] = 1;
    }
  } else {
    const [west, south, east, north] = selection.value;
    const span = (((east - west) % 360) + 360) % 360 || 360;
    for (let place = 0; place < places.count; place += 1) {
      const turn = (((places.longitude[place] - west) % 360) + 360) % 360; // NaN stays NaN and is not chosen
      if (turn <= span && places.latitude[place] >= south && places.latitude[place] <= north) chosen[place] = 1;
    }
  }
  return chosen;
}

/** Whether a point lies in a polygon: a ray from it crosses the line an odd number of times. */
export function isInside(corners, x, y) {
  let inside = false;
  for (let i = 0, j = corners.length - 1; i < corners.length; j = i, i += 1) {
    const [[ax, ay], [bx, by]] = [corners[i], corners[j]];
    if (ay > y !== by > y && x < ((bx - ax) * (y - ay)) / (by - ay) + ax) inside = !inside;
  }
  return inside;
}

/** A box of latitudes and longitudes around corners given as [latitude, longitude]; it may cross the date line. */
export function boxAround(corners, middleLongitude) {
  const turns = corners.map(([, longitude]) => wrapLongitude(longitude - middleLongitude));
  const latitudes = corners.map(([latitude]) => latitude);
  return [
    wrapLongitude(middleLongitude + Math.min(...turns)),
    Math.min(...latitudes),
    wrapLongitude(middleLongitude + Math.max(...turns)),
    Math.max(...latitudes),
  ];
}

/**
 * Everything the panel says about a selection of one release: jobs, distances by class, mean and median distance, and
 * the jobs at every place of the other side, each with the reach of its range.
 *
 * `classes` gives the distance class of every pair (255: unknown) and `areaOf` the area of every place, or null to
 * count by place. Thinned dots play no part here: counts are always of all jobs. `zones` is how many zones of homes the
 * workplace of the median job tells apart.
 */
export function summarise(world, flows, selection, chosen, classes, classCount, areaOf, areaCount) {
  const { places } = world;
  const gate = endOf(flows, selection.side);
  const other = endOf(flows, SHOWN[selection.side]);
  const groups = areaOf ? areaCount : places.count;
  const away = awayGroups(places, areaOf, groups);
  const byGroup = counter(groups + 1, flows, away); // the last is elsewhere
  const byClass = counter(classCount, flows);
  const byTurn = counter(TURNS, flows);
  const both = counter(3, flows); // live and work in the selection, work there only, live there only
  const result = { jobs: 0, elsewhere: 0, unplaced: 0, known: 0, pairs: 0, fromModel: flows.law ? 0 : null };
  const whole = !chosen && selection.side === "home"; // all jobs of each workplace: their number is public
  const zones = new Map();
  const workplaces = []; // what each shows of distances
  let kilometres = 0;
  for (let start = 0; start < flows.jobs.length; ) {
    const to = flows.destination[start];
    let end = start;
    const near = { jobs: 0, sum: 0, squares: 0 };
    while (end < flows.jobs.length && flows.destination[end] === to) {
      const from = flows.origin[end];
      const jobs = flows.jobs[end];
      if (!chosen || chosen[gate[end]]) {
        result.jobs += jobs;
        result.pairs += 1;
        if (from === places.elsewhere) result.elsewhere += jobs;
        if (classes[end] === 255) {
          if (from !== places.elsewhere) result.unplaced += jobs;
        } else {
          result.known += jobs;
          kilometres += flows.km[end] * jobs;
          near.jobs += jobs;
          near.sum += flows.km[end] * jobs;
          near.squares += flows.km[end] ** 2 * jobs;
          byClass.add(classes[end], jobs);
        }
        if (from !== to && places.known(from) && places.known(to)) byTurn.add(turnOf(places, to, from), jobs);
        const place = other[end];
        byGroup.add(place === places.elsewhere ? groups : areaOf ? areaOf[place] : place, jobs);
      }
      if (chosen && (chosen[from] || chosen[to])) both.add(chosen[from] ? (chosen[to] ? 0 : 2) : 1, jobs);
      end += 1;
    }
    const drawn = flows.totals.dest[to];
    const law = flows.law && lawOf(flows.law, to);
    const unsureOf = law ? (count, outside) => unsure(count, drawn, lawOf(flows.law, to, outside)) : certain;
    if (law && near.jobs) workplaces.push({ ...near, ...law });
    const shown = byGroup.flush(whole ? certain : unsureOf);
    byClass.flush(unsureOf);
    byTurn.flush(unsureOf);
    both.flush(unsureOf);
    if (law) result.fromModel += shown * law.model;
    if (law && shown) zones.set(law.zones, (zones.get(law.zones) ?? 0) + shown);
    start = end;
  }
  result.meanKm = result.known ? kilometres / result.known : NaN;
  result.meanReachKm = flows.law ? meanReach(workplaces, flows.off) : null;
  result.medianKm = quantileKm(flows, 0.5, (pair) => !chosen || chosen[gate[pair]]);
  result.classes = byClass.counts;
  result.classReach = flows.law ? byClass.reach() : null;
  result.groups = byGroup.counts;
  // Places are smaller than the areas whose errors are known in jobs; their share of them is all that can be said.
  const part = areaOf && flows.all ? result.jobs / flows.all : 0;
  result.groupReach = flows.law ? byGroup.reach(part) : pairReach(world, flows, selection, chosen, areaOf, groups);
  if (flows.law && areaOf && !whole) {
    nearOffs(flows, places, chosen, (place) => areaOf[place], groups).forEach((near, group) => {
      if (near) result.groupReach[group] = nearReach(result.groupReach[group], byGroup.variance(group), near);
    });
  }
  result.zones = weightedMedian(zones);
  result.turns = byTurn.counts;
  result.turnReach = flows.law ? byTurn.reach(part) : null;
  result.flow = chosen ? inAndOut(both, flows, places, chosen) : null;
  return result;
}

export const TURNS = 8;
export const TURN_NAMES = ["N", "NE", "E", "SE", "S", "SW", "W", "NW"];

/** The direction from one place to another: 0 is north, 2 east. */
function turnOf(places, here, there) {
  const turn = Math.atan2(places.x[there] - places.x[here], places.y[there] - places.y[here]);
  return (Math.round((turn / (2 * Math.PI)) * TURNS) + TURNS) % TURNS;
}

// Who lives and works in the selection, only works there, only lives there: counts and reaches. All jobs at workplaces are
// public where there is a law, so what is not known of those who also live there is not known of the others.
function inAndOut(both, flows, places, chosen) {
  let here = 0;
  flows.totals.dest.forEach((jobs, place) => (here += chosen[place] ? jobs : 0));
  const part = flows.all ? here / flows.all : 0;
  if (!flows.law) return { counts: both.counts, reach: null };
  const [own, living] = [both.reach(part), both.reach(1 - part)[2]];
  const inside = nearReach(own[0], both.variance(0), nearOffs(flows, places, chosen, () => 0, 1)[0]);
  return { counts: both.counts, reach: [inside, inside, living] };
}

// The larger of two possible errors that all workplaces share takes part in the reach.
const nearReach = (reach, variance, near) => Math.max(reach, 2 * Math.sqrt(variance) + near);

// By how many jobs those who live where they work may be off, in each group of the chosen places (all, if none are chosen):
// what is missing of the homes near the workplaces of their groups, by noisy jobs by distance, with two standard errors. A
// group of workplaces that is chosen in part counts as a whole.
function nearOffs(flows, places, chosen, groupOf, groups) {
  const [count, x, y, squares, jobs] = [0, 0, 0, 0, 0].map(() => new Float64Array(groups + 1));
  const measured = Array.from({ length: groups + 1 }, () => new Set());
  for (let place = 0; flows.near && place < places.count; place += 1) {
    if ((chosen && !chosen[place]) || !places.known(place)) continue;
    const group = groupOf(place);
    count[group] += 1;
    x[group] += places.x[place];
    y[group] += places.y[place];
    squares[group] += places.x[place] ** 2 + places.y[place] ** 2;
    jobs[group] += flows.totals.dest[place];
    if (flows.totals.dest[place]) measured[group].add(flows.near.of[place]);
  }
  return jobs.map((working, group) => {
    if (!working) return 0;
    const { km, apart, variance } = flows.near;
    const [n, across, up] = [count[group], x[group] / count[group], y[group] / count[group]];
    const radius = Math.sqrt(Math.max(squares[group] / n - across ** 2 - up ** 2, 0));
    const bands = km.filter((edge) => edge < radius).length + 1;
    let sum = 0;
    for (const one of measured[group]) for (let band = 0; band < bands; band += 1) sum += apart[one * (km.length + 1) + band];
    return Math.abs(sum) + 2 * Math.sqrt(variance * measured[group].size * bands);
  });
}

// 1 for groups with places that have no coordinates: homes outside, whose errors are of another size.
function awayGroups(places, areaOf, groups) {
  const away = new Uint8Array(groups + 1);
  for (let place = 0; place < places.count; place += 1) if (!places.known(place)) away[areaOf ? areaOf[place] : place] = 1;
  return away;
}

/** Reaches where the noise of pairs of areas is known and only whole areas are counted; otherwise null. */
function pairReach(world, flows, selection, chosen, areaOf, groups) {
  if (!flows.pairs || !areaOf) return null;
  const reach = new Float64Array(groups + 1);
  if (!chosen && selection.side === "home") return reach; // all jobs of each workplace: their number is public
  const { of, areas } = world.levels[flows.pairs.level];
  // Places without jobs are no workplaces; anybody may live anywhere.
  const counts = (side) => (place) => side === "home" || flows.totals.dest[place] > 0;
  const [here, there] = [counts(selection.side), counts(SHOWN[selection.side])];
  const selected = byWholeAreas(of, areas.length, (place) => (here(place) ? !chosen || chosen[place] === 1 : undefined));
  const groupOf = byWholeAreas(of, areas.length, (place) => (there(place) ? areaOf[place] : undefined));
  if (!selected || !groupOf) return null;
  const number = selected.filter((value) => value).length;
  const others = new Float64Array(groups + 1);
  for (const group of groupOf) if (group !== undefined) others[group] += 1;
  return reach.map((_, group) => reachOfPairs(flows.pairs.variance, number, others[group]));
}

const certain = () => ({ variance: 0, modelled: 0 });

// Counts by group, and how far their ranges reach, added up workplace by workplace.
function counter(size, flows, away = null) {
  const [counts, variances, modelled, here] = [0, 0, 0, 0].map(() => new Float64Array(size));
  const touched = [];
  return {
    counts,
    variance: (group) => variances[group],
    add(group, jobs) {
      if (here[group] === 0) touched.push(group);
      here[group] += jobs;
    },
    flush(unsureOf) {
      let shown = 0;
      for (const group of touched) {
        counts[group] += here[group];
        const found = unsureOf(here[group], Boolean(away?.[group]));
        variances[group] += found.variance;
        modelled[group] += found.modelled;
        shown += here[group];
        here[group] = 0;
      }
      touched.length = 0;
      return shown;
    },
    reach: (part) =>
      variances.map((variance, group) => reachOf(variance, modelled[group], away?.[group] ? flows.offOutside : flows.off, part)),
  };
}

/** Groups by their counts, largest first, those of no jobs left out; ties in the order of their names. */
export function topGroups(counts, nameOf, most) {
  const groups = [];
  counts.forEach((count, group) => {
    if (count > 0) groups.push(group);
  });
  groups.sort((a, b) => counts[b] - counts[a] || (nameOf(a) < nameOf(b) ? -1 : 1));
  return groups.slice(0, most);
}

/**
 * Jobs between areas, largest flows first, without the flows inside an area: [{from, to, jobs}]. A flow whose range holds
 * zero is left out, and so are all flows of a release without ranges.
 */
export function flowsBetween(flows, selection, chosen, level, number, most) {
  const [areaOf, areaCount] = [level.of, level.areas.length];
  const gate = endOf(flows, selection.side);
  const [jobs, variances, modelled] = [new Map(), new Map(), new Map()];
  const add = (sums, key, value) => sums.set(key, (sums.get(key) ?? 0) + value);
  for (let start = 0; start < flows.jobs.length; ) {
    const to = flows.destination[start];
    const here = new Map();
    let end = start;
    for (; end < flows.jobs.length && flows.destination[end] === to; end += 1) {
      if (flows.origin[end] >= areaOf.length || (chosen && !chosen[gate[end]])) continue;
      const from = areaOf[flows.origin[end]];
      if (from !== areaOf[to]) add(here, from * areaCount + areaOf[to], flows.jobs[end]);
    }
    for (const [key, count] of here) {
      add(jobs, key, count);
      if (!flows.law) continue;
      const found = unsure(count, flows.totals.dest[to], lawOf(flows.law, to));
      add(variances, key, found.variance);
      add(modelled, key, found.modelled);
    }
    start = end;
  }
  const reach = (key) => {
    if (flows.law) return reachOf(variances.get(key), modelled.get(key), flows.off);
    return flows.pairs && flows.pairs.level === number ? reachOfPairs(flows.pairs.variance, 1, 1) : Infinity;
  };
  return [...jobs]
    .filter(([key, count]) => count - reach(key) > 0)
    .sort((a, b) => b[1] - a[1] || a[0] - b[0])
    .slice(0, most)
    .map(([key, count]) => ({ from: Math.floor(key / areaCount), to: key % areaCount, jobs: count }));
}
