// Outline of the call or mark under the pointer: an element, so that the canvases are not drawn again.
import { element as E } from "./timeline-format.mjs";
import * as Geometry from "./timeline-geometry.mjs";

export const makeOutline = (t) => (t.outline = E("div", { className: "tl-outline", hidden: true }));

export const showOutline = (t) => {
  const { view, hovered, outline } = t;
  if (!hovered && outline.hidden) return;
  const box = hovered && t.data ? Geometry.boxOf(view, t, hovered.kind, hovered.one) : null;
  outline.hidden = !box;
  if (!box) return;
  const left = Math.max(box.x, Geometry.GUTTER), width = Math.min(box.x + box.w, view.right) - left;
  Object.assign(outline.style, { left: `${left}px`, top: `${t.canvas.offsetTop + box.y}px`, width: `${width}px`, height: `${box.h}px` });
};

export const setHovered = (t, hit) => {
  if (hit?.one === t.hovered?.one) return;
  t.hovered = hit;
  showOutline(t);
};
