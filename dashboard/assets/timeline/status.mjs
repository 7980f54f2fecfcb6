// Messages to the user: on the status line below the picture, and on the cover instead of the picture.
import { element as E } from "./elements.mjs";

// Show a text on the status line until the next change of the picture.
export const announce = (t, text) => { t.page.status.textContent = text; };

export const makeCover = () => E("div", { className: "tl-cover", hidden: true },
  E("p", {}),
  E("progress", { max: 1 }),
  E("button", { type: "button", className: "tl-act" }));

// Show a message with the progress of a computation or a button [text, action]. The elements stay, so that
// the button keeps the focus while the progress changes.
export const showCover = (t, message, progress = null, [text, onclick] = ["", null]) => {
  const [paragraph, bar, button] = t.page.cover.children;
  paragraph.textContent = message;
  bar.hidden = progress === null;
  bar.value = progress ?? 0;
  bar.setAttribute("aria-label", message);
  button.hidden = !text;
  Object.assign(button, { textContent: text, onclick });
  t.page.cover.hidden = false;
  t.root.dataset.shown = progress === null ? "message" : "";
};

export const hideCover = (t) => { t.page.cover.hidden = true; };
