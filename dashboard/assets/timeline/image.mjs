// Images of the timeline in pixels: its cells, and its calls.
import * as Geometry from "./geometry.mjs";
import { FADED, HATCH, eventColours, makeHatch, pack, rgb } from "./palette.mjs";

const OPACITY = 0xff000000, COLOUR = 0xffffff; // bits of a pixel
const OPEN_END = 3; // pixels; the end of a call that has not ended is drawn in ink
const SHORT_RUN = 16; // pixels; a loop fills up to this many in a third of the time of TypedArray.fill

// A canvas for one image at a time, and its pixels. It is used again: new memory for each frame would
// take longer than drawing.
export class Surface {
  constructor() {
    this.canvas = new OffscreenCanvas(1, 1);
    this.bytes = new Uint8ClampedArray(4);
  }

  // Begin an image of transparent pixels; return them.
  begin(width, height) {
    const { canvas } = this, size = 4 * width * height;
    if (this.bytes.length < size) this.bytes = new Uint8ClampedArray(size);
    else this.bytes.fill(0, 0, size);
    if (canvas.width < width || canvas.height < height) {
      [canvas.width, canvas.height] = [Math.max(width, canvas.width), Math.max(height, canvas.height)];
    }
    Object.assign(this, { width, height });
    return new Uint32Array(this.bytes.buffer, 0, width * height);
  }

  end() {
    const { width, height } = this;
    const image = new ImageData(this.bytes.subarray(0, 4 * width * height), width, height);
    this.canvas.getContext("2d").putImageData(image, 0, 0);
  }

  // Draw the image into a rectangle of a context, without smoothing.
  draw(c, x, y, w, h) {
    c.imageSmoothingEnabled = false;
    c.drawImage(this.canvas, 0, 0, this.width, this.height, x, y, w, h);
  }
}

// Draw the cells on a surface, one pixel wide per column. The hue is that of the longest state. The
// filled height is the share of time in collectives, with the waiting hatched and on top. The palest
// tint above it makes short states visible.
export const drawCells = (surface, data, palette, view) => {
  const { columns } = data, { state, share, wait } = data.arrays;
  const top = view.tops[0], width = Math.max(columns, 1);
  const pixels = surface.begin(width, Math.max(view.bottom - top, 1));
  const looks = palette.map((colours) => ({
    full: pack(colours.full),
    flat: pack(colours.flat),
    ground: pack(colours.ground),
    line: pack(colours.line),
    tint: pack(colours.tint),
  }));
  for (let row = 0; row < view.rows; row++) {
    const height = view.high(row), y = view.top(row) - top;
    for (let column = 0; column < columns; column++) {
      const at = row * columns + column;
      if (state[at] === Geometry.NO_STATE) continue;
      const isAllWaiting = data.colour === "waiting" && state[at] === 0;
      const filled = Math.max(1, Math.round(height * share[at] / 255));
      const waits = isAllWaiting ? filled : Math.round(filled * wait[at] / 255);
      fillCell(pixels, width, looks[state[at]] || looks[0], { column, y, height, filled, waits });
    }
  }
  surface.end();
};

const fillCell = (pixels, width, look, { column, y, height, filled, waits }) => {
  const isFlat = height < HATCH.minSize;
  for (let i = 0; i < height; i++) {
    const depth = i - (height - filled);
    const isLine = (column + y + i) % HATCH.pitch === 0;
    const hatch = isFlat ? look.flat : isLine ? look.line : look.ground;
    pixels[(y + i) * width + column] = depth < 0 ? look.tint : depth < waits ? hatch : look.full;
  }
};

const fill = (pixels, from, to, pixel) => {
  if (to - from > SHORT_RUN) pixels.fill(pixel, from, to);
  else for (let at = from; at < to; at++) pixels[at] = pixel;
};

const makeEventLook = (colours, scale) => ({
  full: pack(colours.full) & COLOUR,
  flat: pack(colours.flat) & COLOUR,
  hatch: makeHatch(colours, scale),
});

// Draw the calls on a surface of device pixels, without captions. A browser without a graphics processor
// needs several times as long to fill as many rectangles. A pixel shows the last call that contains its
// centre, as Geometry.findAt does.
export const drawEvents = (surface, scene, view, palette, theme, scale) => {
  const { data, searchTerm } = scene, top = view.tops[0], round = (x) => Math.ceil(x * scale - 0.5);
  const width = Math.max(round(view.width), 1);
  const pixels = surface.begin(width, Math.max(round(view.bottom - top), 1));
  const parts = Geometry.visibleParts(data, scene.hiddenStates), isWaiting = data.colour === "waiting";
  const looks = new Map(palette.map((colours) => [colours, makeEventLook(colours, scale)]));
  const ink = pack(rgb(theme.ink)) & COLOUR, faded = Math.round(FADED * 255) << 24;
  const hatchLeft = round(Geometry.GUTTER), hatchTop = round(top);
  const limit = (x) => Math.min(Math.max(round(x - Geometry.GUTTER), 0), width);
  for (const event of data.events) {
    const box = Geometry.eventBox(view, event, parts);
    if (!box) continue;
    const opacity = searchTerm && !(event.flags & 4) ? faded : OPACITY;
    const right = box.x + box.w, bottom = round(box.y + box.h - top);
    const begin = limit(box.x), until = limit(box.x + box.wait), end = limit(right);
    const tail = event.flags & 1 ? Math.max(limit(right - OPEN_END), begin) : end;
    const [waitColours, ownColours] = eventColours(palette, event, isWaiting);
    const { flat, hatch } = looks.get(waitColours), { full } = looks.get(ownColours);
    const isFlat = Math.min(box.h, (until - begin) / scale) < HATCH.minSize;
    for (let y = round(box.y - top), at = y * width; y < bottom; y++, at += width) {
      if (isFlat) fill(pixels, at + begin, at + until, flat | opacity);
      else {
        const row = (y + hatchTop) % hatch.size * hatch.size;
        for (let x = begin; x < until; x++) {
          const colour = hatch.pixels[row + (x + hatchLeft) % hatch.size] & COLOUR;
          pixels[at + x] = colour | opacity;
        }
      }
      fill(pixels, at + until, at + end, full | opacity);
      fill(pixels, at + tail, at + end, ink | opacity);
    }
  }
  surface.end();
};
