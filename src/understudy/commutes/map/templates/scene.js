// What one map has to draw for a selection: layers of dots, flows between areas, the shape of the selection.

import { makeDots } from "./dots.js";
import { areaCentres, shapeOf } from "./overlay.js";
import { KINDS } from "./renderer.js";
import { flowsBetween, topGroups } from "./select.js";
import { usualLevel } from "./world.js";

const MOST_FLOWS = 40;
const MOST_FLOWS_OF_SELECTION = 20;
const FLOWS_UP_TO = 4; // times the scale at which everything is visible; nearer, dots and places speak for themselves

/** The dots of a release: all of them (`base`, made anew when the side turns) and the selected ones (`lit`). */
export function setDots(renderer, world, flows, selection, chosen, turned) {
  if (turned) {
    flows.base = makeDots(flows, world.places, selection.side);
    renderer.set("all", flows.base.positions, kindsOf(flows, flows.base));
  }
  flows.lit = chosen ? makeDots(flows, world.places, selection.side, chosen) : flows.base;
  renderer.set("chosen", flows.lit.positions, kindsOf(flows, flows.lit));
}

/** The colours of the dots after the classes of distance have changed. */
export function recolour(renderer, flows) {
  renderer.set("all", flows.base.positions, kindsOf(flows, flows.base));
  renderer.set("chosen", flows.lit.positions, kindsOf(flows, flows.lit));
}

function kindsOf(flows, dots) {
  const kinds = new Uint8Array(dots.pairs.length);
  for (let dot = 0; dot < kinds.length; dot += 1) kinds[dot] = Math.min(flows.classes[dots.pairs[dot]], KINDS - 1);
  return kinds;
}

/** The scene of a map. `level` is the level of areas for the flows, or null for none. */
export function makeScene(world, flows, summary, { selection, chosen, level, counted, fitted, spread }) {
  const zones = flows.law ? summary.zones : flows.pairs ? world.levels[flows.pairs.level].areas.length : null;
  const scene = { zoneKm: zones ? Math.sqrt(spread / zones) : null, zones: zonesOf(world, summary, counted), shape: shapeOf(world.places, chosen), totals: flows.totals[selection.side], flows: [], areas: [] };
  scene.flowsUpTo = FLOWS_UP_TO * fitted.scale;
  if (level === null) return scene;
  const { of, areas, names } = world.levels[level];
  world.levels[level].centres ??= areaCentres(world.places, of, areas.length);
  scene.centres = world.levels[level].centres;
  scene.areas = names;
  if (chosen) flowsOfSelection(scene, summary, selection);
  else scene.flows = flowsBetween(flows, selection, chosen, world.levels[level], level, MOST_FLOWS);
  return scene;
}

// Areas that stand for dots when somebody comes closer than the release can see, their names and counts.
function zonesOf(world, summary, level) {
  const usual = level ?? usualLevel(world.levels);
  if (usual === null) return null;
  const { of, areas, names } = world.levels[usual];
  if (level !== null) return { of, names, jobs: summary.groups.subarray(0, areas.length) };
  const jobs = new Float64Array(areas.length); // counted by place
  of.forEach((area, place) => (jobs[area] += summary.groups[place]));
  return { of, names, jobs };
}

// Lines between the largest areas of the other side and the middle of what is selected.
function flowsOfSelection(scene, summary, selection) {
  const count = scene.areas.length;
  const { points } = scene.shape;
  const middle = [0, 1].map((axis) => points.reduce((sum, point) => sum + point[axis], 0) / points.length);
  const name = (area) => scene.areas[area];
  const sure = (area) => summary.groupReach && summary.groups[area] - summary.groupReach[area] > 0;
  scene.flows = topGroups(summary.groups.subarray(0, count), name, MOST_FLOWS_OF_SELECTION).filter(sure).map((area) => ({
    from: selection.side === "dest" ? area : count,
    to: selection.side === "dest" ? count : area,
    jobs: summary.groups[area],
  }));
  scene.centres = { x: [...scene.centres.x, middle[0]], y: [...scene.centres.y, middle[1]] };
  scene.areas = [...scene.areas, ""];
}

/** Layers for the renderer: the selection in colours over the rest in grey. Dots grow slowly as one comes nearer. */
export function layersOf(flows, chosen, view, fitted, colours, theme) {
  const grown = (view.scale / fitted.scale) ** 0.4;
  const look = (count) => {
    const [size, alpha] =
      count > 200_000 ? [1.6, 0.5] : count > 20_000 ? [2.2, 0.65] : count > 2000 ? [3.8, 0.95] : [8, 1];
    return { size: Math.min(Math.max(size * grown, 1.2), 10), alpha };
  };
  const lit = { name: "chosen", colours: [...colours, theme.unknown], rim: theme.rim, ...look(flows.lit.pairs.length) };
  if (!chosen) return [lit];
  const faint = { ...look(flows.base.pairs.length), name: "all", colours: Array(KINDS).fill(theme.faint), rim: theme.faint, alpha: 0.35 };
  return [faint, lit];
}

