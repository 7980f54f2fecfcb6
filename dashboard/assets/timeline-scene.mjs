// The current pictures of the timeline on any context: the page's canvases, PNG or SVG.
import * as Marks from "./timeline-marks.mjs";
import * as Models from "./timeline-models.mjs";
import * as Paint from "./timeline-paint.mjs";

export const OVERVIEW = 46; // height of the strip in pixels

export const height = (t) => Paint.AXIS + t.view.rows * t.view.height + 4;

export const strip = (c, t, theme) => {
  const { overview, view } = t, colours = Paint.palette(overview.states, theme);
  Paint.overview(c, view.width, OVERVIEW, overview, colours, view, theme, t.off);
  Marks.onStrip(c, t, theme, OVERVIEW);
};

export const rows = (c, t, theme) => {
  const { overview, data, view } = t;
  Paint.axis(c, view, theme);
  if (data) {
    const palette = Paint.palette(data.states, theme);
    c.save();
    c.beginPath(); c.rect(Paint.GUTTER, Paint.AXIS, view.width, view.rows * view.height); c.clip();
    if (data.kind === "cells") {
      const look = `${view.height} ${theme.card}`;
      if (!t.image || t.look !== look) t.image = Paint.cellImage(data, palette, view.rows, view.height);
      t.look = look;
      Paint.cells(c, view, data, t.image);
    } else {
      Paint.eventList(c, view, data, palette, theme, t.one ? t.one.number : -1, Boolean(t.find), t.off);
    }
    if (t.one) Paint.instance(c, view, t.one, t.rowOf, theme);
    c.restore();
    Paint.messages(c, view, Models.visibleModels(t), t.rowOf, theme);
  }
  Marks.onRows(c, t, theme);
  Paint.gutter(c, view, overview, theme, t.sort);
};
