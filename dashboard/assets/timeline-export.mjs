// Export of the timeline as a file: PNG, or SVG with every bar and text as drawn.
import * as Palette from "./timeline-palette.mjs";
import * as Scene from "./timeline-scene.mjs";
import { GUTTER } from "./timeline-geometry.mjs";
import { element, shorten } from "./timeline-format.mjs";

const LEGEND_LINE = 22, PNG_SCALE = 2; // pixels per legend line; PNG pixels per CSS pixel

const NAMES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
// XML does not permit control characters, not even as entities.
// oxlint-disable-next-line no-control-regex
const safe = (text) => String(text).replace(/[\u0000-\u001f\u007f]/g, " ").replace(/[&<>"]/g, (c) => NAMES[c]);
const number = (x) => String(Math.round(x * 100) / 100);

// The subset of the canvas context that the painters use, implemented as SVG output.
class Svg {
  constructor() {
    this.parts = [];
    this.path = "";
    this.open = []; // number of SVG groups to close per save()
    this.clips = 0;
    this.dash = [];
    this.hatches = new Map();
    this.meter = document.createElement("canvas").getContext("2d");
    Object.assign(this, { fillStyle: "#000", strokeStyle: "#000", lineWidth: 1, globalAlpha: 1, font: "11px sans-serif", textAlign: "left", textBaseline: "middle" });
  }

  // Return the fill of a hatch, defined once for each pair of colours.
  hatch(ground, line, pitch, width) {
    const key = `${ground} ${line}`;
    if (!this.hatches.has(key)) {
      const id = `hatch${this.hatches.size}`, size = `width="${pitch}" height="${pitch}"`;
      this.parts.push(`<pattern id="${id}" ${size} patternUnits="userSpaceOnUse"><rect ${size} fill="${ground}"/>` +
        `<path d="M-1 ${pitch + 1}L${pitch + 1} -1M-1 1L1 -1M${pitch - 1} ${pitch + 1}L${pitch + 1} ${pitch - 1}" stroke="${line}" stroke-width="${width}"/></pattern>`);
      this.hatches.set(key, `url(#${id})`);
    }
    return this.hatches.get(key);
  }

  put(tag, attributes, inside = "") {
    const told = Object.entries(attributes).filter(([, value]) => value !== null);
    this.parts.push(`<${tag} ${told.map(([k, v]) => `${k}="${safe(typeof v === "number" ? number(v) : v)}"`).join(" ")}${inside ? `>${inside}</${tag}>` : "/>"}`);
  }

  get fade() { return this.globalAlpha === 1 ? null : this.globalAlpha; }

  save() { this.open.push(0); }
  restore() { this.parts.push("</g>".repeat(this.open.pop() || 0)); }
  clip() {
    const id = `clip${++this.clips}`;
    this.parts.push(`<clipPath id="${id}"><path d="${this.path}"/></clipPath><g clip-path="url(#${id})">`);
    this.open[this.open.length - 1] += 1;
  }
  translate(x, y) {
    this.parts.push(`<g transform="translate(${number(x)} ${number(y)})">`);
    this.open[this.open.length - 1] += 1;
  }

  beginPath() { this.path = ""; }
  moveTo(x, y) { this.path += `M${number(x)} ${number(y)}`; }
  lineTo(x, y) { this.path += `L${number(x)} ${number(y)}`; }
  closePath() { this.path += "Z"; }
  rect(x, y, w, h) { this.path += `M${number(x)} ${number(y)}h${number(w)}v${number(h)}h${number(-w)}Z`; }
  arc(x, y, r) { this.path += `M${number(x - r)} ${number(y)}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0Z`; } // full circles only
  setLineDash(dash) { this.dash = dash; }
  fill() { if (this.path) this.put("path", { d: this.path, fill: this.fillStyle, opacity: this.fade }); }
  stroke() {
    if (this.path) this.put("path", { d: this.path, fill: "none", stroke: this.strokeStyle, "stroke-width": this.lineWidth, "stroke-dasharray": this.dash.join(" ") || null, opacity: this.fade });
  }
  fillRect(x, y, width, height) { if (width > 0 && height > 0) this.put("rect", { x, y, width, height, fill: this.fillStyle, opacity: this.fade }); }
  strokeRect(x, y, width, height) {
    this.put("rect", { x, y, width, height, fill: "none", stroke: this.strokeStyle, "stroke-width": this.lineWidth, opacity: this.fade });
  }

  measureText(text) { this.meter.font = this.font; return this.meter.measureText(text); }
  fillText(text, x, y, most = Infinity) {
    const anchor = { right: "end", center: "middle" }[this.textAlign] || null;
    const wide = this.measureText(text).width > most ? most : null;
    const style = `font: ${this.font.replaceAll('"', "'")}`;
    this.put("text", { x, y, fill: this.fillStyle, style, "text-anchor": anchor, "dominant-baseline": "central", textLength: wide, lengthAdjust: wide && "spacingAndGlyphs" }, safe(text));
  }

  // Embed a part of the cell image as pixels, because cells have no vector form.
  drawImage(image, left, top, columns, lines, x, y, width, height) {
    const copy = element("canvas", { width: columns, height: lines });
    copy.getContext("2d").drawImage(image, left, top, columns, lines, 0, 0, columns, lines);
    this.put("image", { x, y, width, height, href: copy.toDataURL(), preserveAspectRatio: "none", style: "image-rendering: pixelated" });
  }

  text(width, height) {
    return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">${this.parts.join("")}</svg>`;
  }
}

// Return the position of each state in the legend, which wraps like text.
const layOutLegend = (c, t, theme) => {
  c.font = `11px ${theme.font}`;
  let x = GUTTER, line = 0;
  const pale = t.data.colour === "waiting" ? [] : [{ name: "hatched: waiting" }];
  return [...t.data.states, ...pale].map(({ name }) => {
    const wide = c.measureText(shorten(name)).width + 32;
    if (x + wide > t.width && x > GUTTER) { x = GUTTER; line += 1; }
    const place = { name: shorten(name), x, y: line * LEGEND_LINE + LEGEND_LINE / 2 };
    x += wide;
    return place;
  });
};

const drawAll = (c, t, theme, places, size) => {
  c.fillStyle = theme.surface;
  c.fillRect(0, 0, ...size);
  Scene.drawStrip(c, t, theme);
  c.save();
  c.translate(0, Scene.STRIP_HEIGHT);
  Scene.drawRows(c, t, theme);
  c.restore();
  c.save();
  c.translate(0, Scene.STRIP_HEIGHT + Scene.canvasHeight(t));
  const palette = Palette.makePalette(t.data.states, theme);
  c.textAlign = "left";
  c.textBaseline = "middle";
  c.font = `11px ${theme.font}`;
  places.forEach(({ name, x, y }, i) => {
    if (i < palette.length) {
      c.fillStyle = palette[i].fill;
      c.fillRect(x, y - 5, 10, 10);
      c.fillStyle = Palette.waitFill(c, palette[i], 10);
      if (t.data.colour !== "waiting") c.fillRect(x + 5, y - 5, 5, 10);
    }
    c.fillStyle = theme.ink;
    c.fillText(name, x + 15, y);
  });
  c.restore();
};

// Save the visible picture under the trace's name.
export const saveImage = async (t, kind) => {
  if (!t.overview || !t.data) return;
  const theme = Palette.readTheme(t.root), meter = document.createElement("canvas").getContext("2d");
  const places = layOutLegend(meter, t, theme), lines = places.length ? places.at(-1).y + LEGEND_LINE / 2 : 0;
  const size = [t.width, Math.ceil(Scene.STRIP_HEIGHT + Scene.canvasHeight(t) + lines + 4)];
  let blob;
  if (kind === "svg") {
    const svg = new Svg();
    drawAll(svg, t, theme, places, size);
    blob = new Blob([svg.text(...size)], { type: "image/svg+xml" });
  } else {
    const canvas = element("canvas", { width: size[0] * PNG_SCALE, height: size[1] * PNG_SCALE });
    const c = canvas.getContext("2d");
    c.scale(PNG_SCALE, PNG_SCALE);
    drawAll(c, t, theme, places, size);
    blob = await new Promise((done) => { canvas.toBlob(done); });
  }
  const address = URL.createObjectURL(blob);
  element("a", { href: address, download: `timeline.${kind}` }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
};
