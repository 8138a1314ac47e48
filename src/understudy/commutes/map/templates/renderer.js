// Dots on a canvas: WebGL where there is any, else the slow way.

const VERTEX = `
precision highp float;
attribute vec2 position;
attribute float kind;
uniform vec2 middle;
uniform vec2 reach;
uniform mediump float size;
uniform vec3 colours[13];
varying vec3 colour;
void main() {
  gl_Position = vec4((position - middle) * reach, 0.0, 1.0);
  gl_PointSize = size;
  colour = colours[int(kind)];
}`;
const FRAGMENT = `
precision mediump float;
uniform float alpha;
uniform mediump float size;
uniform vec3 rim;
varying vec3 colour;
void main() {
  float edge = size * (0.5 - length(gl_PointCoord - 0.5)); // pixels from the edge of the dot inwards
  float cover = alpha * clamp(edge + 0.5, 0.0, 1.0);
  float inside = size < 6.0 ? 1.0 : clamp(edge - 0.7, 0.0, 1.0); // large dots have a rim, so that neighbours stay apart
  gl_FragColor = vec4(mix(rim, colour, inside) * cover, cover);
}`;
const MOST_SKIPPED = 31; // WebGL steps over at most 255 bytes at a time
export const KINDS = 13; // classes of distance, and last the unknown distance

/** The renderer of a canvas: `set(layer, positions, kinds)`, then `draw(view, size, layers, most)`. */
export function makeRenderer(canvas) {
  const gl = canvas.getContext("webgl", { antialias: false, preserveDrawingBuffer: true }); // printing reads it
  return gl ? new WebGlDots(canvas, gl) : new FlatDots(canvas);
}

class WebGlDots {
  constructor(canvas, gl) {
    this.gl = gl;
    this.layers = new Map();
    this.prepare();
    canvas.addEventListener("webglcontextlost", (event) => event.preventDefault());
    canvas.addEventListener("webglcontextrestored", () => {
      this.prepare();
      for (const [name, { positions, kinds }] of this.layers) this.set(name, positions, kinds);
      this.again?.();
    });
  }

  prepare() {
    const { gl } = this;
    const program = gl.createProgram();
    for (const [kind, text] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
      const shader = gl.createShader(kind);
      gl.shaderSource(shader, text);
      gl.compileShader(shader);
      gl.attachShader(program, shader);
    }
    gl.linkProgram(program);
    if (!gl.getProgramParameter(program, gl.LINK_STATUS) && !gl.isContextLost()) {
      throw new Error(`the dots cannot be drawn: ${gl.getProgramInfoLog(program)}`);
    }
    gl.useProgram(program);
    this.position = gl.getAttribLocation(program, "position");
    this.kind = gl.getAttribLocation(program, "kind");
    this.uniforms = {};
    for (const name of ["middle", "reach", "size", "colours", "alpha", "rim"]) {
      this.uniforms[name] = gl.getUniformLocation(program, name);
    }
    gl.enableVertexAttribArray(this.position);
    gl.enableVertexAttribArray(this.kind);
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
    gl.clearColor(0, 0, 0, 0);
    this.buffers = new Map();
  }

  set(name, positions, kinds) {
    const { gl } = this;
    this.layers.set(name, { positions, kinds });
    if (!this.buffers.has(name)) this.buffers.set(name, [gl.createBuffer(), gl.createBuffer()]);
    [positions, kinds].forEach((values, number) => {
      gl.bindBuffer(gl.ARRAY_BUFFER, this.buffers.get(name)[number]);
      gl.bufferData(gl.ARRAY_BUFFER, values, gl.STATIC_DRAW);
    });
  }

  draw(view, { width, height, ratio }, drawn, most) {
    const { gl, uniforms } = this;
    gl.viewport(0, 0, gl.drawingBufferWidth, gl.drawingBufferHeight);
    gl.clear(gl.COLOR_BUFFER_BIT);
    gl.uniform2f(uniforms.middle, view.x, view.y);
    gl.uniform2f(uniforms.reach, (2 * view.scale) / width, (2 * view.scale) / height);
    for (const { name, colours, alpha, size, rim } of drawn) {
      const layer = this.layers.get(name);
      if (!layer?.kinds.length) continue;
      gl.uniform1f(uniforms.size, size * ratio);
      gl.uniform1f(uniforms.alpha, alpha);
      gl.uniform3fv(uniforms.rim, rim.map((value) => value / 255));
      gl.uniform3fv(uniforms.colours, colours.flat().map((value) => value / 255));
      const [positions, kinds] = this.buffers.get(name);
      gl.bindBuffer(gl.ARRAY_BUFFER, positions);
      const step = Math.min(MOST_SKIPPED, Math.ceil(layer.kinds.length / most) || 1); // every step-th dot
      gl.vertexAttribPointer(this.position, 2, gl.FLOAT, false, 8 * step, 0);
      gl.bindBuffer(gl.ARRAY_BUFFER, kinds);
      gl.vertexAttribPointer(this.kind, 1, gl.UNSIGNED_BYTE, false, step, 0);
      gl.drawArrays(gl.POINTS, 0, Math.floor((layer.kinds.length - 1) / step) + 1);
    }
  }
}

/** The same without WebGL, for old machines: only what is inside the window is drawn. */
class FlatDots {
  constructor(canvas) {
    this.pen = canvas.getContext("2d");
    this.layers = new Map();
  }

  set(name, positions, kinds) {
    this.layers.set(name, { positions, kinds });
  }

  draw(view, { width, height, ratio }, drawn, most) {
    const { pen } = this;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    for (const { name, colours, alpha, size } of drawn) {
      const layer = this.layers.get(name);
      if (!layer) continue;
      pen.globalAlpha = alpha;
      const step = Math.ceil(layer.kinds.length / most) || 1;
      for (let i = 0; i < layer.kinds.length; i += step) {
        const left = (layer.positions[2 * i] - view.x) * view.scale + width / 2;
        const top = height / 2 - (layer.positions[2 * i + 1] - view.y) * view.scale;
        if (left < 0 || top < 0 || left > width || top > height) continue;
        pen.fillStyle = `rgb(${colours[layer.kinds[i]].join(",")})`;
        pen.fillRect(left - size / 2, top - size / 2, size, size);
      }
    }
  }
}
