"use strict";
// Asks for the page anew and puts only what changed into the one that is open: nothing flickers, what was unfolded
// stays unfolded, and what is selected or focused stays so.
(() => {
  const root = document.documentElement, stale = document.getElementById("stale");

  const follow = (old, fresh) => {
    if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName || old.id !== fresh.id) {
      old.replaceWith(fresh);
    } else if (old.nodeType === Node.TEXT_NODE) {
      if (old.data !== fresh.data) old.data = fresh.data;
    } else if (old.nodeType === Node.ELEMENT_NODE) {
      attributes(old, fresh);
      children(old, fresh);
    }
  };

  const attributes = (old, fresh) => {
    for (const { name } of [...old.attributes]) {
      if (name !== "open" && !fresh.hasAttribute(name)) old.removeAttribute(name);
    }
    for (const { name, value } of fresh.attributes) {
      if (name !== "open" && old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
  };

  // What has an id is found again by it wherever it stands, the rest by its place.
  const children = (old, fresh) => {
    let here = old.firstChild;
    for (const child of [...fresh.childNodes]) {
      const known = child.id ? [...old.children].find((one) => one.id === child.id) : here && !here.id ? here : null;
      if (!known) { old.insertBefore(child, here); continue; }
      if (known === here) here = here.nextSibling; else old.insertBefore(known, here);
      follow(known, child);
    }
    while (here) { const next = here.nextSibling; here.remove(); here = next; }
  };

  let asking = false;
  const refresh = async () => {
    if (document.hidden || asking) return;
    asking = true;
    try {
      const answer = await fetch(location.href, { cache: "no-store", signal: AbortSignal.timeout(4000) });
      if (!answer.ok) throw new Error(answer.statusText);
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const made = (one) => one.querySelector("meta[name=generator]").content;
      if (made(page) !== made(document)) return location.reload(); // another version, with a style of its own
      document.title = page.title;
      follow(document.querySelector("main"), page.querySelector("main"));
      stale.hidden = true;
    } catch {
      stale.hidden = false;
    }
    asking = false;
  };

  if (location.protocol === "file:") return; // a page that was saved stays as it is
  setInterval(refresh, 1000 * Number(root.dataset.refresh));
  document.addEventListener("visibilitychange", refresh);
})();
