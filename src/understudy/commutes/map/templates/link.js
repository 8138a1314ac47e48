// A selection as the part of the address after "#", so that it can be sent to somebody: #dest=ID, #home=ID,
// #dest-area=LEVEL:AREA, #dest-box=WEST,SOUTH,EAST,NORTH, #dest-polygon=LAT,LON;LAT,LON;..., #dest-outline=NAME, and the
// same with home.

import { everything } from "./select.js";

export function linkOf(world, selection) {
  const { side, kind, value } = selection;
  if (kind === "all") return side === "dest" ? "" : "home";
  if (kind === "place") return `${side}=${encodeURIComponent(world.places.ids[value])}`;
  if (kind === "area") {
    const level = world.levels[value[0]];
    return `${side}-area=${encodeURIComponent(level.name)}:${encodeURIComponent(level.areas[value[1]])}`;
  }
  if (kind === "outline") return `${side}-outline=${encodeURIComponent(world.outlineNames[value].text)}`;
  if (kind === "polygon") {
    return `${side}-polygon=${value.map((corner) => corner.map((degrees) => degrees.toFixed(4)).join(",")).join(";")}`;
  }
  return `${side}-box=${value.map((degrees) => degrees.toFixed(5)).join(",")}`;
}

/** The selection of a link, or {problem} in words if it names nothing of this release. */
export function selectionOf(world, hash) {
  const text = hash.replace(/^#/, "");
  if (text === "") return { selection: everything("dest") };
  if (text === "home") return { selection: everything("home") };
  const parts = /^(dest|home)(-area|-box|-polygon|-outline)?=(.*)$/s.exec(text);
  if (!parts) return { problem: "The link does not name a place, an area or a box." };
  const [, side, kind, raw] = parts;
  if (kind === "-box") {
    const value = raw.split(",").map((part) => (part.trim() === "" ? NaN : Number(part)));
    const fits = value.length === 4 && value.every(Number.isFinite) && value[1] <= value[3];
    return fits ? { selection: { side, kind: "box", value } } : { problem: "The box in the link is not four numbers." };
  }
  if (kind === "-polygon") {
    const value = raw.split(";").map((corner) => corner.split(",").map(Number));
    const fits = value.length > 2 && value.every((corner) => corner.length === 2 && corner.every(Number.isFinite));
    return fits ? { selection: { side, kind: "polygon", value } } : { problem: "The line in the link cannot be read." };
  }
  try {
    if (kind === "-area") return areaSelection(world, side, raw);
    const id = decodeURIComponent(raw);
    if (kind === "-outline") {
      const value = world.outlineNames.findIndex(({ text, rings }) => text === id && rings.length);
      return value < 0 ? { problem: `This page has no outline “${id}”.` } : { selection: { side, kind: "outline", value } };
    }
    const place = world.places.ids.indexOf(id);
    return place < 0
      ? { problem: `This release has no place “${id}”.` }
      : { selection: { side, kind: "place", value: place } };
  } catch {
    return { problem: "The link cannot be read." };
  }
}

function areaSelection(world, side, raw) {
  const colon = raw.indexOf(":");
  const [levelName, area] = [raw.slice(0, colon), raw.slice(colon + 1)].map(decodeURIComponent);
  const level = world.levels.findIndex((one) => one.name === levelName);
  const code = level < 0 ? -1 : world.levels[level].areas.indexOf(area);
  return code < 0
    ? { problem: `This release has no area “${area}” at level “${levelName}”.` }
    : { selection: { side, kind: "area", value: [level, code] } };
}
