// Positions of the rows of ranks, the size of the picture, and the scene that painters and pointers read.
import * as Geometry from "./geometry.mjs";

const BELOW = 150; // pixels of strip, status and legend
const MIN_HEIGHT = 280, MIN_WIDTH = 50; // pixels of the rows

// width, windowHeight: pixels of the picture and of the browser's window; tops, gap: from
// Geometry.layOutRows; lens, lensRank: the row that stays legible and its rank; blamedRows: the costliest
// blamed rank of each row; rowOf: the row of each rank.
export const create = () => ({
  width: 0,
  windowHeight: 0,
  tops: [Geometry.AXIS],
  gap: 0,
  lens: -1,
  lensRank: undefined,
  blamedRows: new Map(),
  rowOf: new Map(),
});

export const setSize = (t, width, windowHeight) => Object.assign(t.layout, { width, windowHeight });

// Return the width of the rows without their labels.
export const rowWidth = ({ layout }) => Math.max(layout.width - Geometry.GUTTER, MIN_WIDTH);

// Return the geometry of the picture. All painters and pointers use it.
export const makeView = (t) => {
  const { from, to } = t.range, { tops, gap, lens } = t.layout;
  return { ...Geometry.makeView({ from, to, width: rowWidth(t), tops, gap }), lens };
};

// Return the row of the latest rank if this rank is twice as late as all other ranks, else -1.
const findLatestRow = ({ rows, late }) => {
  const [first, second] = [...late].sort((a, b) => b - a);
  const isClear = rows.length > 2 && first > 0 && first > 2 * Math.max(second, 0);
  return isClear ? late.indexOf(first) : -1;
};

// Lay out the rows, which fill the height. The row of the rank that a finding blames stays legible; until
// such a rank is known, the row of the latest rank.
export const layOutRows = (t) => {
  const { overview } = t.data, { rows, drawn } = overview, { accented } = t.layers;
  const rowOf = new Map(), blamedRows = new Map();
  rows.forEach((ranks, row) => ranks.forEach((rank) => rowOf.set(rank, row)));
  for (const rank of accented) {
    const row = rowOf.get(rank);
    if (row !== undefined && !blamedRows.has(row)) blamedRows.set(row, rank);
  }
  const blamedRow = rowOf.get(accented[0]), isBlamed = blamedRow !== undefined;
  const lens = isBlamed ? blamedRow : findLatestRow(overview);
  const lensRank = isBlamed ? accented[0] : drawn[lens];
  t.root.classList.toggle("tl-one-row", rows.length === 1); // panels stand below, where there is space
  const top = t.page.stage.getBoundingClientRect().top + window.scrollY;
  const height = Math.max(window.innerHeight - top - BELOW, MIN_HEIGHT);
  const { tops, gap } = Geometry.layOutRows(rows.length, height, lens);
  Object.assign(t.layout, { tops, gap, lens, lensRank, blamedRows, rowOf });
  t.page.canvas.dataset.rows = tops.join(" ");
  t.page.canvas.dataset.drawn = drawn.join(" ");
};

// Return the scene of the current picture: everything that painters and pointers read, collected from the
// parts of the state.
export const makeScene = (t) => {
  const { data, options, layout, layers, selection, pointer } = t, { overview } = data;
  return {
    view: makeView(t),
    length: t.range.length,
    data: data.window,
    overview,
    sort: options.sort,
    hiddenStates: options.hiddenStates,
    searchTerm: options.searchTerm,
    rowOf: layout.rowOf,
    lensRank: layout.lensRank,
    blamedRows: layout.blamedRows,
    isDrawn: (rank) => overview.drawn[layout.rowOf.get(rank)] === rank, // its row shows this rank
    blamed: layers.blamed,
    waited: layers.waited,
    calls: layers.calls,
    causes: layers.causes,
    chain: t.chain.links,
    instance: selection.instance,
    selectedSpan: selection.span,
    ruler: selection.ruler,
    notes: selection.notes,
    draggedSpan: pointer.draggedSpan,
    draggedRuler: pointer.draggedRuler,
  };
};
