// A canvas context that writes SVG: the subset of the context that the painters use.
import { element } from "./elements.mjs";

const ENTITIES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
const ANCHORS = { right: "end", center: "middle" };

// XML does not permit control characters, not even as entities.
// oxlint-disable-next-line no-control-regex
const CONTROL_CHARACTERS = /[\u0000-\u001f\u007f]/g;
const escapeText = (text) =>
  String(text).replace(CONTROL_CHARACTERS, " ").replace(/[&<>"]/g, (c) => ENTITIES[c]);
const number = (x) => String(Math.round(x * 100) / 100);

export class Svg {
  constructor() {
    this.parts = [];
    this.path = "";
    this.open = []; // number of SVG groups to close per save()
    this.clips = 0;
    this.dash = [];
    this.hatches = new Map();
    this.meter = document.createElement("canvas").getContext("2d");
    this.fillStyle = this.strokeStyle = "#000";
    this.lineWidth = this.globalAlpha = 1;
    this.font = "11px sans-serif";
    this.textAlign = "left";
    this.textBaseline = "middle";
  }

  // Return the fill of a hatch, defined once for each pair of colours.
  hatch(ground, line, pitch, width) {
    const key = `${ground} ${line}`;
    if (!this.hatches.has(key)) {
      const id = `hatch${this.hatches.size}`, size = `width="${pitch}" height="${pitch}"`;
      const [low, high] = [pitch - 1, pitch + 1];
      const path = `M-1 ${high}L${high} -1M-1 1L1 -1M${low} ${high}L${high} ${low}`;
      this.parts.push(
        `<pattern id="${id}" ${size} patternUnits="userSpaceOnUse">`,
        `<rect ${size} fill="${ground}"/>`,
        `<path d="${path}" stroke="${line}" stroke-width="${width}"/></pattern>`,
      );
      this.hatches.set(key, `url(#${id})`);
    }
    return this.hatches.get(key);
  }

  // Write an element; attributes without a value are omitted.
  put(tag, attributes, content = "") {
    const texts = Object.entries(attributes)
      .filter(([, value]) => value !== null)
      .map(([name, value]) => `${name}="${escapeText(typeof value === "number" ? number(value) : value)}"`);
    const end = content ? `>${content}</${tag}>` : "/>";
    this.parts.push(`<${tag} ${texts.join(" ")}${end}`);
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

  // Add a full circle to the path; the angles are ignored.
  arc(x, y, r) {
    const halves = `a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0Z`;
    this.path += `M${number(x - r)} ${number(y)}${halves}`;
  }

  setLineDash(dash) { this.dash = dash; }

  fill() {
    if (this.path) this.put("path", { d: this.path, fill: this.fillStyle, opacity: this.fade });
  }

  stroke() {
    if (!this.path) return;
    this.put("path", { d: this.path, ...this.strokeAttributes(this.dash.join(" ") || null) });
  }

  strokeAttributes(dashes = null) {
    return {
      fill: "none",
      stroke: this.strokeStyle,
      "stroke-width": this.lineWidth,
      "stroke-dasharray": dashes,
      opacity: this.fade,
    };
  }

  fillRect(x, y, width, height) {
    if (width <= 0 || height <= 0) return;
    this.put("rect", { x, y, width, height, fill: this.fillStyle, opacity: this.fade });
  }

  strokeRect(x, y, width, height) {
    this.put("rect", { x, y, width, height, ...this.strokeAttributes() });
  }

  measureText(text) {
    this.meter.font = this.font;
    return this.meter.measureText(text);
  }

  fillText(text, x, y, maxWidth = Infinity) {
    const textLength = this.measureText(text).width > maxWidth ? maxWidth : null;
    this.put("text", {
      x,
      y,
      fill: this.fillStyle,
      style: `font: ${this.font.replaceAll('"', "'")}`,
      "text-anchor": ANCHORS[this.textAlign] || null,
      "dominant-baseline": "central",
      textLength,
      lengthAdjust: textLength && "spacingAndGlyphs",
    }, escapeText(text));
  }

  // Embed a part of the cell image as pixels, because cells have no vector form.
  drawImage(image, left, top, columns, lines, x, y, width, height) {
    const copy = element("canvas", { width: columns, height: lines });
    copy.getContext("2d").drawImage(image, left, top, columns, lines, 0, 0, columns, lines);
    const style = "image-rendering: pixelated";
    this.put("image", { x, y, width, height, href: copy.toDataURL(), preserveAspectRatio: "none", style });
  }

  text(width, height) {
    const size = `width="${width}" height="${height}" viewBox="0 0 ${width} ${height}"`;
    return `<svg xmlns="http://www.w3.org/2000/svg" ${size}>${this.parts.join("")}</svg>`;
  }
}
