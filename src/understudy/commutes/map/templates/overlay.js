// What is drawn under and over the dots: outlines, flows between areas, places and their names.

import { screenOf } from "./projection.js";

const MOST_RINGS = 3;

/** Public outlines, under the dots. */
export function drawOutlines(pen, world, view, size, theme) {
  const trace = (rings) => {
    pen.beginPath();
    for (const ring of rings) {
      ring.forEach(([x, y], i) => {
        const [left, top] = screenOf(view, size.width, size.height, x, y);
        if (i) pen.lineTo(left, top);
        else pen.moveTo(left, top);
      });
    }
  };
  pen.lineWidth = 1.4;
  pen.strokeStyle = theme.outline;
  pen.fillStyle = theme.land;
  trace(world.outlines);
  pen.fill("evenodd");
  pen.fillStyle = theme.water;
  trace(world.water);
  pen.fill("evenodd");
  pen.lineWidth = 1;
  pen.strokeStyle = theme.road;
  trace(world.roads);
  pen.stroke();
  pen.lineWidth = 1.4;
  pen.strokeStyle = theme.outline;
  trace(world.outlines);
  pen.stroke();
}

/** The names of outlines that are large enough on the screen to hold them, largest first. */
export function outlineLabels(world, view, size) {
  return world.outlineNames
    .map(({ text, corners }) => {
      const [[ax, ay], [bx, by]] = corners.map(([x, y]) => screenOf(view, size.width, size.height, x, y));
      return { text, left: (ax + bx) / 2, top: (ay + by) / 2, width: Math.abs(bx - ax) };
    })
    .filter(({ text, width }) => width > 5 * text.length + 12)
    .sort((a, b) => b.width - a.width);
}

/**
 * Areas with their counts, in place of dots that would pretend to be addresses. Every spot of the window belongs to the
 * area of the nearest place, so that areas do not lie on each other; what is far from every place belongs to none.
 */
export function drawZones(pen, places, { of, names, jobs }, view, size, theme, more = []) {
  const spots = nearestAreas(places, of, view, size);
  const most = Math.max(1, ...jobs);
  const sums = new Map(); // of each area: spots, and where they are
  pen.fillStyle = theme.flow;
  spots.forEach((area, spot) => {
    if (area < 0) return;
    const [column, row] = [spot % spots.columns, Math.floor(spot / spots.columns)];
    const own = sums.get(area) ?? [0, 0, 0];
    sums.set(area, [own[0] + 1, own[1] + column, own[2] + row]);
    pen.globalAlpha = jobs[area] ? 0.1 + 0.45 * Math.sqrt(jobs[area] / most) : 0.03;
    pen.fillRect(column * SPOT, row * SPOT, SPOT, SPOT);
  });
  pen.globalAlpha = 0.6;
  pen.strokeStyle = theme.ink;
  pen.lineWidth = 1;
  pen.beginPath();
  spots.forEach((area, spot) => {
    const [x, y] = [(spot % spots.columns) * SPOT, Math.floor(spot / spots.columns) * SPOT];
    if (x && spots[spot - 1] !== area) line(pen, x, y, x, y + SPOT);
    if (y && spots[spot - spots.columns] !== area) line(pen, x, y, x + SPOT, y);
  });
  pen.stroke();
  pen.globalAlpha = 1;
  const labels = [...sums]
    .filter(([area]) => jobs[area] > 0)
    .sort((one, other) => other[1][0] - one[1][0])
    .map(([area, [count, columns, rows]]) => ({
      text: `${names[area]}: ${Math.round(jobs[area]).toLocaleString("en")}`,
      left: (columns / count + 0.5) * SPOT,
      top: (rows / count + 0.5) * SPOT,
    }));
  drawLabels(pen, [...labels, ...more], size, theme);
}

const SPOT = 5; // pixels
const REACH = 4; // times half the way to the next place
const FARTHEST = 160; // pixels

function line(pen, x0, y0, x1, y1) {
  pen.moveTo(x0, y0);
  pen.lineTo(x1, y1);
}

/** The area of the place nearest to each spot of the window, row by row; -1 where no place is near. */
export function nearestAreas(places, of, view, size) {
  const [columns, rows] = [Math.ceil(size.width / SPOT), Math.ceil(size.height / SPOT)];
  const found = new Int32Array(columns * rows).fill(-1);
  const nearest = new Float64Array(columns * rows).fill(Infinity);
  for (let place = 0; place < places.count; place += 1) {
    if (!places.known(place)) continue;
    const [left, top] = screenOf(view, size.width, size.height, places.x[place], places.y[place]);
    const reach = Math.min(Math.max(REACH * (places.spread?.[place] || 0) * view.scale, 3 * SPOT), FARTHEST);
    const [from, to] = [Math.max(0, Math.floor((left - reach) / SPOT)), Math.min(columns - 1, Math.floor((left + reach) / SPOT))];
    const [first, last] = [Math.max(0, Math.floor((top - reach) / SPOT)), Math.min(rows - 1, Math.floor((top + reach) / SPOT))];
    for (let row = first; row <= last; row += 1) {
      for (let column = from; column <= to; column += 1) {
        const far = (column * SPOT + SPOT / 2 - left) ** 2 + (row * SPOT + SPOT / 2 - top) ** 2;
        const spot = row * columns + column;
        if (far >= nearest[spot] || far > reach ** 2) continue;
        nearest[spot] = far;
        found[spot] = of[place];
      }
    }
  }
  return Object.assign(found, { columns });
}

/** Flows as bows that are thin at the home and thick at the workplace. */
export function drawFlows(pen, flows, centres, view, size, theme) {
  const most = flows.length ? flows[0].jobs : 1;
  pen.fillStyle = theme.flow;
  for (const { from, to, jobs } of [...flows].reverse()) {
    const [x0, y0] = screenOf(view, size.width, size.height, centres.x[from], centres.y[from]);
    const [x1, y1] = screenOf(view, size.width, size.height, centres.x[to], centres.y[to]);
    const length = Math.hypot(x1 - x0, y1 - y0);
    if (!(length > 6)) continue; // too near to be seen, or without coordinates
    const [sideX, sideY] = [-(y1 - y0) / length, (x1 - x0) / length];
    const [midX, midY] = [(x0 + x1) / 2 + sideX * length * 0.16, (y0 + y1) / 2 + sideY * length * 0.16];
    const thick = 0.5 + 3.2 * Math.sqrt(jobs / most);
    pen.globalAlpha = 0.12 + 0.4 * Math.sqrt(jobs / most); // many thin lines let the centre be seen
    pen.beginPath();
    pen.moveTo(x0, y0);
    pen.quadraticCurveTo(midX + sideX * thick * 0.5, midY + sideY * thick * 0.5, x1 + sideX * thick, y1 + sideY * thick);
    pen.lineTo(x1 - sideX * thick, y1 - sideY * thick);
    pen.quadraticCurveTo(midX - sideX * thick * 0.5, midY - sideY * thick * 0.5, x0, y0);
    pen.fill();
  }
  pen.globalAlpha = 1;
}

/** Names, each with a halo; one that would lie on another is left out. */
export function drawLabels(pen, labels, size, theme) {
  const taken = [];
  pen.font = `600 11.5px ${theme.font}`;
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  pen.lineJoin = "round";
  for (const { text, left, top } of labels) {
    const half = pen.measureText(text).width / 2 + 4;
    const box = [left - half, top - 9, left + half, top + 9];
    if (box[0] < 0 || box[1] < 0 || box[2] > size.width || box[3] > size.height) continue;
    if (taken.some((other) => box[0] < other[2] && other[0] < box[2] && box[1] < other[3] && other[1] < box[3])) continue;
    taken.push(box);
    pen.lineWidth = 3.5;
    pen.strokeStyle = theme.halo;
    pen.strokeText(text, left, top);
    pen.fillStyle = theme.ink;
    pen.fillText(text, left, top);
  }
}

/** The selection: rings around a few places, a line around many. */
export function drawChosen(pen, { points, around }, view, size, theme) {
  const onScreen = ([x, y]) => screenOf(view, size.width, size.height, x, y);
  for (const [colour, width] of [[theme.halo, 6], [theme.chosen, 2.5]]) {
    pen.strokeStyle = colour;
    pen.lineWidth = width;
    pen.lineJoin = "round";
    pen.beginPath();
    if (points.length <= MOST_RINGS) {
      for (const point of points) {
        const [left, top] = onScreen(point);
        pen.moveTo(left + 9, top);
        pen.arc(left, top, 9, 0, 2 * Math.PI);
      }
    } else {
      around.forEach((point, i) => (i ? pen.lineTo(...onScreen(point)) : pen.moveTo(...onScreen(point))));
      pen.closePath();
    }
    pen.stroke();
  }
}

/** What is drawn of a selection: the points of its places and the convex line around them, in kilometres. */
export function shapeOf(places, chosen) {
  const points = [];
  for (let place = 0; chosen && place < places.count; place += 1) {
    if (chosen[place] && places.known(place)) points.push([places.x[place], places.y[place]]);
  }
  return { points, around: points.length > MOST_RINGS ? hull(points) : [] };
}

// Andrew's monotone chain: the lower and the upper half of the convex hull.
function hull(points) {
  const sorted = [...points].sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  const half = (ordered) => {
    const chain = [];
    for (const point of ordered) {
      while (chain.length > 1 && turn(chain.at(-2), chain.at(-1), point) <= 0) chain.pop();
      chain.push(point);
    }
    return chain.slice(0, -1);
  };
  return [...half(sorted), ...half(sorted.reverse())];
}

const turn = (a, b, c) => (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]);

/** Places to click on, once few enough are in the window, with names when very few are. */
export function drawPlaces(pen, world, totals, view, size, theme) {
  const here = [];
  for (let place = 0; place < world.places.count && here.length <= 300; place += 1) {
    if (!totals[place] || !world.places.known(place)) continue;
    const [left, top] = screenOf(view, size.width, size.height, world.places.x[place], world.places.y[place]);
    if (left >= 0 && top >= 0 && left <= size.width && top <= size.height) here.push({ place, left, top });
  }
  if (here.length > 300) return;
  pen.strokeStyle = theme.ink;
  pen.lineWidth = 1.2;
  pen.globalAlpha = 0.75;
  for (const { left, top } of here) pen.strokeRect(left - 3, top - 3, 6, 6);
  pen.globalAlpha = 1;
  if (here.length > 40) return;
  drawLabels(
    pen,
    here
      .sort((a, b) => totals[b.place] - totals[a.place])
      .map(({ place, left, top }) => ({ text: world.places.label(place), left, top: top - 14 })),
    size,
    theme,
  );
}

/** The middle of the places of every area, in kilometres. */
export function areaCentres(places, areaOf, areaCount) {
  const [x, y, count] = [0, 0, 0].map(() => new Float64Array(areaCount));
  for (let place = 0; place < places.count; place += 1) {
    if (!places.known(place)) continue;
    x[areaOf[place]] += places.x[place];
    y[areaOf[place]] += places.y[place];
    count[areaOf[place]] += 1;
  }
  for (let area = 0; area < areaCount; area += 1) {
    x[area] /= count[area]; // NaN for an area without a place on the map: nothing is drawn there
    y[area] /= count[area];
  }
  return { x, y };
}
