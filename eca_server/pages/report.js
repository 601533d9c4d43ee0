"use strict";
(() => {
  const box = document.querySelector("#items");
  const items = [...box.querySelectorAll(":scope > details")];
  const search = document.querySelector("input[type=search]");
  const order = document.querySelector("#order");
  const count = document.querySelector("#count");
  const buttons = [...document.querySelectorAll("button[data-show]")];
  let show = "all";

  const visible = () => [...box.children].filter((item) => !item.hidden);
  const is = (item, trait) => trait === "all" || item.dataset.is.split(" ").includes(trait);

  const apply = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let seen = 0;
    for (const item of items) {
      const fits = is(item, show);
      const text = words.length && fits ? item.textContent.toLowerCase() : "";
      item.hidden = !fits || !words.every((word) => text.includes(word));
      seen += !item.hidden;
    }
    count.textContent = seen === items.length ? "" : `${seen} of ${items.length} shown`;
    for (const button of buttons) {
      button.setAttribute("aria-pressed", String(button.dataset.show === show));
    }
  };
  const filter = (trait) => { show = trait; apply(); };

  const sort = () => {
    const key = order.value;
    const sign = key === "place" ? 1 : -1;
    const place = (item) => Number(item.dataset.place);
    const value = (item) => sign * Number(item.dataset[key]);
    box.append(...items.sort((a, b) => value(a) - value(b) || place(a) - place(b)));
  };

  const openAll = () => {
    const open = visible().some((item) => !item.open);
    for (const item of visible()) item.open = open;
  };

  const theme = () => {
    const root = document.documentElement;
    const dark = root.dataset.theme
      ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  };

  const move = (by, trait) => {
    const shown = visible();
    let at = shown.indexOf(document.activeElement?.closest("#items > details"));
    at = at < 0 && by < 0 ? shown.length : at;
    do at += by; while (shown[at] && !is(shown[at], trait));
    shown[at]?.querySelector("summary").focus();
    shown[at]?.scrollIntoView({ block: "nearest" });
  };

  const reveal = () => {
    const item = items.find((each) => `#${each.id}` === location.hash);
    if (!item) return;
    if (item.hidden) { search.value = ""; filter("all"); }
    item.open = true;
    item.querySelector("summary").focus();
    item.scrollIntoView();
  };

  const keys = {
    "/": () => { search.focus(); search.select(); },
    a: () => filter("all"),
    f: () => filter(show === "failed" ? "all" : "failed"),
    j: () => move(1, "all"),
    k: () => move(-1, "all"),
    n: () => move(1, "failed"),
    o: openAll,
    t: theme,
  };

  let waiting = 0;
  search.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(apply, 120);
  });
  order.addEventListener("change", sort);
  for (const button of buttons) {
    button.addEventListener("click", () => filter(button.dataset.show));
  }
  document.querySelector("#open").addEventListener("click", openAll);
  document.querySelector("#theme").addEventListener("click", theme);
  addEventListener("hashchange", reveal);
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.matches("input, select")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const act = keys[event.key];
    if (act) {
      event.preventDefault();
      act();
    }
  });

  let closed = [];
  addEventListener("beforeprint", () => {
    closed = visible().flatMap((item) => [item, ...item.querySelectorAll("details")]);
    closed = closed.filter((each) => !each.open);
    for (const each of closed) each.open = true;
  });
  addEventListener("afterprint", () => {
    for (const each of closed) each.open = false;
  });

  apply();
  reveal();
})();
