// Positions of rows, calls, cells and marks on the canvas. Painting and pointing both use these
// functions and their order, so that a click selects what is drawn under the pointer.
export const AXIS = 28, GUTTER = 96; // height of the time axis, width of the row labels
export const STRIP_HEIGHT = 44; // height of the strip, which shows the whole run
export const NO_STATE = 255;
const LENS = 18; // minimum height of the row of the latest rank
const MAX_PITCH = 170, MIN_PITCH = 3; // pixels from row to row
const REACH = 4; // pixels; a click beside a call selects the nearest call up to this far away

const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

// Return the top of each row, and below the last one the bottom. Rows fill the height; the row of
// the latest rank stays legible among many rows.
export const layOutRows = (count, height, lens) => {
  const even = clamp(height / Math.max(count, 1), MIN_PITCH, MAX_PITCH);
  const large = lens >= 0 && even < LENS ? LENS : even;
  const pitch = large > even && count > 1 ? Math.max((height - large) / (count - 1), MIN_PITCH) : even;
  const tops = [AXIS];
  let y = AXIS;
  for (let row = 0; row < count; row++) {
    y += row === lens ? large : pitch;
    tops.push(Math.round(y));
  }
  return { tops, gap: pitch > 60 ? Math.round(pitch * 0.3) : pitch >= 6 ? 1 : 0 };
};

// Return the geometry of a window: `tops` and `gap` from layOutRows, `width` without the labels.
export const makeView = ({ from, to, width, tops, gap }) => {
  const span = Math.max(to - from, 1), rows = tops.length - 1;
  return {
    from, to, width, rows, tops, gap, bottom: tops[rows], right: GUTTER + width,
    x: (time) => GUTTER + (time - from) / span * width,
    timeAt: (x) => from + (x - GUTTER) / width * span,
    top: (row) => tops[row],
    high: (row) => Math.max(tops[row + 1] - tops[row] - gap, 1),
    centre: (row) => (tops[row] + Math.max(tops[row + 1] - gap, tops[row] + 1)) / 2,
  };
};

// Return the row at a height, or -1.
export const rowAt = (view, y) => {
  if (!view.rows || y < view.tops[0] || y >= view.bottom) return -1;
  let low = 0, high = view.rows;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (view.tops[middle] <= y) low = middle;
    else high = middle;
  }
  return low;
};

// Return which parts of calls are drawn: hidden states hide parts only if waiting is the colour.
export const visibleParts = (data, hiddenStates) => {
  const isWaiting = data.colour === "waiting";
  return {
    wait: !(isWaiting && hiddenStates.has("waiting")),
    own: !(isWaiting && hiddenStates.has("not waiting")),
  };
};

// Return the rectangle of a call, `wait` pixels of it waiting, or null if it is not drawn.
export const eventBox = (view, event, parts) => {
  if (event.exit < view.from || event.enter > view.to) return null;
  const begin = Math.max(view.x(event.enter), GUTTER - 2);
  const end = Math.max(Math.min(view.x(event.exit), view.right + 2), begin + 1);
  const until = clamp(view.x(event.enter + event.wait), begin, end);
  const x = parts.wait ? begin : until, stop = parts.own ? end : until;
  if (stop <= x) return null;
  const wait = parts.wait ? until - x : 0;
  return { x, y: view.top(event.row), w: stop - x, h: view.high(event.row), wait };
};

// Return the rectangle of a span of time in a row, or null.
const spanBox = (view, row, begin, end) => {
  if (row < 0 || row >= view.rows || end < view.from || begin > view.to) return null;
  const x = Math.max(view.x(begin), GUTTER - 2), right = Math.min(view.x(end), view.right + 2);
  return { x, y: view.top(row), w: Math.max(right - x, 1), h: view.high(row) };
};

// Return the rectangle of a call without a wait in it: thin, in the middle of its row.
const thinBox = (box) => {
  if (box === null || box.h < 6) return box;
  const h = Math.max(Math.round(box.h / 3), 3);
  return { ...box, y: box.y + Math.floor((box.h - h) / 2), h };
};

// Layers from the bottom to the top. Painters and pointers follow this order.
export const LAYERS = {
  cells: ["cells", "late", "cause", "call", "wait"],
  events: ["late", "event", "cause", "call", "wait"],
};

// Return the items of a layer. scene: see scene.mjs. The work of a blamed rank replaces the mark of its
// late arrival.
export const itemsOf = (scene, kind) => {
  if (kind === "event") return scene.data.events;
  if (kind === "late") {
    const marks = scene.data.late || [];
    return marks.filter(([, row]) => !scene.blamed.has(scene.overview.drawn[row]));
  }
  return { cause: scene.causes, call: scene.calls, wait: scene.waited }[kind] || [];
};

// Return the rectangle of a wait for a message, or null if it is not drawn.
const waitBox = (view, scene, wait, parts) => {
  const begin = parts.wait ? wait.begin : wait.until, end = parts.own ? wait.end : wait.until;
  if (!scene.isDrawn(wait.rank) || begin >= end) return null;
  return spanBox(view, scene.rowOf.get(wait.rank) ?? -1, begin, end);
};

// Return the rectangle of an item of a layer, or null if it is not drawn.
export const boxOf = (view, scene, kind, item) => {
  const parts = visibleParts(scene.data, scene.hiddenStates);
  if (kind === "event") return eventBox(view, item, parts);
  if (kind === "wait") return waitBox(view, scene, item, parts);
  if (kind === "late") {
    const [, row, median, arrival] = item;
    return spanBox(view, row, median, arrival);
  }
  const [rank, begin, end] = item;
  const box = spanBox(view, scene.rowOf.get(rank) ?? -1, begin, end);
  if (kind === "call") return scene.isDrawn(rank) && parts.own ? thinBox(box) : null;
  return box;
};

const contains = (box, x, y) =>
  box !== null && x >= box.x && x < box.x + box.w && y >= box.y && y < box.y + box.h;

const distance = (box, x, y) => {
  if (box === null) return Infinity;
  const across = Math.max(box.x - x, x - box.x - box.w, 0);
  const down = Math.max(box.y - y, y - box.y - box.h, 0);
  return Math.hypot(across, down);
};

const pixelCentre = (value) => Math.floor(value) + 0.5;

// Return { kind, item } drawn at a point: what was painted last there, or else the nearest call or mark
// within reach; null on the ground and on cells.
export const findAt = (view, scene, x, y) => {
  const px = pixelCentre(x), py = pixelCentre(y);
  if (px < GUTTER || px >= view.right) return null;
  const kinds = LAYERS[scene.data.kind].filter((kind) => kind !== "cells").reverse();
  let nearest = null, reach = scene.data.kind === "cells" ? 0 : REACH;
  for (const kind of kinds) {
    const items = itemsOf(scene, kind);
    for (let i = items.length - 1; i >= 0; i--) {
      const box = boxOf(view, scene, kind, items[i]);
      if (contains(box, px, py)) return { kind, item: items[i] };
      const pixels = distance(box, px, py);
      if (pixels < reach) [nearest, reach] = [{ kind, item: items[i] }, pixels];
    }
  }
  return nearest;
};

// Return the rectangle that the image of all cells fills.
export const imageBox = (view, data) => {
  const width = 2 ** data.level, x = view.x(data.first * width);
  const right = view.x((data.first + data.columns) * width);
  return { x, y: view.tops[0], w: right - x, h: view.bottom - view.tops[0] };
};

// Return the cell drawn at a point: row, column of the image, and its span of time; or null.
export const findCell = (view, data, x, y) => {
  const row = rowAt(view, y), box = imageBox(view, data), px = pixelCentre(x);
  const column = Math.floor((px - box.x) / box.w * data.columns);
  if (row < 0 || px < GUTTER || column < 0 || column >= data.columns) return null;
  const width = 2 ** data.level, from = (data.first + column) * width;
  return { row, column, from, to: from + width, at: row * data.columns + column };
};
