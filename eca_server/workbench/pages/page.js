"use strict";
// The controls that all pages share: the search, the keys, the theme.
const page = (() => {
  const get = (selector) => document.querySelector(selector);
  const search = get("input[type=search]");

  // Call `filter` after each pause in typing.
  const onSearch = (filter) => {
    let waiting = 0;
    search.addEventListener("input", () => {
      clearTimeout(waiting);
      waiting = setTimeout(filter, 120);
    });
  };
  const words = () => search.value.toLowerCase().split(/\s+/).filter(Boolean);

  const theme = () => {
    const root = document.documentElement;
    const isDark = root.dataset.theme
      ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = isDark ? "light" : "dark";
  };
  get("#theme").addEventListener("click", theme);

  // Call the action of a pressed key, unless it is meant for an element.
  const onKeys = (actions, isForElement = () => false) => {
    const all = { "/": () => { search.focus(); search.select(); }, t: theme, ...actions };
    addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.target.matches("input, select")) {
        if (event.key === "Escape") event.target.blur();
        return;
      }
      const act = all[event.key];
      if (act && !isForElement(event)) {
        event.preventDefault();
        act();
      }
    });
  };

  return { get, onKeys, onSearch, search, words };
})();
