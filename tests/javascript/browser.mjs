// A small browser for tests of the dashboard's modules in node: elements, canvases and the page's globals.
// It has only the properties that these modules use.
import { readFileSync } from "node:fs";
import { runInThisContext } from "node:vm";

const ASSETS = new URL("../../dashboard/assets/", import.meta.url);

export class Element extends EventTarget {
  constructor(tag) {
    super();
    Object.assign(this, { tagName: tag.toUpperCase(), children: [], dataset: {}, style: {}, hidden: false });
    this.attributes = new Map();
    this.value = this.defaultValue = "";
    this.isConnected = true;
    this.classList = { toggle: () => {} };
  }

  setAttribute(name, value) { this.attributes.set(name, value); }
  getAttribute(name) { return this.attributes.get(name) ?? null; }
  append(...children) { this.children.push(...children.filter((child) => child !== "")); }
  replaceChildren(...children) { this.children = children; }
  contains(element) {
    const contains = (child) => child instanceof Element && child.contains(element);
    return element === this || this.children.some(contains);
  }
  focus() { document.activeElement = this; }
  scrollIntoView() {}
  getBoundingClientRect() { return { left: 0, top: 0 }; }

  get textContent() {
    return this.children.map((child) => (child instanceof Element ? child.textContent : child)).join("");
  }
  set textContent(text) { this.children = [String(text)]; }

  // Return all elements below this one that have a tag.
  querySelectorAll(tag) {
    const elements = this.children.filter((child) => child instanceof Element);
    return elements.flatMap((child) => [
      ...(child.tagName === tag.toUpperCase() ? [child] : []),
      ...child.querySelectorAll(tag),
    ]);
  }
  querySelector(tag) { return this.querySelectorAll(tag)[0] ?? null; }

  // Send an event with some fields to the listeners, and to the handler property.
  send(type, fields = {}) {
    const event = Object.assign(new Event(type, { cancelable: true }), fields);
    this.dispatchEvent(event);
    this[`on${type}`]?.(event);
    return event;
  }
}

// A context that records the filled rectangles and the texts: {x, y, w, h, fill, alpha} and {text, x, y}.
// A character is 6 pixels wide.
export class Recorder {
  constructor() {
    Object.assign(this, { rectangles: [], texts: [], fillStyle: "", globalAlpha: 1 });
  }

  fillRect(x, y, w, h) {
    this.rectangles.push({ x, y, w, h, fill: this.fillStyle, alpha: this.globalAlpha });
  }
  fillText(text, x, y) { this.texts.push({ text, x, y }); }
  measureText(text) { return { width: 6 * text.length }; }
  hatch(ground) { return `hatch ${ground}`; }
  strokeRect() {}
  beginPath() {}
  moveTo() {}
  lineTo() {}
  closePath() {}
  rect() {}
  arc() {}
  clip() {}
  fill() {}
  stroke() {}
  save() {}
  restore() {}
  setLineDash() {}
}

// A canvas whose context takes and returns pixels.
class PixelCanvas {
  constructor(width, height) { Object.assign(this, { width, height, image: null }); }

  getContext() {
    return new Proxy(this, {
      get: (canvas, name) => {
        if (name === "putImageData") return (image) => { canvas.image = image; };
        if (name === "getImageData") return (x, y, w, h) => makeEmptyImage(w, h);
        return () => {};
      },
      set: () => true,
    });
  }
}

class PixelImage {
  constructor(data, width, height) { Object.assign(this, { data, width, height }); }
}

const makeEmptyImage = (width, height) =>
  new PixelImage(new Uint8ClampedArray(4 * width * height), width, height);

const COLOURS = { blue: "#336699", green: "#339966", q3: "#808080", link: "#0000ff" };
export const theme = {
  ink: "#000000",
  ink2: "#222222",
  ink3: "#444444",
  line: "#eeeeee",
  surface: "#ffffff",
  sunken: "#f0f0f0",
  q1: "#dddddd",
  q2: "#c0c000",
  late: "#d00000",
  late_text: "#a00000",
  btn: "#000000",
  btn_ink: "#ffffff",
  font: "sans-serif",
  colour: (name) => COLOURS[name],
};

Object.assign(globalThis, {
  window: globalThis,
  document: Object.assign(new Element("document"), {
    activeElement: null,
    body: new Element("body"),
    createElement: (tag) => new Element(tag),
    createElementNS: (_, tag) => new Element(tag),
  }),
  location: { search: "", pathname: "/timeline" },
  innerWidth: 1280,
  innerHeight: 900,
  scrollY: 0,
  devicePixelRatio: 1,
  OffscreenCanvas: PixelCanvas,
  ImageData: PixelImage,
  requestAnimationFrame: () => 1,
  cancelAnimationFrame: () => {},
});
runInThisContext(readFileSync(new URL("dashAgGridFunctions.js", ASSETS), "utf8"));
