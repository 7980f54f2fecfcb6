// Wheel and drag on the picture and on the strip.
import * as Geometry from "./geometry.mjs";
import * as Picture from "./picture.mjs";
import * as Pointer from "./pointer.mjs";
import * as Range from "./range.mjs";
import * as Selection from "./selection.mjs";
import { DRAG_THRESHOLD, handleClick, zoomToTarget } from "./click.mjs";
import { makeView } from "./layout.mjs";
import { announce } from "./status.mjs";
import { hoverSoon } from "./tooltip.mjs";

const PINCH_LIMIT = 40; // pixels; a smaller step of a wheel with Ctrl is from a touchpad
const MAX_WHEEL = 400; // pixels of one event
const LINE = 16; // pixels of a line, the unit of some wheels
const SNAP_DISTANCE = 7; // pixels; a nearer ruler end snaps to the begin or end of a call
const EDGE_REACH = 5, MIN_EDGES = 14; // pixels from an edge of the strip's window; between its edges
const WHEEL_HINT = "The whole run is visible. Ctrl + wheel or W zooms at the pointer, then the wheel moves.";

const ascending = (times) => times.sort((a, b) => a - b);

const listen = (t, element, name, handle, options = {}) =>
  element.addEventListener(name, handle, { signal: t.server.abort.signal, ...options });

// Return the position of an event in an element.
const positionIn = (element, event) => {
  const box = element.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
};

// A wheel moves the window; with Ctrl, as a pinch on a touchpad sends it, it zooms at a time.
const handleWheel = (t, event, time) => {
  if (!t.data.overview) return;
  const { from, to, length } = t.range, unit = event.deltaMode === 1 ? LINE : 1;
  if (event.ctrlKey || event.metaKey) {
    event.preventDefault();
    const pixels = Math.max(Math.min(event.deltaY * unit, MAX_WHEEL), -MAX_WHEEL);
    Range.zoom(t, 2 ** (pixels / (Math.abs(pixels) < PINCH_LIMIT ? 70 : 250)), time);
  } else if (to - from < length) {
    event.preventDefault();
    Range.pan(t, (event.deltaX || event.deltaY) * unit / makeView(t).width);
  } else announce(t, WHEEL_HINT); // and the page scrolls
};

// Return what a drag does: select a span, or with a key move the window, zoom or measure. A finger moves.
const dragTool = (event) => {
  if (event.shiftKey || event.pointerType === "touch") return "move";
  if (event.altKey) return "measure";
  return event.ctrlKey || event.metaKey ? "zoom" : "select";
};

// Return the ruler's point on a rank, snapped to the begin or end of a nearby call.
const rulerPoint = (t, x, y) => {
  const view = makeView(t), { window: data, overview } = t.data;
  const row = Math.max(Geometry.rowAt(view, Math.min(Math.max(y, Geometry.AXIS), view.bottom - 1)), 0);
  let time = view.timeAt(Math.min(Math.max(x, Geometry.GUTTER), t.layout.width)), reach = SNAP_DISTANCE;
  for (const event of data && data.kind === "events" ? data.events : []) {
    if (event.row !== row) continue;
    for (const edge of [event.enter, event.exit]) {
      const distance = Math.abs(view.x(edge) - x);
      if (distance < reach) [time, reach] = [edge, distance];
    }
  }
  return { time: Math.round(time), rank: overview.drawn[row] };
};

const bindCanvas = (t) => {
  const { canvas, stage } = t.page, on = (...listener) => listen(t, canvas, ...listener);
  const position = (event) => positionIn(canvas, event);
  let drag = null;

  const moveDrag = (x, y) => {
    const { tool, from, to } = drag, view = makeView(t);
    if (tool === "measure") Pointer.dragRuler(t, [rulerPoint(t, drag.x, drag.y), rulerPoint(t, x, y)]);
    else if (tool !== "move") Pointer.dragSpan(t, [view.timeAt(drag.x), view.timeAt(x)]);
    else {
      const shift = (drag.x - x) / view.width * (to - from);
      Range.show(t, from + shift, to + shift, false);
    }
  };

  on("wheel", (event) => handleWheel(t, event, makeView(t).timeAt(position(event)[0])), { passive: false });
  on("pointerdown", (event) => {
    if (event.button !== 0 || !t.data.overview) return;
    const [x, y] = position(event), { from, to } = t.range;
    drag = { x, y, from, to, tool: dragTool(event), isMoved: false };
    canvas.setPointerCapture(event.pointerId);
    stage.focus({ preventScroll: true });
  });
  on("pointermove", (event) => {
    const [x, y] = position(event);
    if (!drag) return hoverSoon(t, x, y);
    if (!drag.isMoved && Math.abs(x - drag.x) < DRAG_THRESHOLD) return;
    drag.isMoved = true;
    Pointer.leave(t);
    moveDrag(x, y);
  });
  on("pointerup", (event) => {
    if (!drag) return;
    const [x, y] = position(event), { tool, isMoved } = drag;
    const { draggedSpan, draggedRuler } = Pointer.endDrag(t);
    drag = null;
    if (!isMoved) handleClick(t, x, y);
    else if (draggedRuler) Selection.setRuler(t, draggedRuler);
    else if (tool === "zoom") Range.show(t, ...draggedSpan);
    else if (tool === "select") Selection.selectSpan(t, draggedSpan);
  });
  on("pointercancel", () => {
    drag = null;
    Pointer.endDrag(t);
    Picture.draw(t);
  });
  on("pointerleave", () => Pointer.leave(t));
  on("dblclick", (event) => zoomToTarget(t, ...position(event)));
};

// The strip: dragging its window or an edge moves the view; pressing elsewhere centres the view there.
const bindStrip = (t) => {
  const { strip } = t.page, on = (...listener) => listen(t, strip, ...listener);
  const position = (event) => positionIn(strip, event)[0];
  const width = () => t.layout.width - Geometry.GUTTER;
  const timeAt = (x) => (x - Geometry.GUTTER) / Math.max(width(), 1) * t.range.length;
  const xAt = (time) => Geometry.GUTTER + time / t.range.length * width();
  let drag = null;

  // Return the edge of the window at a position; a whole run has no edges.
  const findEdge = (x) => {
    const { from, to, length } = t.range;
    if (to - from >= length || xAt(to) - xAt(from) <= MIN_EDGES) return null;
    return ["from", "to"].find((name) => Math.abs(xAt(t.range[name]) - x) <= EDGE_REACH) || null;
  };

  const moveDrag = (x) => {
    const time = timeAt(x), { from, to } = drag;
    if (drag.edge === "from") Range.show(t, ...ascending([time, to]));
    else if (drag.edge === "to") Range.show(t, ...ascending([from, time]));
    else if (drag.isChoosing) Range.show(t, ...ascending([timeAt(drag.x), time]));
    else {
      const shift = time - timeAt(drag.x);
      Range.show(t, from + shift, to + shift, false);
    }
  };

  on("wheel", (event) => handleWheel(t, event, null), { passive: false });
  on("pointerdown", (event) => {
    if (!t.data.overview) return;
    const x = position(event), time = timeAt(x), edge = findEdge(x), span = t.range.to - t.range.from;
    const isOutside = time < t.range.from || time > t.range.to;
    if (!edge && isOutside) Range.show(t, time - span / 2, time + span / 2);
    drag = { x, from: t.range.from, to: t.range.to, isChoosing: event.shiftKey, edge };
    strip.setPointerCapture(event.pointerId);
  });
  on("pointermove", (event) => {
    const x = position(event);
    if (drag) moveDrag(x);
    else strip.style.cursor = t.data.overview && findEdge(x) ? "ew-resize" : "";
  });
  on("pointerup", () => { drag = null; });
  on("pointercancel", () => { drag = null; });
};

export const bindGestures = (t) => {
  bindCanvas(t);
  bindStrip(t);
};
