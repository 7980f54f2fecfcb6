// Clicks at random points of the timeline's picture, for the page's modules. A recording context
// gives the independent reference: what was painted last at the pixel.
async ([query, clicks, seed, width, room]) => {
    const modules = ["geometry", "paint", "format", "scene", "palette", "image"].map((name) => import(`/assets/timeline-${name}.mjs`));
    const [Geometry, Paint, Format, Scene, Palette, Image] = await Promise.all(modules);
    const load = async (more) => {
        for (let tries = 0; tries < 1000; tries++) {
            const answer = await fetch(`/timeline-data?${query}&${more}`);
            if (answer.status === 200) return Format.decode(await answer.arrayBuffer());
            await new Promise((done) => setTimeout(done, 50));
        }
        throw new Error(`no answer to ${more}`);
    };
    const random = () => { // mulberry32
        seed = (seed + 0x6d2b79f5) | 0;
        let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
        t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
        return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
    };
    const overview = await load("what=overview&px=300");
    const length = overview.length, found = [], wrong = [];

    const rowOf = new Map();
    overview.rows.forEach((ranks, row) => ranks.forEach((rank) => rowOf.set(rank, row)));
    // Marks at random times: waits for messages, other calls on messages, and work of blamed ranks.
    const makeScene = (data, from, to) => {
        const span = to - from, marks = (count, make) => Array.from({ length: count }, () => {
            const begin = Math.round(from + (random() * 1.1 - 0.1) * span), end = begin + Math.round(random() ** 3 * span / 20);
            return make(overview.drawn[Math.floor(random() * overview.drawn.length)], begin, end);
        });
        return { data, overview, rowOf, blamed: new Set(), hiddenStates: new Set(), searchTerm: "", isDrawn: (rank) => overview.drawn[rowOf.get(rank)] === rank,
                 waited: marks(60, (rank, begin, end) => ({ rank, begin, until: Math.round((begin + end) / 2), end })),
                 calls: marks(60, (rank, begin, end) => [rank, begin, end, 0]), causes: marks(20, (rank, begin, end) => [rank, begin, end, 0, 0]) };
    };

    // Return what was painted last at a point, of a kind or of all: { kind, one }.
    const record = (view, scene) => {
        const rectangles = [], none = () => {};
        let now = null;
        const c = { fillRect: (x, y, w, h) => rectangles.push([now, x, y, w, h]), hatch: (ground) => ground,
                    fillText: none, strokeRect: none, measureText: () => ({ width: 1e9 }) };
        const theme = { late: "late", q2: "q2", ink: "ink", font: "", surface: "#ffffff", colour: () => "#808080" };
        const palette = Palette.makePalette(scene.data.states, theme);
        for (const kind of Geometry.LAYERS[scene.data.kind].filter((name) => name !== "cells")) {
            for (const one of Geometry.itemsOf(scene, kind)) {
                now = { kind, one };
                Scene.drawLayer(c, view, scene, kind, [one], theme, palette);
            }
        }
        return (x, y, only = null) => rectangles.findLast(([what, left, top, w, h]) => (!only || what.kind === only) && x >= left && x < left + w && y >= top && y < top + h)?.[0] ?? null;
    };

    // Colours that identify what has them: each thing has another one than its neighbours. A hatch mixes its colours, and rounds.
    const names = ["full", "flat", "ground", "line", "tint"];
    const colours = Array.from({ length: 83 }, (_, i) => ({ hatches: new Map(), ...Object.fromEntries(names.map((name) => [name, [3 * i, 1, 1]])) }));
    const readCanvas = (view, draw) => {
        const canvas = new OffscreenCanvas(view.right + 2, view.bottom + 2), c = canvas.getContext("2d", { willReadFrequently: true });
        draw(c);
        return (x, y) => { const [r, , , alpha] = c.getImageData(Math.floor(x), Math.floor(y), 1, 1).data; return alpha ? Math.round(r / 3) : null; };
    };

    // The image of all calls, which the page shows instead of single rectangles.
    const recordEvents = (view, scene) => {
        const events = scene.data.events.map((event, i) => ({ ...event, state: i % colours.length, flags: 0 })), surface = new Image.Surface();
        Image.drawEvents(surface, { ...scene, data: { ...scene.data, events } }, view, colours, { ink: "#000000" }, 1);
        const colourAt = readCanvas(view, (c) => surface.draw(c, Geometry.GUTTER, view.tops[0], surface.width, surface.height));
        return (x, y, expected) => colourAt(x, y) === (expected ? scene.data.events.indexOf(expected.one) % colours.length : null);
    };

    const recordCells = (view, data) => {
        const of = (row, column) => (row * 31 + column * 7) % colours.length;
        const state = new Uint8Array(data.arrays.state.length), full = new Uint8Array(state.length).fill(255);
        for (let i = 0; i < state.length; i++) state[i] = of(Math.floor(i / data.columns), i % data.columns);
        const surface = new Image.Surface();
        Image.drawCells(surface, { ...data, arrays: { state, share: full, wait: full } }, colours, view);
        const colourAt = readCanvas(view, (c) => Paint.drawCells(c, view, data, surface));
        return (x, y) => { const colour = colourAt(x, y); return colour === null ? null : { is: (cell) => of(cell.row, cell.column) === colour }; };
    };

    let begins = [0]; // of calls, around which the windows lie
    for (const share of [1, 0.2, 0.02, 0.002]) {
        const centre = begins[Math.floor(random() * begins.length)];
        const from = Math.round(Math.min(Math.max(centre - share * length / 2, 0), (1 - share) * length)), to = Math.round(Math.min(from + share * length, length));
        const data = await load(`what=window&from=${from}&to=${to}&px=${width}`);
        if (data.kind === "events") data.events = data.arrays.events;
        if (share === 1 && data.events) begins = data.events.map((event) => event.enter);
        const lens = Math.floor(random() * overview.rows.length);
        const view = Geometry.makeView({ from, to, width, ...Geometry.layOutRows(overview.rows.length, room, lens) });
        const scene = makeScene(data, from, to), painted = record(view, scene);
        const showsEvent = data.kind === "events" ? recordEvents(view, scene) : () => true;
        const cellAt = data.kind === "cells" ? recordCells(view, data) : () => null;
        for (let i = 0; i < clicks / 4; i++) {
            // Half of the points are near the edge of a call or a mark, where a wrong rounding shows.
            let x = Geometry.GUTTER + random() * width, y = view.tops[0] + random() * (view.bottom - view.tops[0]);
            const kinds = Geometry.LAYERS[data.kind].filter((kind) => Geometry.itemsOf(scene, kind).length);
            if (i % 2) {
                const kind = kinds[Math.floor(random() * kinds.length)], items = Geometry.itemsOf(scene, kind);
                const box = Geometry.boxOf(view, scene, kind, items[Math.floor(random() * items.length)]);
                if (box) [x, y] = [box.x + (random() < 0.5 ? 0 : box.w) + 4 * (random() - 0.5), box.y + (random() * 1.2 - 0.1) * box.h];
            }
            x = Math.min(Math.max(x, Geometry.GUTTER), view.right - 1);
            y = Math.min(Math.max(y, view.tops[0]), view.bottom - 1);
            const px = Math.floor(x), reference = painted(px + 0.5, Math.floor(y) + 0.5), hit = Geometry.findAt(view, scene, x, y);
            const where = [overview.drawn[Geometry.rowAt(view, y)], view.timeAt(px), view.timeAt(px + 1)];
            const called = painted(px + 0.5, Math.floor(y) + 0.5, "event");
            if (!showsEvent(px + 0.5, Math.floor(y) + 0.5, called)) wrong.push(["image", share, x, y]);
            if (reference ? hit?.one !== reference.one : hit && data.kind === "cells") wrong.push([data.kind, reference?.kind, hit?.kind, share, x, y]);
            if (reference) {
                const { kind, one } = reference;
                found.push([kind, ...where, kind === "event" ? one.instance : kind === "late" ? one[0] : -1]);
            } else if (data.kind === "cells") {
                const cell = Geometry.findCell(view, data, x, y), shown = cellAt(px + 0.5, Math.floor(y) + 0.5);
                if (shown === null ? cell && data.arrays.state[cell.at] === undefined : !cell || !shown.is(cell)) wrong.push(["cell", share, x, y]);
                found.push(["cell", ...where, cell ? cell.from : -1, cell ? cell.to : -1]);
            }
        }
    }
    return { found, wrong, rows: overview.rows.length };
}
