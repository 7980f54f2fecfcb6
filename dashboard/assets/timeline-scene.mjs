// The current pictures of the timeline on any context: the page's canvases, PNG or SVG.
import * as Chain from "./timeline-chain.mjs";
import * as Marks from "./timeline-marks.mjs";
import * as Messages from "./timeline-messages.mjs";
import * as Paint from "./timeline-paint.mjs";
import { AXIS, GUTTER } from "./timeline-geometry.mjs";

export const STRIP_HEIGHT = 44; // height of the strip in pixels

export const canvasHeight = (t) => t.view.bottom + 4;

export const drawStrip = (c, t, theme) => {
  const { overview, view } = t, colours = Paint.makePalette(overview.states, theme);
  Paint.drawOverview(c, view.width, STRIP_HEIGHT, overview, colours, view, theme, t.hiddenStates);
  Marks.drawOnStrip(c, t, theme, STRIP_HEIGHT);
};

export const drawRows = (c, t, theme) => {
  const { overview, data, view } = t;
  Paint.drawRowGrounds(c, view, theme);
  Paint.drawAxis(c, view, theme);
  if (data) {
    const palette = Paint.makePalette(data.states, theme);
    c.save();
    c.beginPath(); c.rect(GUTTER, AXIS, view.width, view.bottom - AXIS); c.clip();
    if (data.kind === "cells") {
      const look = `${view.tops.join()} ${theme.surface}`;
      if (!t.image || t.imageKey !== look) t.image = Paint.makeCellImage(data, palette, view);
      t.imageKey = look;
      Paint.drawCells(c, view, data, t.image);
      Paint.drawLate(c, view, data, theme);
    } else {
      Paint.drawLate(c, view, data, theme);
      Paint.drawEvents(c, view, data, palette, theme, Boolean(t.searchTerm), t.hiddenStates);
    }
    Paint.drawHovered(c, view, data, t.hovered, theme, t.hiddenStates);
    c.restore();
    Chain.drawWaited(c, t, theme);
    Paint.drawMessages(c, view, Messages.visibleMessages(t), t.rowOf, theme);
    if (t.instance) Paint.drawInstance(c, view, t.instance, theme);
    Chain.drawChain(c, t, theme);
  }
  Marks.drawOnRows(c, t, theme);
  Paint.drawGutter(c, view, overview, theme, t.sort);
};
