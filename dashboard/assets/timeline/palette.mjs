// Colours of the timeline: the theme, and of each state its fill, its hatch and the text on it.

// The hatch of the design tokens.
export const HATCH = {
  pitch: 5,
  line: 1.1,
  lineOpacity: 0.6,
  groundOpacity: 0.16,
  flatOpacity: 0.35,
  minSize: 3, // pixels; smaller waits are flat
};
export const FADED = 0.22; // opacity of calls that do not match the search

const TINT_OPACITY = 0.15;
const LIGHT_LUMINANCE = 0.18; // from here on, dark text is more legible than white text
const THEME_COLOURS = [
  "ink", "ink2", "ink3", "line", "line2", "surface", "raised", "sunken", "q1", "q2", "q3",
  "late", "late-text", "btn", "btn-ink",
];

export const rgb = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));

// Return a pixel of an ImageData.
export const pack = ([r, g, b], alpha = 255) => (alpha << 24 | b << 16 | g << 8 | r) >>> 0;

export const cssColour = ([r, g, b], alpha = 1) => `rgba(${r},${g},${b},${alpha})`;

const mixColours = (a, b, share) => a.map((value, i) => Math.round(value * share + b[i] * (1 - share)));

const luminance = (colour) => {
  const [r, g, b] = colour.map((value) => ((value / 255 + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};

let cachedTheme = null;
// Return the theme's colours by their names in the design tokens, and the font. Reading them again for
// each frame would take as long as drawing.
export const readTheme = (root) => {
  const key = `${document.documentElement.dataset.theme} ${window.matchMedia("print").matches}`;
  if (cachedTheme?.root === root && cachedTheme.key === key) return cachedTheme;
  const style = getComputedStyle(root), colours = new Map();
  const colour = (name) => {
    if (!colours.has(name)) colours.set(name, style.getPropertyValue(`--${name}`).trim() || "#888888");
    return colours.get(name);
  };
  const fields = Object.fromEntries(THEME_COLOURS.map((name) => [name.replace("-", "_"), colour(name)]));
  cachedTheme = { root, key, colour, font: style.fontFamily, ...fields };
  return cachedTheme;
};

const palettes = new WeakMap();
// Return the colours of each state: full, its hatch for waiting, and the legible text colour on it.
// Colours and hatches are made once for each theme, not for each frame.
export const makePalette = (states, theme) => {
  if (!palettes.has(theme)) palettes.set(theme, new Map());
  const cache = palettes.get(theme);
  return states.map(({ colour }) => {
    if (!cache.has(colour)) cache.set(colour, mixPalette(colour, theme));
    return cache.get(colour);
  });
};

const mixPalette = (colour, theme) => {
  const full = rgb(theme.colour(colour)), surface = rgb(theme.surface);
  const mix = (share) => mixColours(full, surface, share);
  const flat = mix(HATCH.flatOpacity);
  return {
    full,
    flat,
    ground: mix(HATCH.groundOpacity),
    line: mix(HATCH.lineOpacity),
    tint: mix(TINT_OPACITY),
    fill: cssColour(full),
    soft: cssColour(flat),
    on: cssColour(luminance(full) > LIGHT_LUMINANCE ? rgb("#15181c") : [255, 255, 255]),
    hatches: new Map(),
  };
};

// Return the fill of waiting in a state's colour: a hatch, flat in low rows.
export const waitFill = (c, colours, height) => {
  if (height < HATCH.minSize) return colours.soft;
  if (c.hatch) return c.hatch(cssColour(colours.ground), cssColour(colours.line), HATCH.pitch, HATCH.line);
  const scale = c.getTransform().a, hatch = makeHatch(colours, scale);
  hatch.pattern ??= c.createPattern(hatch.tile, "repeat");
  hatch.pattern.setTransform(new DOMMatrix([1 / scale, 0, 0, 1 / scale, 0, 0]));
  return hatch.pattern;
};

// Return the hatch of a state for `scale` device pixels per unit: a tile of whole device pixels, and these.
export const makeHatch = (colours, scale) => {
  if (colours.hatches.has(scale)) return colours.hatches.get(scale);
  const size = Math.max(Math.round(HATCH.pitch * scale), 1), tile = new OffscreenCanvas(size, size);
  const c = tile.getContext("2d");
  drawHatchTile(c, colours, size);
  const pixels = new Uint32Array(c.getImageData(0, 0, size, size).data.buffer);
  const hatch = { tile, size, pixels };
  colours.hatches.set(scale, hatch);
  return hatch;
};

const drawHatchTile = (c, colours, size) => {
  const { pitch, line } = HATCH;
  c.scale(size / pitch, size / pitch);
  c.fillStyle = cssColour(colours.ground);
  c.fillRect(0, 0, pitch, pitch);
  c.strokeStyle = cssColour(colours.line);
  c.lineWidth = line;
  c.beginPath();
  for (const shift of [-1, 0, 1]) {
    c.moveTo(shift * pitch - 1, pitch + 1);
    c.lineTo(shift * pitch + pitch + 1, -1);
  }
  c.stroke();
};

// Return the colours of a call: of its wait and of the time after the wait.
export const eventColours = (palette, event, isWaiting) => {
  if (isWaiting) return [palette[0], palette[1]];
  const colours = palette[event.state] || palette[0];
  return [colours, colours];
};
