// Clicks at random points of the timeline's picture, for the page's modules. A recording context
// gives the independent reference: what was painted last at the pixel.
async ([query, clicks, seed, width, room]) => {
    const modules = ["geometry", "paint", "format"].map((name) => import(`/assets/timeline-${name}.mjs`));
    const [Geometry, Paint, Format] = await Promise.all(modules);
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

    const recordEvents = (view, data) => {
        const rectangles = [], none = () => {};
        const c = { fillRect: (x, y, w, h) => rectangles.push([c.fillStyle, x, y, w, h]), hatch: (ground) => ground.replace("wait-", ""),
                    fillText: none, strokeRect: none, measureText: () => ({ width: 1e9 }) };
        const palette = data.events.map((_, i) => ({ fill: `${i}`, soft: `${i}`, ground: [i], line: [i] }));
        const painted = data.late.filter(([, , from, to]) => to >= view.from && from <= view.to);
        let late = 0;
        const theme = { get late() { return `late ${late++}`; }, ink: "ink", font: "" };
        Paint.drawLate(c, view, data, theme);
        const events = data.events.map((event, i) => ({ ...event, state: i, flags: 0 }));
        Paint.drawEvents(c, view, { ...data, events }, palette, theme, false, new Set());
        return (x, y) => {
            const hit = rectangles.findLast(([, left, top, w, h]) => x >= left && x < left + w && y >= top && y < top + h);
            if (!hit) return null;
            const name = String(hit[0]);
            return name.startsWith("late") ? painted[Number(name.slice(5))] : data.events[Number(name.replace(/^rgba\((\d+).*$/, "$1"))];
        };
    };

    const recordCells = (view, data) => {
        // Each cell has another colour than its neighbours, so its pixels identify it.
        const of = (row, column) => (row * 31 + column * 7) % 199;
        const state = new Uint8Array(data.arrays.state.length), full = new Uint8Array(state.length).fill(255);
        for (let i = 0; i < state.length; i++) state[i] = of(Math.floor(i / data.columns), i % data.columns);
        const palette = Array.from({ length: 199 }, (_, i) => ({ full: [i, 1, 1], flat: [i, 1, 1], ground: [i, 1, 1], line: [i, 1, 1], tint: [i, 1, 1] }));
        const image = Paint.makeCellImage({ ...data, arrays: { state, share: full, wait: full } }, palette, view);
        const canvas = new OffscreenCanvas(view.right + 2, view.bottom + 2), c = canvas.getContext("2d", { willReadFrequently: true });
        Paint.drawCells(c, view, data, image);
        return (x, y) => { const [r, , , alpha] = c.getImageData(Math.floor(x), Math.floor(y), 1, 1).data; return alpha ? { is: (cell) => of(cell.row, cell.column) === r } : null; };
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
        const drawn = (data.kind === "events" ? recordEvents : recordCells)(view, data), off = new Set();
        for (let i = 0; i < clicks / 4; i++) {
            // Half of the points are near the edge of a call, where a wrong rounding shows.
            let x = Geometry.GUTTER + random() * width, y = view.tops[0] + random() * (view.bottom - view.tops[0]);
            if (data.kind === "events" && data.events.length && i % 2) {
                const event = data.events[Math.floor(random() * data.events.length)];
                x = view.x(random() < 0.5 ? event.enter : event.exit) + 4 * (random() - 0.5);
                y = view.top(event.row) + (random() * 1.2 - 0.1) * view.pitch(event.row);
            }
            x = Math.min(Math.max(x, Geometry.GUTTER), view.right - 1);
            y = Math.min(Math.max(y, view.tops[0]), view.bottom - 1);
            const reference = drawn(Math.floor(x) + 0.5, Math.floor(y) + 0.5);
            if (data.kind === "cells") {
                const cell = Geometry.findCell(view, data, x, y);
                if (reference === null ? cell && data.arrays.state[cell.at] === undefined : !cell || !reference.is(cell)) wrong.push(["cell", share, x, y]);
                found.push(["cell", overview.drawn[Geometry.rowAt(view, y)], view.timeAt(Math.floor(x)), view.timeAt(Math.floor(x) + 1), cell ? cell.from : -1, cell ? cell.to : -1]);
                continue;
            }
            const event = Geometry.findEvent(view, data, off, x, y), late = Geometry.findLate(view, data, x, y), hit = event || late;
            if (reference ? hit !== reference : hit && hit === late) wrong.push(["event", share, x, y]);
            if (reference) {
                const instance = hit && hit === late ? late[0] : event ? event.instance : -1;
                found.push([hit === late ? "late" : "event", overview.drawn[Geometry.rowAt(view, y)], view.timeAt(Math.floor(x)), view.timeAt(Math.floor(x) + 1), instance]);
            }
        }
    }
    return { found, wrong, rows: overview.rows.length };
}
