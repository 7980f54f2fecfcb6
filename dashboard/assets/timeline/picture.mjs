// The pictures of the timeline on any context: the page's canvases, PNG or SVG.
import * as Geometry from "./geometry.mjs";
import * as Image from "./image.mjs";
import * as Layers from "./layers.mjs";
import * as Marks from "./marks.mjs";
import * as Messages from "./messages.mjs";
import * as Paint from "./paint.mjs";
import * as Palette from "./palette.mjs";
import * as Pointer from "./pointer.mjs";
import * as Strip from "./strip.mjs";
import { makeScene } from "./layout.mjs";
import { isTimerPending, startTimer, stopTimer } from "./state.mjs";

const { GUTTER, STRIP_HEIGHT } = Geometry;
const PREVIEW_MS = 40; // an answer within this time is drawn without a preview, which would delay it

// surface: pixels of the cells or calls; image: the data and the look of this surface; shares: the image of
// the shares on the strip; frame: number of the requested animation frame.
export const create = () => ({ surface: new Image.Surface(), image: null, shares: null, frame: 0 });

export const canvasHeight = (view) => view.bottom + 4;

// Draw the shares of the whole run on the page; their image is drawn anew only if they have changed.
const drawStoredShares = (c, t, scene, theme, drawShares) => {
  const { strip } = t.page, { overview } = scene, values = Layers.messageShares(t);
  const key = [strip.width, theme.key, ...scene.hiddenStates].join();
  const stored = t.picture.shares, isSame = stored?.overview === overview && stored.values === values;
  if (!isSame || stored.key !== key) {
    const canvas = new OffscreenCanvas(strip.width, strip.height), context = canvas.getContext("2d");
    context.setTransform(c.getTransform());
    drawShares(context);
    t.picture.shares = { key, overview, values, canvas };
  }
  c.drawImage(t.picture.shares.canvas, 0, 0, t.layout.width, STRIP_HEIGHT);
};

export const drawStrip = (c, t, scene, theme) => {
  const { overview, view } = scene;
  const drawShares = (context) => {
    const palette = Palette.makePalette(overview.states, theme);
    const messagePalettes = Messages.messagePalettes(overview, theme);
    const messageShares = Layers.messageShares(t);
    Strip.drawShares(context, { ...scene, messageShares }, theme, palette, messagePalettes);
  };
  if (c.canvas === t.page.strip) drawStoredShares(c, t, scene, theme, drawShares);
  else drawShares(c);
  Strip.drawVisibleWindow(c, view, overview.length, theme);
  Strip.drawMarks(c, scene, theme);
};

// Draw all cells or calls as an image, which is kept while the window and its look stay.
const drawImage = (c, t, scene, theme, palette) => {
  const { data, view } = scene, { surface } = t.picture, isCells = data.kind === "cells";
  const scale = isCells ? 1 : c.getTransform().a;
  const content = isCells ? [] : [view.from, view.to, scene.searchTerm, ...scene.hiddenStates];
  const look = [scale, view.width, view.tops.join(), theme.key, ...content].join("|");
  if (t.picture.image?.data !== data || t.picture.image.look !== look) {
    if (isCells) Image.drawCells(surface, data, palette, view);
    else Image.drawEvents(surface, scene, view, palette, theme, scale);
    t.picture.image = { data, look };
  }
  if (isCells) Paint.drawCells(c, view, data, surface);
  else surface.draw(c, GUTTER, view.tops[0], surface.width / scale, surface.height / scale);
};

// Draw all calls: in SVG as rectangles.
const drawCalls = (c, t, scene, theme, palette) => {
  if (c.hatch) Paint.drawEvents(c, scene.view, scene, palette, theme);
  else drawImage(c, t, scene, theme, palette);
  Paint.drawCaptions(c, scene.view, scene, palette, theme);
};

// Draw items of a layer of the window; see Geometry.LAYERS.
export const drawLayer = (c, view, scene, kind, items, theme, palette) => {
  if (kind === "event") {
    Paint.drawEvents(c, view, scene, palette, theme, items);
    Paint.drawCaptions(c, view, scene, palette, theme, items);
  } else if (kind === "late") Paint.drawLate(c, view, scene, theme, items);
  else if (kind === "cause") Paint.drawCauses(c, view, scene, theme, items);
  else if (kind === "call") Messages.drawCalls(c, view, scene, theme, items);
  else if (kind === "wait") Messages.drawWaits(c, view, scene, theme, items);
};

const drawWindow = (c, t, scene, theme) => {
  const { data, view, rowOf } = scene, palette = Palette.makePalette(data.states, theme);
  Paint.clipToRows(c, view);
  for (const kind of Geometry.LAYERS[data.kind]) {
    if (kind === "cells") drawImage(c, t, scene, theme, palette);
    else if (kind === "event") drawCalls(c, t, scene, theme, palette);
    else drawLayer(c, view, scene, kind, Geometry.itemsOf(scene, kind), theme, palette);
  }
  Messages.drawMessageLines(c, view, scene, theme);
  c.restore();
  Messages.drawModels(c, view, Layers.visibleModels(t), rowOf, theme);
  if (scene.instance) Paint.drawInstance(c, view, scene, theme);
  Messages.drawChain(c, view, scene, theme);
};

export const drawRows = (c, t, scene, theme) => {
  const { view, overview } = scene;
  Paint.drawRowGrounds(c, view, overview.lost, theme);
  Paint.drawAxis(c, view, theme);
  if (scene.data) drawWindow(c, t, scene, theme);
  Paint.drawLostRows(c, view, overview.lost, theme);
  Marks.drawOnRows(c, view, scene, theme);
  Paint.drawGutter(c, view, scene, theme);
};

// Draw at the next frame.
export const draw = (t) => {
  cancelAnimationFrame(t.picture.frame);
  t.picture.frame = requestAnimationFrame(() => paint(t));
};

// Draw a new window with the data of the last one, unless its own data arrive first.
export const drawPreview = (t) => {
  if (!isTimerPending(t, "preview")) startTimer(t, "preview", PREVIEW_MS, () => draw(t));
};

// Draw at once, instead of a pending drawing.
export const paint = (t) => {
  cancelAnimationFrame(t.picture.frame);
  stopTimer(t, "preview");
  const { width } = t.layout, { strip, canvas } = t.page;
  if (!t.data.overview || !width) return;
  const theme = Palette.readTheme(t.root), scene = makeScene(t);
  drawStrip(Paint.fitCanvas(strip, width, STRIP_HEIGHT, theme), t, scene, theme);
  drawRows(Paint.fitCanvas(canvas, width, canvasHeight(scene.view), theme), t, scene, theme);
  Pointer.showOutline(t);
};
