// Images of the timeline in pixels: its cells, and its calls.
import * as Geometry from "./timeline-geometry.mjs";
import { FADED, HATCH, eventColours, makeHatch, pack, rgb } from "./timeline-palette.mjs";

const OPACITY = 0xff000000, COLOUR = 0xffffff; // bits of a pixel

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
    if (canvas.width < width || canvas.height < height) [canvas.width, canvas.height] = [Math.max(width, canvas.width), Math.max(height, canvas.height)];
    Object.assign(this, { width, height });
    return new Uint32Array(this.bytes.buffer, 0, width * height);
  }

  end() {
    const { width, height } = this, image = new ImageData(this.bytes.subarray(0, 4 * width * height), width, height);
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
  const { columns } = data, { state, share, wait } = data.arrays, first = view.tops[0], width = Math.max(columns, 1);
  const pixels = surface.begin(width, Math.max(view.bottom - first, 1));
  const packed = palette.map(({ full, flat, ground, line, tint }) => [full, flat, ground, line, tint].map((colour) => pack(colour)));
  for (let row = 0; row < view.rows; row++) {
    const high = view.high(row), top = view.top(row) - first;
    for (let column = 0; column < columns; column++) {
      const at = row * columns + column;
      if (state[at] === Geometry.NO_STATE) continue;
      const [full, flat, ground, line, tint] = packed[state[at]] || packed[0];
      const only = data.colour === "waiting" && state[at] === 0; // the whole cell is waiting
      const filled = Math.max(1, Math.round(high * share[at] / 255));
      const waits = only ? filled : Math.round(filled * wait[at] / 255);
      for (let y = 0; y < high; y++) {
        const above = y - (high - filled);
        const hatch = high < HATCH.least ? flat : (column + top + y) % HATCH.pitch === 0 ? line : ground;
        pixels[(top + y) * width + column] = above < 0 ? tint : above < waits ? hatch : full;
      }
    }
  }
  surface.end();
};

const fill = (pixels, from, to, pixel) => {
  if (to - from > 16) pixels.fill(pixel, from, to);
  else for (let at = from; at < to; at++) pixels[at] = pixel; // a third of the time of `fill`
};

// Draw the calls on a surface of device pixels, without captions. A browser without a graphics processor
// needs several times as long to fill as many rectangles. A pixel shows the last call that contains its
// centre, as Geometry.findAt does.
export const drawEvents = (surface, scene, view, palette, theme, scale) => {
  const { events } = scene.data, top = view.tops[0], round = (x) => Math.ceil(x * scale - 0.5);
  const width = Math.max(round(view.width), 1), pixels = surface.begin(width, Math.max(round(view.bottom - top), 1));
  const parts = Geometry.visibleParts(scene.data, scene.hiddenStates), isWaiting = scene.data.colour === "waiting";
  const right = round(Geometry.GUTTER), below = round(top), ink = pack(rgb(theme.ink)) & COLOUR, faded = Math.round(FADED * 255) << 24;
  const looks = new Map(palette.map((colours) => [colours, { own: pack(colours.full) & COLOUR, flat: pack(colours.flat) & COLOUR, hatch: makeHatch(colours, scale) }]));
  const limit = (x) => Math.min(Math.max(round(x - Geometry.GUTTER), 0), width);
  for (const event of events) {
    const box = Geometry.eventBox(view, event, parts);
    if (!box) continue;
    const opacity = scene.searchTerm && !(event.flags & 4) ? faded : OPACITY;
    const begin = limit(box.x), until = limit(box.x + box.wait), end = limit(box.x + box.w), low = round(box.y + box.h - top);
    const tail = event.flags & 1 ? Math.max(limit(box.x + box.w - 3), begin) : end; // the call has not ended
    const [waits, rest] = eventColours(palette, event, isWaiting), { flat, hatch } = looks.get(waits), { own } = looks.get(rest);
    for (let y = round(box.y - top), at = y * width; y < low; y++, at += width) {
      if (Math.min(box.h, (until - begin) / scale) < HATCH.least) fill(pixels, at + begin, at + until, flat | opacity);
      else {
        const row = (y + below) % hatch.size * hatch.size;
        for (let x = begin; x < until; x++) pixels[at + x] = (hatch.pixels[row + (x + right) % hatch.size] & COLOUR) | opacity;
      }
      fill(pixels, at + until, at + end, own | opacity);
      fill(pixels, at + tail, at + end, ink | opacity);
    }
  }
  surface.end();
};
