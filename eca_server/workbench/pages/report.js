"use strict";
(() => {
  const { get, onKeys, onSearch, search, words } = page;
  const box = get("#items");
  const items = [...box.querySelectorAll(":scope > details")];
  const order = get("#order");
  const count = get("#count");
  const buttons = [...document.querySelectorAll("button[data-show]")];
  let show = "all";

  const visible = () => [...box.children].filter((item) => !item.hidden);
  const is = (item, trait) => trait === "all" || item.dataset.is.split(" ").includes(trait);

  const apply = () => {
    const wanted = words();
    let seen = 0;
    for (const item of items) {
      const fits = is(item, show);
      const text = wanted.length && fits ? item.textContent.toLowerCase() : "";
      item.hidden = !fits || !wanted.every((word) => text.includes(word));
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

  onKeys({
    a: () => filter("all"),
    f: () => filter(show === "failed" ? "all" : "failed"),
    j: () => move(1, "all"),
    k: () => move(-1, "all"),
    n: () => move(1, "failed"),
    o: openAll,
  });
  onSearch(apply);
  order.addEventListener("change", sort);
  for (const button of buttons) {
    button.addEventListener("click", () => filter(button.dataset.show));
  }
  get("#open").addEventListener("click", openAll);
  addEventListener("hashchange", reveal);

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
