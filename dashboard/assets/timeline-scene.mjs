// The current pictures of the timeline on any context: the page's canvases, PNG or SVG.
import * as Marks from "./timeline-marks.mjs";
import * as Messages from "./timeline-messages.mjs";
import * as Paint from "./timeline-paint.mjs";

export const STRIP_HEIGHT = 46; // height of the strip in pixels

export const canvasHeight = (t) => Paint.AXIS + t.view.rows * t.view.height + 4;

export const drawStrip = (c, t, theme) => {
  const { overview, view } = t, colours = Paint.makePalette(overview.states, theme);
  Paint.drawOverview(c, view.width, STRIP_HEIGHT, overview, colours, view, theme, t.hiddenStates);
  Marks.drawOnStrip(c, t, theme, STRIP_HEIGHT);
};

export const drawRows = (c, t, theme) => {
  const { overview, data, view } = t;
  Paint.drawAxis(c, view, theme);
  if (data) {
    const palette = Paint.makePalette(data.states, theme);
    c.save();
    c.beginPath(); c.rect(Paint.GUTTER, Paint.AXIS, view.width, view.rows * view.height); c.clip();
    if (data.kind === "cells") {
      const look = `${view.height} ${theme.card}`;
      if (!t.image || t.imageKey !== look) t.image = Paint.makeCellImage(data, palette, view.rows, view.height);
      t.imageKey = look;
      Paint.drawCells(c, view, data, t.image);
    } else {
      Paint.drawEvents(c, view, data, palette, theme, t.instance ? t.instance.number : -1, Boolean(t.searchTerm), t.hiddenStates);
    }
    if (t.instance) Paint.drawInstance(c, view, t.instance, t.rowOf, theme);
    c.restore();
    Paint.drawMessages(c, view, Messages.visibleMessages(t), t.rowOf, theme);
  }
  Marks.drawOnRows(c, t, theme);
  Paint.drawGutter(c, view, overview, theme, t.sort);
};
