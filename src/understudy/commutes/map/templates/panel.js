// The numbers beside the map. Every name goes into the page as text, never as markup.

import { cssColour } from "./colours.js";
import { KM_PER_MILE } from "./projection.js";
import { TURN_NAMES, topGroups } from "./select.js";
import { rangeOf } from "./uncertainty.js";

const SVG = "http://www.w3.org/2000/svg";
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const onePlace = new Intl.NumberFormat("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 });
export const showCount = (count) => whole.format(count);
export const LETTERS = ["A", "B"];
const MOST_LISTED = 12;

/** An element with properties and children; text is text. */
export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in made) made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

function drawn(tag, attributes, text = null) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== null) made.textContent = text;
  return made;
}

export function showDistance(km, unit) {
  return Number.isNaN(km) ? "–" : `${onePlace.format(unit === "mi" ? km / KM_PER_MILE : km)} ${unit}`;
}

/** Both ends of the range of a mean distance, which is never below zero. */
export function rangeOfDistance(km, reachKm, unit) {
  const inUnit = (end) => (10 * end) / (unit === "mi" ? KM_PER_MILE : 1); // tenths, rounded outwards
  const [low, high] = [Math.floor(inUnit(Math.max(km - reachKm, 0))), Math.ceil(inUnit(km + reachKm))];
  return `${onePlace.format(low / 10)}–${onePlace.format(high / 10)} ${unit}`;
}

/** The heading, the main figures and what is uncertain about them. `summaries` has one entry per release. */
export function showSummary(root, title, summaries, { unit, reasons }) {
  const row = (name, values, kind = "") =>
    element("tr", { className: kind }, element("th", { scope: "row" }, name), ...values.map((value) => element("td", {}, value)));
  const two = summaries.length > 1;
  const apart = (value, show) => (two ? [signed(value(summaries[0]) - value(summaries[1]), show)] : []);
  const facts = (name, value, show, kind) =>
    row(name, [...summaries.map((one) => show(value(one))), ...apart(value, show)], kind);
  const inUnit = (km) => showDistance(km, unit);
  const meanOf = ({ meanKm, meanReachKm }) =>
    meanReachKm
      ? element("span", {}, inUnit(meanKm), element("small", {}, ` likely ${rangeOfDistance(meanKm, meanReachKm, unit)}`))
      : inUnit(meanKm);
  const rows = [
    facts("synthetic jobs", (one) => one.jobs, showCount, "lead jobs"),
    row("mean distance", [...summaries.map(meanOf), ...apart((one) => one.meanKm, inUnit)], "mean"),
    facts("median distance", (one) => one.medianKm, inUnit, "median"),
  ];
  FLOW_NAMES.forEach((name, i) => {
    if (!summaries.every((one) => one.flow)) return;
    const told = summaries.map(({ flow, jobs }) => {
      const range = likely(flow.counts[i], flow.reach?.[i], Math.max(jobs, flow.counts[i] * 2 + 100));
      return element("span", {}, showCount(flow.counts[i]), element("small", {}, ` ${range}`));
    });
    rows.push(row(name, [...told, ...apartInFlow(summaries, i)], `flow flow-${i}`));
  });
  if (summaries.some((one) => one.elsewhere)) {
    rows.push(facts("living elsewhere, beyond the map", (one) => one.elsewhere, showCount, "elsewhere"));
  }
  if (summaries.some((one) => one.unplaced)) {
    rows.push(facts("outside, without a distance", (one) => one.unplaced, showCount, "unplaced"));
  }
  const table = element("table", { className: "facts" }, element("tbody", {}, ...rows));
  if (summaries.length > 1) {
    table.prepend(
      element("thead", {}, element("tr", {}, element("td"), ...["A", "B", "A − B"].map((name) => element("td", {}, name)))),
    );
  }
  const beyond = summaries.some((one) => one.flow) ? " Jobs of residents beyond this map are not in its data." : "";
  const note = element("p", { className: "note" }, uncertaintyNote(summaries, reasons) + beyond);
  root.replaceChildren(element("h2", {}, title), table, note);
}

const FLOW_NAMES = ["live and work here", "work here, live elsewhere", "live here, work elsewhere"];

// How two releases differ in those who live and work in the selection, or do one of the two, with its range.
function apartInFlow(summaries, i) {
  if (summaries.length < 2) return [];
  const change = summaries[0].flow.counts[i] - summaries[1].flow.counts[i];
  const range = likelyChange(change, summaries.map((one) => one.flow.reach?.[i]));
  return [element("span", {}, signed(change, showCount), element("small", {}, ` ${range}`))];
}

/** A difference with its sign; "±0" if there is none. */
function signed(value, show) {
  if (Number.isNaN(value)) return "–";
  return value === 0 ? "±0" : `${value > 0 ? "+" : "−"}${show(Math.abs(value))}`;
}

/** What a reader must know about these counts before trusting them; of both releases where they differ in kind. */
export function uncertaintyNote(summaries, reasons = []) {
  const told = summaries.map((one, i) => noteOf([one], [reasons[i] ?? ""]));
  const alike = summaries.every((one) => (one.fromModel !== null) === (summaries[0].fromModel !== null));
  if (summaries.length > 1 && (!alike || new Set(reasons).size > 1)) {
    return told.map((text, i) => `${LETTERS[i]}: ${text}`).join(" ");
  }
  return noteOf(summaries, reasons);
}

function noteOf(summaries, reasons) {
  if (summaries.every((one) => one.jobs === 0)) {
    return "There are no synthetic jobs here. That does not mean that there are no real ones.";
  }
  if (!summaries.every((one) => one.fromModel !== null)) {
    if (summaries.every((one) => one.groupReach)) {
      return (
        "“Likely” is the range of the count behind: two standard errors of its noise. Jobs by distance have none: inside an " +
        "area, homes and workplaces follow a public model."
      );
    }
    const why = reasons.find((reason) => reason);
    return (
      "Small counts are mostly noise: a place with a few synthetic jobs may really have none, and the reverse." +
      (why ? ` There are no ranges here (?): ${why}.` : "")
    );
  }
  const share = ({ fromModel, jobs }) => Math.round((100 * fromModel) / Math.max(jobs, 1));
  const each = (text) => summaries.map((one, i) => `${text(one)}${summaries.length > 1 ? ` (${LETTERS[i]})` : ""}`).join(" and ");
  const drawn = each((one) => (share(one) ? `about ${share(one)}%` : "less than 1%"));
  const zones = summaries.every((one) => one.zones)
    ? `Homes are known by zone only. A workplace here tells ${each((one) => showCount(one.zones))} zones apart; inside a zone homes follow a public model. `
    : "";
  return (
    `${zones}${drawn[0].toUpperCase()}${drawn.slice(1)} of these jobs were drawn from that model without looking at ` +
    "workers. “Likely” is the range of the real count: two standard errors, and the possible error of the model."
  );
}

/** Bars of the jobs by distance, with ranges, and the same numbers as a table. */
export function showHistogram(root, summaries, names, colours, unit) {
  const most = roundUp(Math.max(2, ...summaries.flatMap((one) => [...one.classes.keys()].map((c) => highest(one, c)))));
  const parts = [element("h3", {}, `From home to work, ${unit}`)];
  summaries.forEach((one, number) => {
    if (summaries.length > 1) parts.push(element("p", { className: "chart-name" }, LETTERS[number]));
    parts.push(bars(one, names, colours, most, unit));
  });
  parts.push(
    element(
      "details",
      { className: "numbers" },
      element("summary", {}, "The same as a table"),
      listTable([unit, ...headings(summaries)], names.map((name, c) => [name, ...cells(summaries, "classes", "classReach", c)])),
    ),
  );
  const open = root.querySelector("details")?.open ?? false;
  root.replaceChildren(...parts);
  root.querySelector("details").open = open;
}

/** The next number of two digits: the top of an axis. */
function roundUp(value) {
  const power = 10 ** Math.max(0, Math.floor(Math.log10(value)) - 1);
  return 2 * Math.ceil(value / (2 * power)) * power;
}

function highest(summary, c) {
  const count = summary.classes[c];
  return count && summary.classReach ? rangeOf(count, summary.classReach[c], summary.jobs)[1] : count;
}

function bars(summary, names, colours, most, unit) {
  const [width, height, left, bottom] = [340, 120, 36, 100];
  const step = (width - left) / names.length;
  const chart = drawn("svg", { viewBox: `0 0 ${width} ${height + 8}`, class: "chart", role: "img" });
  const busiest = summary.classes.indexOf(Math.max(...summary.classes));
  const said = summary.known ? `most, ${showCount(summary.classes[busiest])}, at ${names[busiest]} ${unit}` : "none";
  chart.setAttribute("aria-label", `Synthetic jobs by distance: ${said}. The table below has all numbers.`);
  for (const share of [0, 0.5, 1]) {
    const y = bottom - share * (bottom - 10);
    chart.append(drawn("line", { x1: left, x2: width, y1: y, y2: y, class: share ? "grid" : "axis" }));
    chart.append(drawn("text", { x: left - 5, y: y + 4, "text-anchor": "end" }, short(share * most)));
  }
  summary.classes.forEach((count, c) => {
    const y = (value) => bottom - (value / most) * (bottom - 10);
    const x = left + c * step;
    const bar = drawn("rect", { x: x + 1.5, y: y(count), width: step - 3, height: bottom - y(count), rx: 1.5, class: "bar" });
    bar.setAttribute("fill", cssColour(colours[c]));
    bar.append(drawn("title", {}, `${names[c]} ${unit}: ${showCount(count)} synthetic jobs`));
    chart.append(bar);
    if (summary.classReach && count) {
      const [low, high] = rangeOf(count, summary.classReach[c], summary.jobs);
      const middle = x + step / 2;
      const [from, to] = [y(low), y(high)];
      if (from - to > 2) chart.append(drawn("path", { d: `M${middle - 3} ${to}h6m-3 0V${from}m-3 0h6`, class: "range" }));
    }
    if (c % 2 === 0) chart.append(drawn("text", { x, y: height - 3, "text-anchor": "middle" }, names[c].split("–")[0].replace("+", "")));
  });
  chart.append(drawn("text", { x: width, y: height - 3, "text-anchor": "end" }, unit));
  return chart;
}

const short = (count) => new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 }).format(count);
const headings = (summaries) =>
  summaries.length > 1 ? ["jobs A", "likely", "jobs B", "likely", "A − B", "likely"] : ["jobs", "likely"];

function cells(summaries, counts, reaches, group) {
  const own = summaries.flatMap((one) => {
    const count = one[counts][group];
    return [showCount(count), likely(count, one[reaches]?.[group], one.jobs)];
  });
  if (summaries.length < 2) return own;
  const change = summaries[0][counts][group] - summaries[1][counts][group];
  return [...own, signed(change, showCount), likelyChange(change, summaries.map((one) => one[reaches]?.[group]))];
}

/** The range of a difference: the noise of two releases is independent, so squares of reaches add. */
export function likelyChange(change, reaches) {
  if (reaches.some((reach) => reach === undefined || reach === null)) return "?";
  const reach = Math.hypot(...reaches);
  if (reach === 0) return "exact";
  return `${signed(Math.ceil(change - reach), showCount)} to ${signed(Math.floor(change + reach), showCount)}`;
}

/** Workers by the direction in which they live, seen from their work. */
export function showDirections(root, summaries) {
  const order = TURN_NAMES.map((_, turn) => turn).filter((turn) => summaries.some((one) => one.turns[turn] > 0));
  const open = root.querySelector("details")?.open ?? false;
  root.replaceChildren(
    element(
      "details",
      { className: "numbers", open },
      element("summary", {}, "By direction from work to home"),
      listTable(["", ...headings(summaries)], order.map((turn) => [TURN_NAMES[turn], ...cells(summaries, "turns", "turnReach", turn)])),
    ),
  );
}

function likely(count, reach, all) {
  if (reach === undefined || reach === null) return "?";
  if (reach === 0) return "exact";
  const [low, high] = rangeOf(count, reach, all);
  return `${showCount(low)}–${showCount(high)}`;
}

function listTable(head, rows) {
  const table = element("table", { className: "list" });
  table.append(element("thead", {}, element("tr", {}, ...head.map((name) => element("th", { scope: "col" }, name)))));
  table.append(
    element("tbody", {}, ...rows.map((row) =>
      element("tr", {}, ...row.map((cell, i) => element("td", { className: i && i % 2 === 0 ? "likely" : "" }, cell))))),
  );
  return table;
}

/** The areas or places with the most jobs. `names(group)` is text; `choose(group)` selects one. */
export function showAreas(root, summaries, { heading, names, choose, levels, level, setLevel }) {
  const elsewhere = summaries[0].groups.length - 1;
  const order = topGroups(
    summaries.reduce((sum, one) => sum.map((value, i) => value + one.groups[i]), new Float64Array(summaries[0].groups.length)),
    names,
    MOST_LISTED,
  );
  const most = Math.max(1, ...summaries.flatMap((one) => order.map((group) => one.groups[group])));
  const rows = order.map((group) => {
    const name =
      group === elsewhere
        ? element("span", {}, names(group))
        : element("button", { type: "button", onclick: () => choose(group) }, names(group));
    const bar = element("span", { className: "share" });
    bar.style.width = `${(100 * Math.max(...summaries.map((one) => one.groups[group]))) / most}%`;
    return [element("div", {}, name, bar), ...cells(summaries, "groups", "groupReach", group)];
  });
  const choice = element("select", { onchange: (event) => setLevel(event.target.value), "aria-label": "Count by" });
  for (const [value, text] of levels) choice.append(element("option", { value, selected: value === level }, text));
  root.replaceChildren(
    element("h3", {}, heading, element("span", {}, "by ", choice)),
    rows.length ? listTable(["", ...headings(summaries)], rows) : element("p", {}, "None."),
  );
}

/** Places that cannot be drawn, because nobody knows where they are. */
export function showMissing(root, world, choose, totals) {
  const lost = [];
  for (let place = 0; place < world.places.count; place += 1) if (!world.places.known(place)) lost.push(place);
  if (!lost.length) return root.replaceChildren();
  const items = lost.slice(0, 200).map((place) => {
    const label = `${world.places.label(place)} (${showCount(totals[place])})`;
    return element("li", {}, element("button", { type: "button", onclick: () => choose(place) }, label));
  });
  const open = root.querySelector("details")?.open ?? lost.length < 6;
  return root.replaceChildren(
    element(
      "details",
      { open },
      element("summary", {}, `Not on the map: ${showCount(lost.length)} places without a point, such as other states`),
      element("ul", {}, ...items),
    ),
  );
}
