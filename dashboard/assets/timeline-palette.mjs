// Colours of the timeline: the theme, and of each state its fill, its hatch and the text on it.

export const HATCH = { pitch: 5, line: 1.1, lineOpacity: 0.6, groundOpacity: 0.16, flatOpacity: 0.35, least: 3 }; // as in the design tokens
export const FADED = 0.22; // opacity of calls that a search does not find

export const rgb = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
const mixColours = (a, b, share) => a.map((value, i) => Math.round(value * share + b[i] * (1 - share)));
export const pack = ([r, g, b], alpha = 255) => (alpha << 24 | b << 16 | g << 8 | r) >>> 0; // a pixel of an ImageData
export const cssColour = ([r, g, b], alpha = 1) => `rgba(${r},${g},${b},${alpha})`;
const luminance = (colour) => colour.map((v) => ((v / 255 + 0.055) / 1.055) ** 2.4).reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);

let knownTheme = null;
// Return the theme's colours by their names in the design tokens, and the font. Reading them again for
// each frame would take as long as drawing.
export const readTheme = (root) => {
  const key = `${document.documentElement.dataset.theme} ${window.matchMedia("print").matches}`;
  if (knownTheme?.root === root && knownTheme.key === key) return knownTheme;
  const style = getComputedStyle(root), known = new Map();
  const colour = (name) => {
    if (!known.has(name)) known.set(name, style.getPropertyValue(`--${name}`).trim() || "#888888");
    return known.get(name);
  };
  const names = ["ink", "ink2", "ink3", "line", "line2", "surface", "raised", "sunken", "q1", "q2", "q3", "late", "late-text", "btn", "btn-ink"];
  knownTheme = { root, key, colour, font: style.fontFamily, ...Object.fromEntries(names.map((name) => [name.replace("-", "_"), colour(name)])) };
  return knownTheme;
};

// Return the colours of each state: full, its hatch for waiting, and the legible text colour on it.
// Colours and hatches are made once for each theme, not for each frame.
export const makePalette = (states, theme) => {
  if (!palettes.has(theme)) palettes.set(theme, new Map());
  const known = palettes.get(theme);
  return states.map(({ colour }) => {
    if (!known.has(colour)) known.set(colour, mixPalette(colour, theme));
    return known.get(colour);
  });
};

const palettes = new WeakMap();

const mixPalette = (colour, theme) => {
  const full = rgb(theme.colour(colour)), ground = rgb(theme.surface);
  const mix = (share) => mixColours(full, ground, share);
  const dark = rgb("#15181c"), on = luminance(full) > 0.18 ? dark : [255, 255, 255];
  return { full, flat: mix(HATCH.flatOpacity), ground: mix(HATCH.groundOpacity), line: mix(HATCH.lineOpacity), tint: mix(0.15), fill: cssColour(full), soft: cssColour(mix(HATCH.flatOpacity)), on: cssColour(on), hatches: new Map() };
};

// Return the fill of waiting in a state's colour: a hatch, flat in low rows.
export const waitFill = (c, colours, high) => {
  if (high < HATCH.least) return colours.soft;
  if (c.hatch) return c.hatch(cssColour(colours.ground), cssColour(colours.line), HATCH.pitch, HATCH.line);
  const scale = c.getTransform().a, hatch = makeHatch(colours, scale);
  hatch.pattern ??= c.createPattern(hatch.tile, "repeat");
  hatch.pattern.setTransform(new DOMMatrix([1 / scale, 0, 0, 1 / scale, 0, 0]));
  return hatch.pattern;
};

// Return the hatch of a state for `scale` device pixels per unit: a tile of whole device pixels, and these.
export const makeHatch = (colours, scale) => {
  if (colours.hatches.has(scale)) return colours.hatches.get(scale);
  const { pitch, line } = HATCH, size = Math.max(Math.round(pitch * scale), 1), tile = new OffscreenCanvas(size, size), p = tile.getContext("2d");
  p.scale(size / pitch, size / pitch);
  p.fillStyle = cssColour(colours.ground);
  p.fillRect(0, 0, pitch, pitch);
  p.strokeStyle = cssColour(colours.line);
  p.lineWidth = line;
  p.beginPath();
  for (const shift of [-1, 0, 1]) { p.moveTo(shift * pitch - 1, pitch + 1); p.lineTo(shift * pitch + pitch + 1, -1); }
  p.stroke();
  const pixels = new Uint32Array(p.getImageData(0, 0, size, size).data.buffer), hatch = { tile, size, pixels };
  colours.hatches.set(scale, hatch);
  return hatch;
};

// Return the colours of a call: of its wait and of the rest.
export const eventColours = (palette, event, waiting) => (waiting ? [palette[0], palette[1]] : Array(2).fill(palette[event.state] || palette[0]));
