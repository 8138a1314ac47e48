// A small world for the tests of the map's modules: five places on a line east of Greenwich, one nowhere.

import { makeWorld } from "../../../../../src/understudy/commutes/map/templates/world.js";

const NOWHERE = -2147483648;
export const IDS = ["a", "b", "c", "d", "lost"];
const ELSEWHERE = IDS.length;

/** Pairs [origin, destination, jobs], by destination. */
export const PAIRS = [
  ["a", "a", 3],
  ["b", "a", 2],
  ["d", "a", 1],
  ["elsewhere", "a", 4],
  ["a", "c", 1],
  ["lost", "c", 2],
  ["c", "d", 5],
];
const codeOf = (id) => (id === "elsewhere" ? ELSEWHERE : IDS.indexOf(id));

export function testWorld({ prior = null, releases = 1, longitudes = [0, 10_000, 20_000, 300_000] } = {}) {
  const meta = { unit: "km", levels: [{ name: "county" }], releases: [], arrays: [] };
  const arrays = {
    latitude: Int32Array.from([0, 0, 0, 0, NOWHERE]),
    longitude: Int32Array.from([...longitudes, NOWHERE]),
    spread: Float32Array.from([0.5, 0.5, 0.5, 0.5, 0]),
    ids: IDS,
    names: ["Alpha", "Beta", "Gamma", "Délta", ""],
    level_0_areas: ["east", "west"],
    level_0_of: Uint8Array.from([1, 1, 0, 0, 0]),
  };
  for (let number = 0; number < releases; number += 1) {
    const listed = [...new Set(PAIRS.map(([, to]) => to))];
    arrays[`destinations_${number}`] = Uint8Array.from(listed, codeOf);
    arrays[`starts_${number}`] = Uint32Array.from([...listed.map((to) => PAIRS.findIndex((pair) => pair[1] === to)), PAIRS.length]);
    arrays[`origin_${number}`] = Uint8Array.from(PAIRS, ([from]) => codeOf(from));
    arrays[`jobs_${number}`] = Uint8Array.from(PAIRS, ([, , jobs]) => jobs);
    if (prior !== null) {
      const jobs = [10, 1, 1, 5, 1]; // at each place, or at least one
      arrays[`model_${number}`] = Float32Array.from(jobs, (drawn) => prior / (drawn + prior));
      arrays[`noise_${number}`] = Float32Array.from(jobs, (drawn) => ((drawn + prior) / drawn) ** 2 * ((2 * drawn + prior) / (drawn + prior + 1)));
      arrays[`cells_${number}`] = Uint8Array.from([3, 3, 4, 9, 9]);
    }
    meta.releases.push({ method: "commute", promise: "ε = 1" });
  }
  return makeWorld(meta, arrays);
}
