// Clicks at random points of the timeline's picture, for the page's modules. A recording context
// gives the independent reference: what was painted last at the pixel.
async ([query, clicks, seed, width, room]) => {
    const names = ["geometry", "paint", "server", "picture", "palette", "image"];
    const modules = names.map((name) => import(`/assets/timeline/${name}.mjs`));
    const [Geometry, Paint, Server, Picture, Palette, Image] = await Promise.all(modules);
    const load = async (parameters) => {
        for (let tries = 0; tries < 1000; tries++) {
            const answer = await fetch(`/timeline-data?${query}&${parameters}`);
            if (answer.status === 200) return Server.decode(await answer.arrayBuffer());
            await new Promise((done) => setTimeout(done, 50));
        }
        throw new Error(`no answer to ${parameters}`);
    };
    const random = () => { // mulberry32
        seed = (seed + 0x6d2b79f5) | 0;
        let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
        t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
        return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
    };
    const choose = (items) => items[Math.floor(random() * items.length)];
    const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
    const overview = await load("what=overview&px=300");
    const length = overview.length, hits = [], wrong = [];

    const rowOf = new Map();
    overview.rows.forEach((ranks, row) => ranks.forEach((rank) => rowOf.set(rank, row)));
    // Marks at random times: waits for messages, other calls on messages, and work of blamed ranks.
    const makeScene = (data, from, to) => {
        const span = to - from;
        const makeMarks = (count, make) => Array.from({ length: count }, () => {
            const begin = Math.round(from + (random() * 1.1 - 0.1) * span);
            const end = begin + Math.round(random() ** 3 * span / 20);
            return make(choose(overview.drawn), begin, end);
        });
        const makeWait = (rank, begin, end) => ({ rank, begin, until: Math.round((begin + end) / 2), end });
        return {
            data,
            overview,
            rowOf,
            blamed: new Set(),
            hiddenStates: new Set(),
            searchTerm: "",
            isDrawn: (rank) => overview.drawn[rowOf.get(rank)] === rank,
            waited: makeMarks(60, makeWait),
            calls: makeMarks(60, (rank, begin, end) => [rank, begin, end, 0]),
            causes: makeMarks(20, (rank, begin, end) => [rank, begin, end, 0, 0]),
        };
    };

    // Return what was painted last at a point, of a kind or of all: { kind, item }.
    const record = (view, scene) => {
        const rectangles = [], ignore = () => {};
        let painted = null;
        const c = {
            fillRect: (x, y, w, h) => rectangles.push({ painted, x, y, w, h }),
            hatch: (ground) => ground,
            fillText: ignore,
            strokeRect: ignore,
            measureText: () => ({ width: 1e9 }),
        };
        const colours = { late: "late", q2: "q2", ink: "ink", surface: "#ffffff" };
        const theme = { ...colours, font: "", colour: () => "#808080" };
        const palette = Palette.makePalette(scene.data.states, theme);
        for (const kind of Geometry.LAYERS[scene.data.kind].filter((name) => name !== "cells")) {
            for (const item of Geometry.itemsOf(scene, kind)) {
                painted = { kind, item };
                Picture.drawLayer(c, view, scene, kind, [item], theme, palette);
            }
        }
        const isInside = (box, x, y) =>
            x >= box.x && x < box.x + box.w && y >= box.y && y < box.y + box.h;
        return (x, y, only = null) => {
            const isShown = (box) => (!only || box.painted.kind === only) && isInside(box, x, y);
            return rectangles.findLast(isShown)?.painted ?? null;
        };
    };

    // Colours that identify what has them: each thing has another one than its neighbours. A hatch
    // mixes its colours, and rounds.
    const makeColours = (_, i) => {
        const shades = ["full", "flat", "ground", "line", "tint"].map((name) => [name, [3 * i, 1, 1]]);
        return { hatches: new Map(), ...Object.fromEntries(shades) };
    };
    const colours = Array.from({ length: 83 }, makeColours);
    const readCanvas = (view, draw) => {
        const canvas = new OffscreenCanvas(view.right + 2, view.bottom + 2);
        const c = canvas.getContext("2d", { willReadFrequently: true });
        draw(c);
        return (x, y) => {
            const [r, , , alpha] = c.getImageData(Math.floor(x), Math.floor(y), 1, 1).data;
            return alpha ? Math.round(r / 3) : null;
        };
    };

    // The image of all calls, which the page shows instead of single rectangles.
    const recordEvents = (view, scene) => {
        const surface = new Image.Surface(), number = (i) => i % colours.length;
        const events = scene.data.events.map((event, i) => ({ ...event, state: number(i), flags: 0 }));
        const numbered = { ...scene, data: { ...scene.data, events } };
        Image.drawEvents(surface, numbered, view, colours, { ink: "#000000" }, 1);
        const draw = (c) =>
            surface.draw(c, Geometry.GUTTER, view.tops[0], surface.width, surface.height);
        const colourAt = readCanvas(view, draw);
        return (x, y, expected) => {
            const colour = expected ? number(scene.data.events.indexOf(expected.item)) : null;
            return colourAt(x, y) === colour;
        };
    };

    const recordCells = (view, data) => {
        const number = (row, column) => (row * 31 + column * 7) % colours.length;
        const state = new Uint8Array(data.arrays.state.length), full = new Uint8Array(state.length).fill(255);
        for (let i = 0; i < state.length; i++) {
            state[i] = number(Math.floor(i / data.columns), i % data.columns);
        }
        const surface = new Image.Surface(), arrays = { state, share: full, wait: full };
        Image.drawCells(surface, { ...data, arrays }, colours, view);
        const colourAt = readCanvas(view, (c) => Paint.drawCells(c, view, data, surface));
        return (x, y) => {
            const colour = colourAt(x, y);
            return colour === null ? null : { is: (cell) => number(cell.row, cell.column) === colour };
        };
    };

    // Return a random point. Half of the points are near the edge of a call or a mark, where a wrong
    // rounding shows.
    const choosePoint = (view, scene, isNearEdge) => {
        let x = Geometry.GUTTER + random() * width;
        let y = view.tops[0] + random() * (view.bottom - view.tops[0]);
        const kinds = Geometry.LAYERS[scene.data.kind].filter((kind) => Geometry.itemsOf(scene, kind).length);
        if (isNearEdge) {
            const kind = choose(kinds), item = choose(Geometry.itemsOf(scene, kind));
            const box = Geometry.boxOf(view, scene, kind, item);
            if (box) {
                x = box.x + (random() < 0.5 ? 0 : box.w) + 4 * (random() - 0.5);
                y = box.y + (random() * 1.2 - 0.1) * box.h;
            }
        }
        return [clamp(x, Geometry.GUTTER, view.right - 1), clamp(y, view.tops[0], view.bottom - 1)];
    };

    let begins = [0]; // of calls, around which the windows lie
    for (const share of [1, 0.2, 0.02, 0.002]) {
        const centre = choose(begins);
        const from = Math.round(clamp(centre - share * length / 2, 0, (1 - share) * length));
        const to = Math.round(Math.min(from + share * length, length));
        const data = await load(`what=window&from=${from}&to=${to}&px=${width}`);
        if (data.kind === "events") data.events = data.arrays.events;
        if (share === 1 && data.events) begins = data.events.map((event) => event.enter);
        const count = overview.rows.length, lens = Math.floor(random() * count);
        const rows = Geometry.layOutRows(count, room, lens);
        const view = Geometry.makeView({ from, to, width, ...rows });
        const scene = makeScene(data, from, to), painted = record(view, scene);
        const showsEvent = data.kind === "events" ? recordEvents(view, scene) : () => true;
        const cellAt = data.kind === "cells" ? recordCells(view, data) : () => null;
        for (let i = 0; i < clicks / 4; i++) {
            const [x, y] = choosePoint(view, scene, i % 2);
            const px = Math.floor(x), pixel = [px + 0.5, Math.floor(y) + 0.5];
            const reference = painted(...pixel), hit = Geometry.findAt(view, scene, x, y);
            const rank = overview.drawn[Geometry.rowAt(view, y)];
            const where = [rank, view.timeAt(px), view.timeAt(px + 1)];
            if (!showsEvent(...pixel, painted(...pixel, "event"))) wrong.push(["image", share, x, y]);
            const isWrong = reference ? hit?.item !== reference.item : hit && data.kind === "cells";
            if (isWrong) wrong.push([data.kind, reference?.kind, hit?.kind, share, x, y]);
            if (reference) {
                const { kind, item } = reference;
                const [mark] = kind === "late" ? item : [-1];
                hits.push([kind, ...where, kind === "event" ? item.instance : mark]);
            } else if (data.kind === "cells") {
                const cell = Geometry.findCell(view, data, x, y), shown = cellAt(...pixel);
                const isOutside = cell && data.arrays.state[cell.at] === undefined;
                if (shown === null ? isOutside : !cell || !shown.is(cell)) wrong.push(["cell", share, x, y]);
                hits.push(["cell", ...where, cell ? cell.from : -1, cell ? cell.to : -1]);
            }
        }
    }
    return { hits, wrong, rows: overview.rows.length };
}
