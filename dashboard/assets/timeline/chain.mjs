// The chain of waits from a selected wait back to its cause.
import * as Format from "./format.mjs";
import * as Server from "./server.mjs";
import { notify } from "./state.mjs";

// links: waits from the selected wait to the first one of the chain, or null; end: where the last awaited
// rank was.
export const create = () => ({ links: null, end: null });

export const clear = (t) => { t.chain.links = null; };

// Request the chain from the wait of a rank at a time.
export const request = async (t, rank, time) => {
  const { instance } = t.selection;
  const answer = await Server.request(t, "chain", { member: rank, at: Math.round(time) });
  if (!answer || !answer.chain || instance !== t.selection.instance) return;
  Object.assign(t.chain, { links: answer.chain, end: answer.last });
  notify(t, "chain");
};

// Request the chain of an instance: from a wait of the clicked rank, or else from the longest wait.
export const requestOfInstance = (t, { members }, rank) => {
  const clicked = members.find((member) => member.rank === rank && member.wait > 0);
  const member = clicked || [...members].sort((a, b) => b.wait - a.wait)[0];
  if (member?.wait > 0) request(t, member.rank, member.begin + member.wait / 2);
};

// Return where the rank at the end of a chain was: in which call and since when, or outside of MPI calls.
const describeEnd = (end, last) => {
  if (!end || end.rank !== last.awaited) return "";
  if (!end.operation) return ": it was outside of MPI calls";
  const { operation, site, since, span, inside } = end;
  const lead = last.begin - since, outside = span - inside;
  const entered = lead > 0 ? `${Format.time(lead)} before` : `${Format.time(-lead)} after`;
  return `: it was inside MPI calls for ${Format.time(inside)} of ${Format.time(span)}` +
    `, mostly in ${operation} (${Format.shorten(site)}), which it had entered ${entered} this wait began` +
    (outside >= span / 100 ? `, and outside of MPI calls for ${Format.time(outside)}` : "");
};

const describeLink = ({ rank, begin, until, operation, site, awaited }) =>
  `rank ${rank} waited ${Format.time(until - begin)} in ${operation} (${Format.shorten(site)}) ` +
  `for rank ${awaited}`;

// Return the chain as a sentence: the waits, and where they began.
export const describe = ({ chain: { links, end } }) => {
  if (!links || !links.length) return null;
  const last = links.at(-1), waits = links.slice(1).map(describeLink);
  const cause = `rank ${last.awaited}, which waited for no other rank during this time` +
    describeEnd(end, last);
  return waits.length ? `${waits.join("; ")}. It began on ${cause}.` : `on ${cause}`;
};
