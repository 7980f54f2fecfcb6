// Export of the timeline as a file: PNG, or SVG with every bar and text as drawn.
import * as Palette from "./palette.mjs";
import * as Picture from "./picture.mjs";
import { element } from "./elements.mjs";
import { shorten } from "./format.mjs";
import { GUTTER, STRIP_HEIGHT } from "./geometry.mjs";
import { makeScene } from "./layout.mjs";
import { Svg } from "./svg.mjs";

const LEGEND_LINE = 22, PNG_SCALE = 2; // pixels per legend line; PNG pixels per CSS pixel
const REVOKE_MS = 10_000; // time of the browser to save the file

// Return the position of each state in the legend, which wraps like text.
const layOutLegend = (c, data, width, theme) => {
  c.font = `11px ${theme.font}`;
  let x = GUTTER, line = 0;
  const hatched = data.colour === "waiting" ? [] : [{ name: "hatched: waiting" }];
  return [...data.states, ...hatched].map(({ name }) => {
    const text = shorten(name), entryWidth = c.measureText(text).width + 32;
    if (x + entryWidth > width && x > GUTTER) [x, line] = [GUTTER, line + 1];
    const entry = { text, x, y: line * LEGEND_LINE + LEGEND_LINE / 2 };
    x += entryWidth;
    return entry;
  });
};

const drawLegend = (c, data, theme, entries) => {
  const palette = Palette.makePalette(data.states, theme);
  c.textAlign = "left";
  c.textBaseline = "middle";
  c.font = `11px ${theme.font}`;
  entries.forEach(({ text, x, y }, i) => {
    if (i < palette.length) {
      c.fillStyle = palette[i].fill;
      c.fillRect(x, y - 5, 10, 10);
      c.fillStyle = Palette.waitFill(c, palette[i], 10);
      if (data.colour !== "waiting") c.fillRect(x + 5, y - 5, 5, 10);
    }
    c.fillStyle = theme.ink;
    c.fillText(text, x + 15, y);
  });
};

const drawAll = (c, t, scene, theme, entries, size) => {
  const drawBelow = (y, draw) => {
    c.save();
    c.translate(0, y);
    draw();
    c.restore();
  };
  c.fillStyle = theme.surface;
  c.fillRect(0, 0, ...size);
  Picture.drawStrip(c, t, scene, theme);
  drawBelow(STRIP_HEIGHT, () => Picture.drawRows(c, t, scene, theme));
  const legendTop = STRIP_HEIGHT + Picture.canvasHeight(scene.view);
  drawBelow(legendTop, () => drawLegend(c, scene.data, theme, entries));
};

const makeSvg = (size, draw) => {
  const svg = new Svg();
  draw(svg);
  return new Blob([svg.text(...size)], { type: "image/svg+xml" });
};

const makePng = ([width, height], draw) => {
  const canvas = element("canvas", { width: width * PNG_SCALE, height: height * PNG_SCALE });
  const c = canvas.getContext("2d");
  c.scale(PNG_SCALE, PNG_SCALE);
  draw(c);
  return new Promise((done) => { canvas.toBlob(done); });
};

// Save the visible picture under the name timeline.svg or timeline.png.
export const saveImage = async (t, kind) => {
  if (!t.data.overview || !t.data.window) return;
  const theme = Palette.readTheme(t.root), scene = makeScene(t), { width } = t.layout;
  const meter = document.createElement("canvas").getContext("2d");
  const entries = layOutLegend(meter, scene.data, width, theme);
  const legendHeight = entries.length ? entries.at(-1).y + LEGEND_LINE / 2 : 0;
  const height = STRIP_HEIGHT + Picture.canvasHeight(scene.view) + legendHeight + 4;
  const size = [width, Math.ceil(height)], draw = (c) => drawAll(c, t, scene, theme, entries, size);
  const blob = kind === "svg" ? makeSvg(size, draw) : await makePng(size, draw);
  const href = URL.createObjectURL(blob);
  element("a", { href, download: `timeline.${kind}` }).click();
  setTimeout(() => URL.revokeObjectURL(href), REVOKE_MS);
};
