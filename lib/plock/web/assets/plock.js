// Refreshes a page in place, and shows times in the viewer's zone. The pages work without it.
"use strict";

(() => {
  const NAMED = "id";
  const PATIENCE_MS = 10_000;
  const main = document.getElementById("main");
  const trouble = document.getElementById("trouble");
  const pause = document.getElementById("pause");
  let seconds = Number(document.body.dataset.refresh);
  let paused = false;
  let timer = null;

  // --- times ---

  const format = new Intl.DateTimeFormat(undefined, {
    year: "numeric", month: "short", day: "numeric",
    hour: "2-digit", minute: "2-digit", second: "2-digit"
  });
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;

  function localize(root) {
    for (const time of root.querySelectorAll("time[datetime]")) {
      const moment = new Date(time.getAttribute("datetime"));
      if (Number.isNaN(moment.getTime())) continue;
      time.setAttribute("title", moment.toISOString());
      time.textContent = format.format(moment);
    }
    for (const note of root.querySelectorAll("[data-zone]")) {
      note.textContent = `Times are in ${zone}.`;
    }
  }

  // --- refresh: only what differs is changed, so nothing flickers and focus stays ---

  function same(a, b) {
    return a.nodeType === b.nodeType && a.nodeName === b.nodeName &&
      (a.nodeType !== Node.ELEMENT_NODE || a.getAttribute(NAMED) === b.getAttribute(NAMED));
  }

  function update(old, fresh) {
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
      return;
    }
    if (old === document.activeElement && old.matches("input, select")) return;

    for (const { name } of [...old.attributes]) {
      if (!fresh.hasAttribute(name)) old.removeAttribute(name);
    }
    for (const { name, value } of fresh.attributes) {
      if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
    updateChildren(old, fresh);
  }

  function updateChildren(old, fresh) {
    let place = old.firstChild;
    for (const node of [...fresh.childNodes]) {
      let match = place;
      while (match && !same(match, node)) match = match.nextSibling;
      if (!match) {
        old.insertBefore(document.importNode(node, true), place);
        continue;
      }
      removeSiblings(place, match);
      update(match, node);
      place = match.nextSibling;
    }
    removeSiblings(place, null);
  }

  function removeSiblings(first, end) {
    while (first !== end) {
      const gone = first;
      first = first.nextSibling;
      gone.remove();
    }
  }

  function selecting() {
    const selection = document.getSelection();
    return selection && !selection.isCollapsed && main.contains(selection.anchorNode);
  }

  async function refresh() {
    try {
      const answer = await fetch(location.href, {
        headers: { accept: "text/html" }, signal: AbortSignal.timeout(PATIENCE_MS)
      });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fresh = page.getElementById("main");
      // The application may redirect a signed-out viewer to one of its own pages.
      if (!fresh || page.body.dataset.refresh === undefined) throw new Error("no page of plock");
      if (!paused && !selecting()) {
        localize(page);
        updateChildren(main, fresh);
        document.title = page.title;
        seconds = Number(page.body.dataset.refresh) || seconds;
      }
      trouble.hidden = true;
    } catch (error) {
      trouble.textContent = "The pages cannot be reached. What you see is old. Trying again.";
      trouble.hidden = false;
    }
    plan();
  }

  function plan() {
    clearTimeout(timer);
    if (seconds > 0 && !paused && !document.hidden) timer = setTimeout(refresh, seconds * 1000);
  }

  // --- the viewer ---

  if (pause && seconds > 0) {
    pause.hidden = false;
    pause.addEventListener("click", () => {
      paused = !paused;
      pause.textContent = paused ? "Go on" : "Pause";
      paused ? clearTimeout(timer) : refresh();
    });
  }
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && seconds > 0 && !paused) refresh();
  });
  document.addEventListener("keydown", (event) => {
    const search = document.getElementById("q");
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || !search) return;
    if (event.target.matches("input, select, textarea")) return;
    event.preventDefault();
    search.focus();
  });

  localize(document);
  plan();
})();
