// One map: its canvases, and what mouse, fingers and keys do on it. It knows nothing of jobs; it asks the page.

import { drawChosen, drawFlows, drawLabels, drawOutlines, drawPlaces, drawZones, outlineLabels } from "./overlay.js";
import { mapOf, screenOf } from "./projection.js";
import { makeRenderer } from "./renderer.js";

const DRAG = 4; // pixels that a press may move and still be a click
const MOST_LABELS = 6;
const ZONE_FILLS = 0.5; // part of the window that a zone may span before its dots are replaced by areas
const STEP = 7; // pixels between the corners of a drawn line
const PICK = 26; // pixels within which a click finds a place

export class MapView {
  /** `page` has view, tool and theme, and does pick(place), box(corners), move(view), fit(), describe(place, scene). */
  constructor(root, world, page) {
    this.root = root;
    this.world = world;
    this.page = page;
    [this.ground, this.dots, this.top] = ["ground", "dots", "top"].map((name) => root.querySelector(`canvas.${name}`));
    this.band = root.querySelector(".band");
    this.tip = root.querySelector(".tip");
    this.renderer = makeRenderer(this.dots);
    this.renderer.again = () => this.draw();
    this.pointers = new Map();
    this.listen();
  }

  /** Takes note of the size; the canvases follow when they are drawn, so that they are never seen empty. */
  resize() {
    const { width, height } = this.root.getBoundingClientRect();
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    this.size = { width: Math.max(Math.round(width), 1), height: Math.max(Math.round(height), 1), ratio };
  }

  fitCanvases() {
    const { width, height, ratio } = this.size;
    for (const canvas of [this.ground, this.dots, this.top]) {
      const [across, down] = [Math.round(width * ratio), Math.round(height * ratio)];
      if (canvas.width !== across) canvas.width = across;
      if (canvas.height !== down) canvas.height = down;
    }
  }

  /** What is to be drawn: the chosen places, dot layers, flows between areas, and which places can be picked. */
  show(scene) {
    this.scene = scene;
  }

  /** Draws the scene with at most so many dots of each layer. */
  draw(most = Infinity) {
    const { view, theme } = this.page;
    const { scene, size, world } = this;
    if (!scene || !view) return;
    this.fitCanvases();
    const [under, over] = [this.ground, this.top].map((canvas) => {
      const pen = canvas.getContext("2d");
      pen.setTransform(size.ratio, 0, 0, size.ratio, 0, 0);
      pen.clearRect(0, 0, size.width, size.height);
      return pen;
    });
    drawOutlines(under, world, view, size, theme);
    // Where one zone spans half of the window, a dot would pretend to an address that nobody knows.
    const near = scene.zoneKm !== null && scene.zoneKm * view.scale > ZONE_FILLS * Math.min(size.width, size.height);
    this.renderer.draw(view, size, near ? [] : scene.layers(view), most);
    this.root.querySelector(".zoned").hidden = !near;
    this.root.querySelector(".dot").hidden = near;
    this.root.dataset.near = String(near);
    if (near && scene.zones) drawZones(over, world.places, scene.zones, view, size, theme, outlineLabels(world, view, size));
    const lines = !near && scene.flows.length > 0 && view.scale < scene.flowsUpTo;
    this.root.querySelector(".lines").hidden = !lines;
    if (lines) {
      drawFlows(over, scene.flows, scene.centres, view, size, theme);
      const areas = [...new Set(scene.flows.flatMap(({ from, to }) => [from, to]))].slice(0, MOST_LABELS);
      const labels = areas.map((area) => {
        const [left, top] = screenOf(view, size.width, size.height, scene.centres.x[area], scene.centres.y[area]);
        return { text: scene.areas[area], left, top };
      });
      drawLabels(over, [...labels, ...outlineLabels(world, view, size)], size, theme);
    } else if (!near) {
      drawLabels(over, outlineLabels(world, view, size), size, theme);
      drawPlaces(over, world, scene.totals, view, size, theme);
    }
    drawChosen(over, scene.shape, view, size, theme);
  }

  listen() {
    const { root } = this;
    root.addEventListener("pointerdown", (event) => this.press(event));
    root.addEventListener("pointermove", (event) => (this.pointers.size ? this.drag(event) : this.hover(event)));
    for (const kind of ["pointerup", "pointercancel"]) root.addEventListener(kind, (event) => this.release(event));
    root.addEventListener("pointerleave", () => this.tell(null));
    root.addEventListener(
      "wheel",
      (event) => {
        event.preventDefault();
        this.zoomAt(2 ** (-event.deltaY / (event.deltaMode === 1 ? 12 : 400)), ...this.at(event));
      },
      { passive: false },
    );
    root.addEventListener("keydown", (event) => this.key(event));
  }

  at(event) {
    const { left, top } = this.root.getBoundingClientRect();
    return [event.clientX - left, event.clientY - top];
  }

  press(event) {
    if (event.target.closest("button") || event.button > 0) return;
    this.root.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, this.at(event));
    if (this.pointers.size === 1) {
      this.start = this.at(event);
      this.moved = false;
      this.boxing = event.shiftKey || this.page.tool === "box";
      this.line = !event.shiftKey && this.page.tool === "lasso" ? [this.start] : null;
    } else {
      this.boxing = false; // a second finger zooms
      this.line = null;
      this.moved = true;
    }
    this.tell(null);
  }

  drag(event) {
    if (!this.pointers.has(event.pointerId)) return;
    const before = this.pinch();
    const was = this.pointers.get(event.pointerId);
    const now = this.at(event);
    this.pointers.set(event.pointerId, now);
    if (Math.hypot(now[0] - this.start[0], now[1] - this.start[1]) > DRAG) this.moved = true;
    if (!this.moved) return;
    const { view } = this.page;
    if (this.pointers.size > 1) {
      const after = this.pinch();
      this.page.move({ ...view, x: view.x - (after.x - before.x) / view.scale, y: view.y + (after.y - before.y) / view.scale });
      if (before.apart > 0) this.zoomAt(after.apart / before.apart, after.x, after.y);
    } else if (this.boxing) {
      this.drawBand(this.start, now);
    } else if (this.line) {
      const [lastX, lastY] = this.line.at(-1);
      if (Math.hypot(now[0] - lastX, now[1] - lastY) >= STEP) this.drawLine(now);
    } else {
      this.page.move({ ...view, x: view.x - (now[0] - was[0]) / view.scale, y: view.y + (now[1] - was[1]) / view.scale });
    }
  }

  pinch() {
    const [[ax, ay], [bx, by] = [ax, ay]] = [...this.pointers.values()];
    return { x: (ax + bx) / 2, y: (ay + by) / 2, apart: Math.hypot(ax - bx, ay - by) };
  }

  release(event) {
    if (!this.pointers.delete(event.pointerId) || this.pointers.size) return;
    const end = this.at(event);
    this.band.hidden = true;
    if (event.type === "pointercancel") return;
    if (!this.moved) {
      const place = this.nearest(...end, event.pointerType === "touch" ? 1.5 * PICK : PICK);
      if (place !== null) this.page.pick(place);
    } else if (this.boxing) {
      const corners = [this.start, [end[0], this.start[1]], end, [this.start[0], end[1]]];
      this.page.box(corners.map((corner) => this.placeOf(...corner)));
    } else if (this.line && this.line.length > 2) {
      this.page.polygon(this.line.map((corner) => this.placeOf(...corner)));
    }
    this.line = null;
  }

  // The line somebody draws around places; it goes when the selection is drawn.
  drawLine(to) {
    const pen = this.top.getContext("2d");
    pen.strokeStyle = this.page.theme.chosen;
    pen.lineWidth = 2.5;
    pen.beginPath();
    pen.moveTo(...this.line.at(-1));
    pen.lineTo(...to);
    pen.stroke();
    this.line.push(to);
  }

  /** Latitude and longitude of a pixel. */
  placeOf(left, top) {
    const { width, height } = this.size;
    return this.world.places.projection.inverse(...mapOf(this.page.view, width, height, left, top));
  }

  drawBand([ax, ay], [bx, by]) {
    this.band.hidden = false;
    Object.assign(this.band.style, {
      left: `${Math.min(ax, bx)}px`,
      top: `${Math.min(ay, by)}px`,
      width: `${Math.abs(ax - bx)}px`,
      height: `${Math.abs(ay - by)}px`,
    });
  }

  /** The nearest place with jobs that is at most `reach` pixels away, or null. */
  nearest(left, top, reach) {
    const { places } = this.world;
    const [x, y] = mapOf(this.page.view, this.size.width, this.size.height, left, top);
    let found = null;
    let least = (reach / this.page.view.scale) ** 2;
    for (let place = 0; place < places.count; place += 1) {
      if (!this.scene.totals[place]) continue;
      const apart = (places.x[place] - x) ** 2 + (places.y[place] - y) ** 2; // NaN is never less
      if (apart < least) [found, least] = [place, apart];
    }
    return found;
  }

  hover(event) {
    if (event.pointerType !== "mouse" || event.target.closest("button")) return;
    const [left, top] = this.at(event);
    this.tell(this.nearest(left, top, PICK / 2), left, top);
  }

  tell(place, left, top) {
    this.tip.hidden = place === null;
    if (place === null) return;
    this.tip.textContent = this.page.describe(place, this.scene);
    this.tip.style.left = `${Math.min(left + 14, this.size.width - 200)}px`;
    this.tip.style.top = `${Math.max(top - 34, 4)}px`;
  }

  zoomAt(factor, left, top) {
    const { view } = this.page;
    const { width, height } = this.size;
    const scale = this.page.limitScale(view.scale * factor);
    const [x, y] = mapOf(view, width, height, left, top);
    this.page.move({ scale, x: x - (left - width / 2) / scale, y: y + (top - height / 2) / scale });
  }

  zoom(factor) {
    this.zoomAt(factor, this.size.width / 2, this.size.height / 2);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("button")) return;
    const { view } = this.page;
    const step = 60 / view.scale;
    const acts = {
      ArrowLeft: () => this.page.move({ ...view, x: view.x - step }),
      ArrowRight: () => this.page.move({ ...view, x: view.x + step }),
      ArrowUp: () => this.page.move({ ...view, y: view.y + step }),
      ArrowDown: () => this.page.move({ ...view, y: view.y - step }),
      "+": () => this.zoom(1.5),
      "=": () => this.zoom(1.5),
      "-": () => this.zoom(1 / 1.5),
      0: () => this.page.fit(),
      Enter: () => {
        const place = this.nearest(this.size.width / 2, this.size.height / 2, Math.hypot(this.size.width, this.size.height));
        if (place !== null) this.page.pick(place);
      },
    };
    const act = acts[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }
}
