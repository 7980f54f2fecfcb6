// The pointer on the picture: the hovered call, its outline, the tooltip, and what is being dragged.
import * as Format from "./format.mjs";
import * as Geometry from "./geometry.mjs";
import { element as E } from "./elements.mjs";
import { makeScene } from "./layout.mjs";
import { notify, stopTimer } from "./state.mjs";

const MARGIN = 4; // pixels between the tooltip and the edge of the browser's window

// hovered: { kind, item } under the pointer; draggedSpan: two times; draggedRuler: two points.
export const create = () => ({ hovered: null, draggedSpan: null, draggedRuler: null });

// Return { kind, item } at a point, or null.
export const findHit = (t, x, y) => {
  if (!t.data.window) return null;
  const scene = makeScene(t);
  return Geometry.findAt(scene.view, scene, x, y);
};

// Show the outline of the hovered call or mark: an element, so that no canvas is drawn again.
export const showOutline = (t) => {
  const { hovered } = t.pointer, { outline, canvas } = t.page;
  if (!hovered && outline.hidden) return;
  const scene = makeScene(t), { view } = scene;
  const box = hovered && scene.data ? Geometry.boxOf(view, scene, hovered.kind, hovered.item) : null;
  outline.hidden = !box;
  if (!box) return;
  const left = Math.max(box.x, Geometry.GUTTER), width = Math.min(box.x + box.w, view.right) - left;
  Object.assign(outline.style, {
    left: `${left}px`,
    top: `${canvas.offsetTop + box.y}px`,
    width: `${width}px`,
    height: `${box.h}px`,
  });
};

export const setHovered = (t, hit) => {
  if (hit?.item === t.pointer.hovered?.item) return;
  t.pointer.hovered = hit;
  showOutline(t);
};

export const hideTip = (t) => { t.page.tip.hidden = true; };

// End what follows the pointer, because it has left the picture or the picture moves.
export const leave = (t) => {
  stopTimer(t, "hover");
  hideTip(t);
  setHovered(t, null);
};

export const dragSpan = (t, times) => {
  t.pointer.draggedSpan = times.sort((a, b) => a - b);
  notify(t, "drag");
};

export const dragRuler = (t, points) => {
  t.pointer.draggedRuler = points;
  notify(t, "drag");
};

// End a drag; return what was dragged.
export const endDrag = (t) => {
  const { draggedSpan, draggedRuler } = t.pointer;
  Object.assign(t.pointer, { draggedSpan: null, draggedRuler: null });
  return { draggedSpan, draggedRuler };
};

// Show a tooltip at a point. lines: the rank, the duration, the awaited rank, the location; the last three
// may be null.
export const showTip = (t, x, y, [rank, duration, awaited, location]) => {
  const { tip, canvas } = t.page;
  const lines = [[duration, ""], [awaited, "whom"], [location, "where"]].filter(([text]) => text);
  tip.replaceChildren(
    E("b", {}, Format.shorten(rank)),
    ...lines.map(([text, className]) => E("p", { className }, text)),
  );
  tip.hidden = false;
  const box = canvas.getBoundingClientRect(), width = tip.offsetWidth, height = tip.offsetHeight;
  const left = box.left + x + 16, top = box.top + y + 14;
  const fittingLeft = left + width > window.innerWidth ? left - width - 28 : left;
  const fittingTop = top + height > window.innerHeight ? top - height - 22 : top;
  tip.style.left = `${Math.max(fittingLeft, MARGIN)}px`;
  tip.style.top = `${Math.max(fittingTop, MARGIN)}px`;
};
