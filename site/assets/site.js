// The menu of small windows, the theme, copying of code, and the search. Pages read well without.
"use strict";
const byId = (id) => document.getElementById(id);
const make = (name, properties, ...children) => {
  const node = Object.assign(document.createElement(name), properties);
  node.append(...children);
  return node;
};

const menu = byId("menu");
menu.hidden = false;
document.body.classList.add("scripted");
menu.addEventListener("click", () => {
  const open = document.body.classList.toggle("menu-open");
  menu.setAttribute("aria-expanded", String(open));
});

const theme = byId("theme");
const themes = ["system", "light", "dark"];
const nameTheme = () => {
  theme.textContent = `Theme: ${document.documentElement.dataset.theme}`;
};
theme.hidden = false;
theme.addEventListener("click", () => {
  const next = themes[(themes.indexOf(document.documentElement.dataset.theme) + 1) % themes.length];
  document.documentElement.dataset.theme = next;
  try { localStorage.setItem("plock-theme", next); } catch { /* it lasts for this page */ }
  nameTheme();
});
nameTheme();

if (navigator.clipboard) {
  for (const block of document.querySelectorAll("pre")) {
    const button = make("button", { type: "button", className: "copy", textContent: "Copy" });
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(block.textContent);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
    const holder = make("div", { className: "code-holder" });
    block.replaceWith(holder);
    holder.append(block, button);
  }
}

// The index is a script, not data to fetch: so it is found without a web server, too.
const root = new URL(".", document.currentScript.src);
const form = byId("search");
const field = form.querySelector("input");
const found = byId("found");
const SHOWN = 12; // places
const EXCERPT = 130; // characters
let index;

window.searchIndex = (sections) => {
  index = sections.map(([path, page, heading, text]) => ({
    path, page, heading, text,
    titles: `${page} ${heading}`.toLowerCase(), words: `${page} ${heading} ${text}`.toLowerCase()
  }));
  show();
};

const load = () => {
  if (load.begun) return;
  load.begun = true;
  document.head.append(make("script", { src: new URL("search-index.js", root).href }));
};

// A heading that has all words is worth more than a text that has them; a page of the guides
// comes before a class that fits as well.
const worth = (section, words) => {
  if (!words.every((word) => section.words.includes(word))) return 0;
  const heading = section.heading.toLowerCase();
  return words.reduce((sum, word) => {
    const starts = new RegExp(`(^|[^a-z0-9])${word.replace(/[^\w\s]/g, "\\$&")}`);
    if (starts.test(heading)) return sum + 10;
    if (starts.test(section.titles)) return sum + 5;
    return sum + (starts.test(section.words) ? 2 : 1);
  }, heading === words.join(" ") ? 20 : 0);
};

const excerpt = ({ text }, words) => {
  const places = words.map((word) => text.toLowerCase().indexOf(word)).filter((at) => at >= 0);
  const at = places.length ? Math.max(0, Math.min(...places) - 40) : 0;
  const start = at ? text.indexOf(" ", at) + 1 : 0;
  const whole = text.length <= start + EXCERPT;
  const part = text.slice(start, start + EXCERPT);
  return (start ? "… " : "") + (whole ? part : `${part.replace(/\s\S*$/, "")} …`);
};

const show = () => {
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  form.classList.toggle("asked", words.length > 0);
  if (!words.length) return found.replaceChildren();
  if (!index) return found.replaceChildren(make("p", { textContent: "Loading …" }));
  const best = index.map((section, place) => ({ section, place, worth: worth(section, words) }))
    .filter((entry) => entry.worth).sort((a, b) => b.worth - a.worth || a.place - b.place);
  const links = best.slice(0, SHOWN).map(({ section }) => {
    const { page, heading } = section;
    const where = heading.startsWith(page) ? heading : `${page} › ${heading}`;
    return make("a", { href: new URL(section.path, root).href },
      make("strong", { textContent: where }),
      make("span", { textContent: excerpt(section, words) }));
  });
  const count = best.length > SHOWN ? `The best ${SHOWN} of ${best.length} places` :
    `${best.length || "No"} place${best.length === 1 ? "" : "s"}`;
  found.replaceChildren(make("p", { textContent: count }), ...links);
};

form.hidden = false;
field.addEventListener("focus", load);
field.addEventListener("input", () => { load(); show(); });
form.addEventListener("submit", (event) => {
  event.preventDefault();
  found.querySelector("a")?.click();
});
document.addEventListener("keydown", (event) => {
  const typing = event.target.matches("input, textarea, select");
  if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    field.focus();
  } else if (event.key === "Escape" && form.contains(document.activeElement)) {
    field.value = "";
    show();
    field.focus();
  } else if (["ArrowDown", "ArrowUp"].includes(event.key) && form.contains(event.target)) {
    const stops = [field, ...found.querySelectorAll("a")];
    const here = stops.indexOf(document.activeElement);
    const next = stops[here + (event.key === "ArrowDown" ? 1 : -1)];
    if (next) { event.preventDefault(); next.focus(); }
  }
});
document.addEventListener("click", (event) => {
  if (!form.contains(event.target)) form.classList.remove("asked");
});
