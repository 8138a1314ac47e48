// Scale bar, north arrow and legend of a map.

import { cssColour } from "./colours.js";
import { CLASSES } from "./histogram.js";
import { element, showCount } from "./panel.js";
import { distanceKm, KM_PER_MILE, roundLength } from "./projection.js";

const LONGEST_BAR = 110; // pixels

/** Everything that changes when the window moves or the selection does. */
export function furnish(root, projection, view, unit, dots) {
  const ends = [-0.5, 0.5].map((half) => projection.inverse(view.x + (half * LONGEST_BAR) / view.scale, view.y));
  const across = distanceKm(...ends[0], ...ends[1]) / (unit === "mi" ? KM_PER_MILE : 1);
  const length = roundLength(across);
  root.querySelector(".bar").style.width = `${(LONGEST_BAR * length) / across}px`;
  root.querySelector(".length").textContent = lengthText(length, unit);
  const [latitude, longitude] = projection.inverse(view.x, view.y);
  const [x, y] = projection.forward(Math.min(latitude + 0.01, 90), longitude);
  root.querySelector(".north").style.transform = `rotate(${Math.atan2(x - view.x, y - view.y)}rad)`;
  const stands = dots.every === 1 ? "1 dot = 1 synthetic job" : `1 dot = ${showCount(dots.every)} synthetic jobs`;
  root.querySelector(".dot").replaceChildren(stands, element("i", {}, ", scattered around its place"));
  root.dataset.view = [view.x, view.y, view.scale].join(",");
  root.dataset.middle = [latitude, longitude].join(",");
  root.dataset.dots = String(dots.pairs.length);
}

/** "5 km", "200 m", "0.5 mi". */
export function lengthText(length, unit) {
  if (unit === "km" && length < 1) return `${showCount(1000 * length)} m`;
  return `${Number(length.toPrecision(3))} ${unit}`;
}

/** The colours of the distance classes with their limits. */
export function drawLegend(root, colours, names, unit) {
  root.querySelector(".title").textContent = `Between home and work, ${unit}`;
  root.querySelector(".swatches").replaceChildren(
    ...colours.map((colour) => {
      const swatch = element("span");
      swatch.style.background = cssColour(colour);
      return swatch;
    }),
  );
  const ticks = [0, 4, 8, CLASSES - 1].map((c) => (c < CLASSES - 1 ? names[c].split("–")[0] : names[c]));
  root.querySelector(".ticks").replaceChildren(...ticks.map((text) => element("span", {}, text)));
}
