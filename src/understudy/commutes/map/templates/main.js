// The page: reads its data, keeps what is selected and where the window is, and has everything drawn again on a change.

import { distanceColours } from "./colours.js";
import { makeCombobox } from "./combobox.js";
import { decodeArrays } from "./decode.js";
import { SHOWN } from "./dots.js";
import { countsCsv, offerFile } from "./download.js";
import { drawLegend, furnish } from "./furniture.js";
import { CLASSES, classEdgesKm, classesOf, classNames, classWidth } from "./histogram.js";
import { linkOf, selectionOf } from "./link.js";
import { MapView } from "./mapview.js";
import { showAreas, showCount, showDirections, showHistogram, showMissing, showSummary } from "./panel.js";
import { boxOf, boxOfMost, MARGINS, screenOf, viewOfBox } from "./projection.js";
import { layersOf, makeScene, recolour, setDots } from "./scene.js";
import { makeSearch } from "./search.js";
import { boxAround, chosenPlaces, everything, summarise } from "./select.js";
import { flowsOfSegment, makeWorld, usualLevel } from "./world.js";

const NEAREST_SCALE = 500; // pixels per kilometre: a pixel is two metres
const REST = 160; // milliseconds without movement after which every dot is drawn
const SEGMENT_RANGES = "segments were measured for whole areas of homes or of workplaces; understudy infer gives their ranges";
const MOST_CORNERS = 60; // of a drawn line, so that a link to it stays short
const MOST_WHILE_MOVING = 150_000;
const byId = (id) => document.getElementById(id);

class Page {
  constructor(world) {
    this.world = world;
    this.tool = "pan";
    this.level = usualLevel(world.levels);
    this.lines = true;
    this.maps = [...document.querySelectorAll(".map")].map((root) => new MapView(root, world, this));
    document.body.classList.toggle("two", this.maps.length > 1);
    this.setUnit(world.meta.unit);
    this.setTheme();
    this.makeBoxes();
    this.measure();
    this.view = this.fitted;
    this.offerSegments();
    this.listen();
    this.followLink();
  }

  /** A choice of segments, where every release has the same. */
  offerSegments() {
    this.everybody = this.world.releases;
    const lists = this.world.meta.releases.map((release) => (release.segments ?? []).join("|"));
    if (!lists[0] || new Set(lists).size > 1) return;
    this.world.meta.releases[0].segments.forEach((name, place) => byId("segment").append(new Option(name, String(place))));
    byId("segments").hidden = false;
    byId("segment").addEventListener("change", (event) => this.setSegment(event.target.value));
  }

  setSegment(value) {
    const { places } = this.world;
    this.world.releases =
      value === "" ? this.everybody : this.everybody.map((flows) => flowsOfSegment(flows, Number(value), places));
    this.segment = value === "" ? null : this.world.meta.releases[0].segments[Number(value)];
    const { selection } = this;
    this.selection = undefined; // all dots are made anew
    this.select(selection, { remember: false });
  }

  // ---- what is selected

  select(selection, { remember = true } = {}) {
    this.problem(null);
    const turned = this.selection?.side !== selection.side;
    this.selection = selection;
    this.chosen = chosenPlaces(this.world, selection);
    if (remember) {
      const link = linkOf(this.world, selection);
      if (location.hash.replace(/^#/, "") !== link) location.hash = link;
    }
    if (turned) {
      for (const input of document.querySelectorAll("input[name=side]")) input.checked = input.value === selection.side;
      byId("search-label").textContent = selection.side === "dest" ? "Find a workplace" : "Find a home";
    }
    this.world.releases.forEach((flows, number) => {
      setDots(this.maps[number].renderer, this.world, flows, selection, this.chosen, turned);
    });
    this.count();
  }

  followLink() {
    const { selection, problem } = selectionOf(this.world, location.hash);
    this.select(selection ?? everything("dest"), { remember: false });
    this.problem(problem ?? null);
  }

  problem(text) {
    byId("problem").hidden = text === null;
    byId("problem").textContent = text ?? "";
  }

  pick(place) {
    this.select({ side: this.selection.side, kind: "place", value: place });
  }

  box(corners) {
    const [map] = this.maps;
    const [, longitude] = map.placeOf(map.size.width / 2, map.size.height / 2);
    this.select({ side: this.selection.side, kind: "box", value: boxAround(corners, longitude) });
    this.setTool("pan");
  }

  polygon(corners) {
    const every = Math.ceil(corners.length / MOST_CORNERS);
    const value = corners.filter((_, i) => i % every === 0);
    this.select({ side: this.selection.side, kind: "polygon", value });
    this.setTool("pan");
  }

  selectVisible() {
    const [map] = this.maps;
    const { width, height } = map.size;
    this.box([[0, 0], [width, 0], [width, height], [0, height]].map((corner) => map.placeOf(...corner)));
  }

  describe(place, scene) {
    return `${this.world.places.label(place)}: ${showCount(scene.totals[place])} synthetic jobs`;
  }

  title() {
    const { kind, value, side } = this.selection;
    const { places, levels } = this.world;
    if (kind === "all") return side === "dest" ? "Where all workers live" : "Where all residents work";
    let who = kind === "polygon" ? "the drawn area" : "the selected box";
    if (kind === "place") who = places.label(value);
    else if (kind === "area") who = levels[value[0]].names[value[1]];
    else if (kind === "outline") who = this.world.outlineNames[value].text;
    return side === "dest" ? `Where workers of ${who} live` : `Where people of ${who} work`;
  }

  // ---- numbers

  areaName(group) {
    const { places, levels } = this.world;
    if (this.level === null) return places.label(group);
    return levels[this.level].names[group] ?? places.label(places.elsewhere);
  }

  summariesBy(level) {
    const { of, areas } = level === null ? { of: null, areas: [] } : this.world.levels[level];
    return this.world.releases.map((flows) =>
      summarise(this.world, flows, this.selection, this.chosen, flows.classes, CLASSES, of, areas.length),
    );
  }

  count() {
    const { world, selection } = this;
    const summaries = this.summariesBy(this.level);
    const reasons = this.world.meta.releases.map((release) => (this.segment ? SEGMENT_RANGES : (release.noRanges ?? "")));
    showSummary(byId("summary"), this.title(), summaries, { unit: this.unit, reasons });
    showDirections(byId("directions"), summaries);
    showHistogram(byId("charts"), summaries, this.classNames, this.colours, this.unit);
    showAreas(byId("areas"), summaries, {
      heading: selection.side === "dest" ? "Homes" : "Workplaces",
      names: (group) => this.areaName(group),
      choose: (group) => {
        const [kind, value] = this.level === null ? ["place", group] : ["area", [this.level, group]];
        this.select({ side: SHOWN[selection.side], kind, value });
      },
      levels: [...world.levels.map((level, i) => [String(i), level.name]), ["", "place"]],
      level: this.level === null ? "" : String(this.level),
      setLevel: (value) => {
        this.level = value === "" ? null : Number(value);
        this.count();
      },
    });
    showMissing(byId("missing"), world, (place) => this.pick(place), world.releases[0].totals[selection.side]);
    const { chosen, fitted } = this;
    const level = this.lines ? this.level : null;
    const { width, height } = this.maps[0].size;
    const spread = (width / fitted.scale) * (height / fitted.scale); // square kilometres around most of the jobs
    this.maps.forEach((map, number) => {
      const flows = world.releases[number];
      map.show({
        ...makeScene(world, flows, summaries[number], { selection, chosen, level, counted: this.level, fitted, spread }),
        layers: (view) => layersOf(flows, chosen, view, this.fitted, this.colours, this.theme),
      });
    });
    this.redraw();
  }

  // ---- the window

  /** Moves the window to the selection if none of it can be seen. */
  bringIntoView() {
    const [{ scene, size }] = this.maps;
    const { points } = scene.shape;
    const seen = points.some(([x, y]) => {
      const [left, top] = screenOf(this.view, size.width, size.height, x, y);
      return left > 0 && top > 0 && left < size.width && top < size.height;
    });
    if (points.length && !seen) this.move({ ...this.view, x: points[0][0], y: points[0][1] });
  }

  /** Shows everything; once more, everything but the few far places. */
  fit() {
    this.measure();
    this.move(this.view === this.whole ? this.fitted : this.whole);
  }

  measure() {
    for (const map of this.maps) map.resize();
    const { width, height } = this.maps[0].size;
    const margins = this.maps.length > 1 ? { ...MARGINS, top: 60 } : MARGINS; // the name of a map is at its top
    [this.fitted, this.whole] = this.boxes.map((box) => viewOfBox(box, width, height, margins));
  }

  // The box around most of the jobs, and the box around all places.
  makeBoxes() {
    const { places, releases } = this.world;
    const all = boxOf(places.x, places.y);
    const { dest, home } = releases[0].totals;
    this.boxes = [boxOfMost(places.x, places.y, home.map((jobs, i) => jobs + dest[i]), all), all];
  }

  resized() {
    const before = [this.fitted, this.whole];
    this.measure();
    const kept = before.indexOf(this.view);
    this.move(kept < 0 ? this.view : [this.fitted, this.whole][kept]);
  }

  limitScale(scale) {
    return Math.min(Math.max(scale, this.whole.scale / 3), Math.max(NEAREST_SCALE, this.fitted.scale));
  }

  /** Moves the window. While it moves not every dot of a large map is drawn; all are as soon as it rests. */
  move(view) {
    this.view = view;
    this.moving = true;
    clearTimeout(this.rest);
    this.rest = setTimeout(() => {
      this.moving = false;
      this.redraw();
    }, REST);
    this.redraw();
  }

  redraw() {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => this.drawNow());
  }

  drawNow() {
    this.asked = false;
    this.maps.forEach((map, number) => {
      map.draw(this.moving ? MOST_WHILE_MOVING : Infinity);
      const { lit } = this.world.releases[number];
      furnish(map.root, this.world.places.projection, this.view, this.unit, lit);
    });
    document.body.dataset.drawn ??= String(Math.round(performance.now())); // milliseconds to the first picture
  }

  // ---- settings

  setUnit(unit) {
    this.unit = unit;
    byId("unit").value = unit;
    const width = classWidth(this.world.releases, unit);
    this.classNames = classNames(width);
    const edges = classEdgesKm(width, unit);
    for (const flows of this.world.releases) flows.classes = classesOf(flows, edges);
  }

  setTheme() {
    const wanted = byId("theme").value;
    this.paint(wanted ? wanted === "dark" : matchMedia("(prefers-color-scheme: dark)").matches);
  }

  paint(dark) {
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    const style = getComputedStyle(document.documentElement);
    this.theme = { font: "system-ui, sans-serif", unknown: [125, 135, 145] };
    [this.theme.faint, this.theme.rim] = dark ? [[70, 82, 93], [11, 16, 21]] : [[160, 170, 178], [255, 255, 255]];
    for (const name of ["ink", "halo", "chosen", "flow", "outline", "land", "water", "road"]) {
      this.theme[name] = style.getPropertyValue(`--${name}`).trim();
    }
    this.colours = distanceColours(CLASSES, dark);
    this.drawLegends();
  }

  drawLegends() {
    for (const map of this.maps) drawLegend(map.root, this.colours, this.classNames, this.unit);
  }

  setTool(tool) {
    this.tool = tool;
    for (const map of this.maps) {
      map.root.classList.toggle("boxing", tool !== "pan");
      for (const name of ["box", "lasso"]) {
        map.root.querySelector(`button.${name}`).setAttribute("aria-pressed", String(tool === name));
      }
    }
  }

  // ---- what people do

  listen() {
    makeCombobox(byId("search"), byId("found"), makeSearch(this.world), ({ kind, value, away }) => {
      this.select({ side: away ? "home" : this.selection.side, kind, value }); // nobody of this map works outside
      this.bringIntoView();
    });
    for (const input of document.querySelectorAll("input[name=side]")) {
      input.addEventListener("change", () => this.select({ ...this.selection, side: input.value }));
    }
    const does = {
      visible: () => this.selectVisible(),
      everything: () => {
        this.select(everything(this.selection.side));
        this.move(this.fitted);
      },
      download: () =>
        offerFile(countsCsv(this.world, this.selection, this.title(), this.summariesBy(null)), "synthetic-commutes.csv"),
      copy: () => this.copyLink(),
      print: () => window.print(),
    };
    for (const [id, act] of Object.entries(does)) byId(id).addEventListener("click", act);
    byId("unit").addEventListener("change", (event) => {
      this.setUnit(event.target.value);
      this.drawLegends();
      this.world.releases.forEach((flows, number) => recolour(this.maps[number].renderer, flows));
      this.count();
    });
    byId("theme").addEventListener("change", () => this.repaint());
    byId("flows").addEventListener("change", (event) => {
      this.lines = event.target.checked;
      this.count();
    });
    for (const map of this.maps) {
      const press = (name, act) => map.root.querySelector(`button.${name}`).addEventListener("click", act);
      press("in", () => map.zoom(1.5));
      press("out", () => map.zoom(1 / 1.5));
      press("fit", () => this.fit());
      for (const name of ["box", "lasso"]) press(name, () => this.setTool(this.tool === name ? "pan" : name));
      new ResizeObserver(() => this.resized()).observe(map.root);
    }
    window.addEventListener("hashchange", () => {
      if (linkOf(this.world, this.selection) !== location.hash.replace(/^#/, "")) this.followLink();
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.repaint());
    window.addEventListener("beforeprint", () => {
      this.paint(false); // paper is light
      this.count();
      this.moving = false;
      this.drawNow();
    });
    window.addEventListener("afterprint", () => this.repaint());
  }

  repaint() {
    this.setTheme();
    this.count();
  }

  async copyLink() {
    const button = byId("copy");
    try {
      await navigator.clipboard.writeText(location.href);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Copy it from the address bar";
    }
    setTimeout(() => (button.textContent = "Copy link"), 2500);
  }
}

const meta = JSON.parse(byId("understudy-about").textContent);
const arrays = await decodeArrays(byId("understudy-data").textContent, meta.arrays);
window.understudy = new Page(makeWorld(meta, arrays));
