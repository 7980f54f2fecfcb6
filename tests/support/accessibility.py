"""Accessibility of a page in the browser: the rules of axe-core, and a walk by the Tab key."""

from __future__ import annotations

import importlib.resources
from functools import cache

from support.dashboard_server import Browser

# Violations of axe-core's rules, with at most four elements of each.
FIND_VIOLATIONS = """axe.run(document, { resultTypes: ["violations"] }).then((found) =>
    found.violations.map((one) => `${one.id}: ${one.nodes.slice(0, 4).map((node) =>
        node.target + " (" + node.failureSummary.split("\\n")[1].trim() + ")").join(", ")}`))"""
HAS_AXE = "'axe' in window"
# Faults are visible at once in pages without transitions.
WITHOUT_TRANSITIONS = "* { transition: none !important; animation: none !important }"
# An element that is removed while it has the focus leaves its place as the start of the next Tab.
START_AT_TOP = """() => {
    const start = document.createElement("i");
    start.tabIndex = -1;
    document.body.prepend(start);
    start.focus();
    start.remove();
    window.lastFocus = null;
    window.reached = new Set();
    // Pages replace elements, so that they are known by their type and the start of their text.
    window.identify = (e) => e.tagName + e.id + (e.innerText || e.getAttribute("aria-label") || "")
        .split("\\n")[0];
}"""
# Describes the focused element: whether it is the page's end, and its name. Focus is visible if
# the style of the element or of its parents changes when the focus leaves.
DESCRIBE_FOCUS = """() => {
    const style = (e) => {
        const s = getComputedStyle(e);
        return [s.outlineStyle, s.outlineColor, s.outlineWidth, s.boxShadow, s.borderColor,
            s.backgroundColor, s.left].join();
    };
    const styles = (e) => [e, e.parentElement, e.parentElement?.parentElement]
        .filter(Boolean).map(style).join(";");
    const last = window.lastFocus;
    const isLastVisible = !last || !last.e.isConnected || styles(last.e) !== last.styles;
    const invisible = isLastVisible ? "" : last.text;
    const e = document.activeElement;
    if (e === document.body) return { end: true, invisible, unnamed: "" };
    const labelled = (e.getAttribute("aria-labelledby") || "").split(" ")
        .map((id) => document.getElementById(id)?.innerText || "").join(" ").trim();
    const name = e.getAttribute("aria-label") || labelled || e.innerText || e.title
        || e.labels?.[0]?.innerText || e.placeholder || "";
    const text = `${e.tagName} #${e.id} .${e.getAttribute("class")} "${name.slice(0, 40)}"`;
    window.lastFocus = { e, styles: styles(e), text };
    window.reached.add(identify(e));
    const isNamed = name.trim() || e.closest("[role=gridcell], [role=columnheader]");
    return { end: false, invisible, unnamed: isNamed ? "" : text };
}"""
# Identities and descriptions of the elements for a pointer. Arrow keys move inside a grid.
FIND_USABLE = """() => Object.fromEntries(
    [...document.querySelectorAll("a[href], button, input, select, summary")]
    .filter((e) => e.checkVisibility({ visibilityProperty: true }) && !e.disabled
        && e.tabIndex >= 0 && !e.closest("[role=grid]"))
    .map((e) => [identify(e),
        `${e.tagName} #${e.id} .${e.getAttribute("class")} ${e.innerText.slice(0, 40)}`]))"""
REACHED = "[...window.reached]"
MOST_STOPS, MOST_WALKS = 400, 4


@cache
def read_axe() -> str:
    """Return the script of axe-core."""
    return (importlib.resources.files("axe_playwright_python") / "axe.min.js").read_text()


def find_violations(browser: Browser) -> list[str]:
    """Return the violations that axe-core finds on the page."""
    if not browser.page.evaluate(HAS_AXE):
        browser.page.evaluate(read_axe())
    found: list[str] = browser.page.evaluate(FIND_VIOLATIONS)
    return found


def walk_by_tab(browser: Browser) -> list[str]:
    """Press Tab until the end of the page; return the faults.

    Tab must reach each element that can be used, and each needs a name and a visible focus. A page
    that has got further elements meanwhile is walked again.
    """
    browser.page.add_style_tag(content=WITHOUT_TRANSITIONS)
    for _ in range(MOST_WALKS):
        browser.page.evaluate(START_AT_TOP)
        usable = browser.page.evaluate(FIND_USABLE)
        faults = walk_to_end(browser)
        if browser.page.evaluate(FIND_USABLE).keys() == usable.keys():
            break
        browser.settled()
    reached = set(browser.page.evaluate(REACHED))
    unreached = [f"Tab does not reach {text}" for key, text in usable.items() if key not in reached]
    return faults + unreached


def walk_to_end(browser: Browser) -> list[str]:
    """Press Tab until the end of the page; return the faults of the elements with the focus."""
    faults = []
    for _ in range(MOST_STOPS):
        browser.page.keyboard.press("Tab")
        focus = browser.page.evaluate(DESCRIBE_FOCUS)
        if focus["invisible"]:
            faults.append(f"focus is invisible on {focus['invisible']}")
        if focus["unnamed"]:
            faults.append(f"no name on {focus['unnamed']}")
        if focus["end"]:
            return faults
    return [*faults, f"Tab does not come to the end in {MOST_STOPS} stops"]
