// The visible range of time.
import { notify } from "./state.mjs";

const MIN_SPAN_NS = 20;
const MAX_ZOOM_OUT = 400; // a shown instance is at least this part of the range

// Times in ns; from and to are null until a range is known. length: of the run.
export const create = () => ({ from: null, to: null, length: 0 });

// Take the range of an address, or null.
export const restore = (t, from, to) => Object.assign(t.range, { from, to });

// Take the length of the loaded run. A range that ends with a growing run follows it.
export const setLength = (t, length) => {
  const { range } = t, isFollowed = range.length && length > range.length && range.to >= range.length;
  range.length = length;
  if (range.from === null || range.to === null || range.to <= range.from) {
    range.from ??= 0;
    range.to = length;
  }
  if (isFollowed) range.to = length;
  clampRange(range);
};

const clampRange = (range) => {
  const minSpan = Math.min(MIN_SPAN_NS, range.length);
  const span = Math.min(Math.max(range.to - range.from, minSpan), range.length);
  range.from = Math.round(Math.min(Math.max(range.from, 0), range.length - span));
  range.to = range.from + Math.round(span);
};

// Show a range. It becomes a step of the browser's history, unless it is only moved.
export const show = (t, from, to, isStep = true) => {
  if (!t.data.overview) return;
  Object.assign(t.range, { from, to });
  clampRange(t.range);
  notify(t, "range", { isStep });
};

// Zoom at a time; without a time, at the selected instance if it is visible, or else at the centre.
export const zoom = (t, factor, time = null) => {
  const { from, to } = t.range, { instance } = t.selection;
  const arrival = instance ? instance.last ?? instance.first : -1;
  const centre = time ?? (arrival > from && arrival < to ? arrival : (from + to) / 2);
  show(t, centre - (centre - from) * factor, centre + (to - centre) * factor);
};

// Move the range by a share of its span.
export const pan = (t, share) => {
  const { from, to } = t.range, shift = share * (to - from);
  show(t, from + shift, to + shift, false);
};

export const fit = (t) => show(t, 0, t.range.length);

// Show the range around an instance, unless it is visible and large enough.
export const showInstance = (t, { first, members }) => {
  const { from, to } = t.range, span = to - from;
  const end = Math.max(...members.map((member) => member.exit), first + 1), length = end - first;
  if (first >= from && end <= to && length > span / MAX_ZOOM_OUT) return;
  const isNear = span < length * MAX_ZOOM_OUT, wish = Math.max(isNear ? span : 0, length * 1.5);
  const limited = Math.min(wish, Math.max(length * 20, MIN_SPAN_NS));
  const half = Math.max(limited, length * 1.5) / 2, centre = (first + end) / 2;
  show(t, centre - half, centre + half);
};
