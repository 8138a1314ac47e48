// One dot for every synthetic job, scattered around its place. Where a dot lies within its place means nothing.

export const MOST_DOTS = 1_000_000;
const GOLDEN = Math.PI * (3 - Math.sqrt(5));

/** The other end of a side: whoever selects workplaces sees homes. */
export const SHOWN = { dest: "home", home: "dest" };

export function endOf(flows, side) {
  return side === "dest" ? flows.destination : flows.origin;
}

/**
 * Dots of the pairs whose `side` end is in `chosen` (a Uint8Array over places; null is all), at their other end.
 *
 * Beyond `most` jobs every k-th job gets a dot, counted through the pairs in their fixed order: the same release and
 * selection always give the same dots, and a dot's place does not depend on what else is selected. Gives positions in
 * kilometres (x, y, x, y, ...), the pair of each dot, how many jobs a dot stands for, and the jobs that have no place.
 */
export function makeDots(flows, places, side, chosen = null, most = MOST_DOTS) {
  const gate = endOf(flows, side);
  const shownAt = endOf(flows, SHOWN[side]);
  const totals = flows.totals[SHOWN[side]];
  let drawable = 0;
  let nowhere = 0;
  for (let pair = 0; pair < flows.jobs.length; pair += 1) {
    if (chosen && !chosen[gate[pair]]) continue;
    if (places.known(shownAt[pair])) drawable += flows.jobs[pair];
    else nowhere += flows.jobs[pair];
  }
  const every = Math.max(1, Math.ceil(drawable / most));
  const count = Math.ceil(drawable / every);
  const positions = new Float32Array(2 * count);
  const pairs = new Uint32Array(count);
  const seen = new Float64Array(places.count + 1); // jobs of each place passed so far, chosen or not
  let passed = 0; // drawable jobs of the selection passed so far
  let dot = 0;
  for (let pair = 0; pair < flows.jobs.length; pair += 1) {
    const at = shownAt[pair];
    const jobs = flows.jobs[pair];
    if (places.known(at) && (!chosen || chosen[gate[pair]])) {
      const first = (every - (passed % every)) % every;
      for (let job = first; job < jobs; job += every) {
        scatter(positions, 2 * dot, places, at, seen[at] + job, totals[at]);
        pairs[dot] = pair;
        dot += 1;
      }
      passed += jobs;
    }
    seen[at] += jobs;
  }
  return { positions, pairs, every, nowhere };
}

// A sunflower: the jobs of a place fill a disc evenly. Neighbours in the file do not become neighbours in the disc.
function scatter(positions, at, places, place, job, total) {
  const seat = (job * stride(total)) % total;
  const radius = total > 1 ? places.spread[place] * Math.sqrt((seat + 0.5) / total) : 0;
  positions[at] = places.x[place] + radius * Math.cos(seat * GOLDEN);
  positions[at + 1] = places.y[place] + radius * Math.sin(seat * GOLDEN);
}

const strides = new Map();

/** A step near the golden section of `total` that shares no divisor with it, so that stepping visits every seat. */
export function stride(total) {
  let step = strides.get(total);
  if (step === undefined) {
    step = Math.max(1, Math.floor(total * 0.618));
    while (step > 1 && greatestDivisor(step, total) !== 1) step -= 1;
    strides.set(total, step);
  }
  return step;
}

function greatestDivisor(a, b) {
  while (b) [a, b] = [b, a % b];
  return a;
}
