// Painting of the strip: the whole run, the visible window, and marks of the user.
import * as Format from "./format.mjs";
import { GUTTER, STRIP_HEIGHT as HEIGHT } from "./geometry.mjs";
import { waitFill } from "./palette.mjs";

// Return for each share of a column its fill, and whether it is hidden: first the states, then the
// waiting and the other time of calls on messages.
const shareLooks = (c, overview, palette, messagePalettes, hiddenStates) => {
  const { states } = overview, isWaiting = overview.colour === "waiting";
  const [waitColours, ownColours] = messagePalettes;
  const looks = states.map(({ name }, i) => ({
    fill: isWaiting && i === 0 ? waitFill(c, palette[i], HEIGHT) : palette[i].fill,
    isHidden: hiddenStates.has(name),
  }));
  const isHidden = (i) => isWaiting && hiddenStates.has(states[i].name);
  looks.push({ fill: waitFill(c, waitColours, HEIGHT), isHidden: isHidden(0) });
  looks.push({ fill: isWaiting ? ownColours.fill : ownColours.soft, isHidden: isHidden(1) });
  return looks;
};

// Draw the whole run as stacked shares of all ranks in each state, and in calls on messages above.
// messageShares: for each column the share of waiting and of the other time in these calls, or null.
export const drawShares = (c, scene, theme, palette, messagePalettes) => {
  const { overview, messageShares, hiddenStates } = scene, { columns, length, shares } = overview;
  const { width } = scene.view;
  const n = overview.states.length, count = n + (messageShares ? 2 : 0);
  const share = (column, i) => (i < n ? shares[column * n + i] : messageShares[column][i - n]);
  let peak = 1e-9; // the highest column fills the strip
  for (let column = 0; column < columns; column++) {
    let sum = messageShares ? messageShares[column][0] + messageShares[column][1] : 0;
    for (let i = 0; i < n; i++) sum += share(column, i);
    peak = Math.max(peak, sum);
  }
  const looks = shareLooks(c, overview, palette, messagePalettes, hiddenStates);
  const scale = width / length, bin = 2 ** overview.level;
  c.fillStyle = theme.sunken;
  c.fillRect(GUTTER, 0, width, HEIGHT);
  for (let column = 0; column < columns; column++) {
    const x = GUTTER + Math.floor(column * bin * scale);
    const right = GUTTER + Math.ceil(Math.min((column + 1) * bin, length) * scale);
    let y = HEIGHT;
    for (let i = 0; i < count; i++) {
      if (looks[i].isHidden) continue;
      const h = (HEIGHT - 4) * share(column, i) / peak;
      if (h <= 0) continue;
      c.fillStyle = looks[i].fill;
      c.fillRect(x, y - h, right - x, h);
      y -= h;
    }
  }
  drawLabels(c, peak, theme);
};

const drawLabels = (c, peak, theme) => {
  c.fillStyle = theme.ink3;
  c.font = `11px ${theme.font}`;
  c.textAlign = "right";
  c.textBaseline = "middle";
  c.fillText("whole run", GUTTER - 6, 15);
  c.fillText(`up to ${Format.percent(Math.min(peak, 1))}`, GUTTER - 6, 31);
};

// Mark the visible window on the whole run.
export const drawVisibleWindow = (c, view, length, theme) => {
  const { width } = view, scale = width / length;
  const left = GUTTER + view.from * scale, right = Math.max(GUTTER + view.to * scale, left + 2);
  c.fillStyle = theme.surface;
  c.globalAlpha = 0.62;
  c.fillRect(GUTTER, 0, left - GUTTER, HEIGHT);
  c.fillRect(right, 0, GUTTER + width - right, HEIGHT);
  c.globalAlpha = 1;
  c.strokeStyle = theme.ink;
  c.lineWidth = 2;
  c.strokeRect(left, 1, right - left, HEIGHT - 2);
};

// Mark the selected span and the notes on the whole run.
export const drawMarks = (c, scene, theme) => {
  const { selectedSpan, notes, length, view } = scene;
  const x = (time) => GUTTER + Math.min(time / length, 1) * view.width;
  if (selectedSpan) {
    const [from, to] = selectedSpan.map(x);
    c.globalAlpha = 0.35;
    c.fillStyle = theme.colour("link");
    c.fillRect(from, 0, Math.max(to - from, 2), HEIGHT);
    c.globalAlpha = 1;
  }
  c.fillStyle = theme.ink2;
  for (const { from, to } of notes) {
    const centre = x((from + to) / 2);
    c.beginPath();
    c.moveTo(centre - 5, 0);
    c.lineTo(centre + 5, 0);
    c.lineTo(centre, 8);
    c.closePath();
    c.fill();
  }
};
