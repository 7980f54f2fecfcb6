// The current pictures of the timeline on any context: the page's canvases, PNG or SVG.
import * as Chain from "./timeline-chain.mjs";
import * as Image from "./timeline-image.mjs";
import * as Marks from "./timeline-marks.mjs";
import * as Messages from "./timeline-messages.mjs";
import * as Paint from "./timeline-paint.mjs";
import * as Palette from "./timeline-palette.mjs";
import * as Geometry from "./timeline-geometry.mjs";

const { AXIS, GUTTER } = Geometry;

export const STRIP_HEIGHT = 44; // height of the strip in pixels

export const canvasHeight = (t) => t.view.bottom + 4;

// Draw the shares of the whole run on the page; their image is drawn anew only if they have changed.
const drawKept = (c, t, theme, drawShares) => {
  const { width, height } = t.strip, key = [width, theme.key, ...t.hiddenStates].join();
  if (t.shares?.key !== key || t.shares.overview !== t.overview) {
    const canvas = new OffscreenCanvas(width, height), on = canvas.getContext("2d");
    on.setTransform(c.getTransform());
    drawShares(on);
    t.shares = { key, overview: t.overview, canvas };
  }
  c.drawImage(t.shares.canvas, 0, 0, t.width, STRIP_HEIGHT);
};

export const drawStrip = (c, t, theme) => {
  const { overview, view } = t;
  const drawShares = (on) => {
    const palette = Palette.makePalette(overview.states, theme), waiting = overview.colour === "waiting";
    const messages = Chain.messagePalettes(overview, theme);
    Paint.drawOverview(on, view.width, STRIP_HEIGHT, overview, palette, theme, t.hiddenStates, messages, waiting);
  };
  if (c.canvas === t.strip) drawKept(c, t, theme, drawShares);
  else drawShares(c);
  Paint.drawVisibleWindow(c, view.width, STRIP_HEIGHT, overview.length, view, theme);
  Marks.drawOnStrip(c, t, theme, STRIP_HEIGHT);
};

// Draw all cells or calls as an image, which is kept while the window and its look stay.
const drawImage = (c, t, theme, palette) => {
  const { data, view, surface } = t, scale = data.kind === "cells" ? 1 : c.getTransform().a;
  const window = data.kind === "cells" ? [] : [t.from, t.to, t.searchTerm, ...t.hiddenStates];
  const look = [scale, view.width, view.tops.join(), theme.key, ...window].join("|");
  if (t.image?.data !== data || t.image.look !== look) {
    if (data.kind === "cells") Image.drawCells(surface, data, palette, view);
    else Image.drawEvents(surface, t, view, palette, theme, scale);
    t.image = { data, look };
  }
  if (data.kind === "cells") Paint.drawCells(c, view, data, surface);
  else surface.draw(c, GUTTER, view.tops[0], surface.width / scale, surface.height / scale);
};

// Draw all calls: in SVG as rectangles.
const drawCalls = (c, t, theme, palette) => {
  if (c.hatch) Paint.drawEvents(c, t.view, t, palette, theme);
  else drawImage(c, t, theme, palette);
  Paint.drawCaptions(c, t.view, t, palette, theme);
};

// Draw some things of a layer of the window; see Geometry.LAYERS.
export const drawLayer = (c, view, scene, kind, items, theme, palette) => {
  if (kind === "event") {
    Paint.drawEvents(c, view, scene, palette, theme, items);
    Paint.drawCaptions(c, view, scene, palette, theme, items);
  } else if (kind === "late") Paint.drawLate(c, view, scene, theme, items);
  else if (kind === "cause") Paint.drawCauses(c, view, scene, theme, items);
  else if (kind === "call") Chain.drawCalls(c, view, scene, theme, items);
  else if (kind === "wait") Chain.drawWaits(c, view, scene, theme, items);
};

export const drawRows = (c, t, theme) => {
  const { data, view, overview } = t;
  Paint.drawRowGrounds(c, view, overview.lost, theme);
  Paint.drawAxis(c, view, theme);
  if (data) {
    const palette = Palette.makePalette(data.states, theme);
    c.save();
    c.beginPath(); c.rect(GUTTER, AXIS, view.width, view.bottom - AXIS); c.clip();
    for (const kind of Geometry.LAYERS[data.kind]) {
      if (kind === "cells") drawImage(c, t, theme, palette);
      else if (kind === "event") drawCalls(c, t, theme, palette);
      else drawLayer(c, view, t, kind, Geometry.itemsOf(t, kind), theme, palette);
    }
    Chain.drawMessageLines(c, view, t, theme);
    c.restore();
    Paint.drawMessages(c, view, Messages.visibleMessages(t), t.rowOf, theme);
    if (t.instance) Paint.drawInstance(c, view, t, theme);
    Chain.drawChain(c, t, theme);
  }
  Paint.drawLostRows(c, view, overview.lost, theme);
  Marks.drawOnRows(c, t, theme);
  Paint.drawGutter(c, view, t, theme);
};
