
"use strict";
(() => {
  const items = [...document.querySelectorAll("details.item")];
  const search = document.querySelector("input[type=search]");
  const count = document.querySelector("#count");
  const buttons = [...document.querySelectorAll("button[data-show]")];
  let show = "all";

  const apply = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let seen = 0;
    for (const item of items) {
      const fits = show === "all" || item.dataset.verdict === show;
      const text = words.length && fits ? item.textContent.toLowerCase() : "";
      item.hidden = !fits || !words.every((word) => text.includes(word));
      seen += !item.hidden;
    }
    count.textContent = `${seen} of ${items.length}`;
    for (const button of buttons) {
      button.setAttribute("aria-pressed", String(button.dataset.show === show));
    }
  };

  for (const button of buttons) {
    button.addEventListener("click", () => { show = button.dataset.show; apply(); });
  }
  let waiting = 0;
  search.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(apply, 120);
  });
  document.querySelector("#theme").addEventListener("click", () => {
    const root = document.documentElement;
    const dark = root.dataset.theme
      ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });
  document.querySelector("#open").addEventListener("click", () => {
    const visible = items.filter((item) => !item.hidden);
    const open = visible.some((item) => !item.open);
    for (const item of visible) item.open = open;
  });
  addEventListener("beforeprint", () => {
    for (const item of items) if (!item.hidden) item.open = true;
  });
  addEventListener("keydown", (event) => {
    if (event.target === search) {
      if (event.key === "Escape") search.blur();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const visible = items.filter((item) => !item.hidden);
    const at = visible.indexOf(document.activeElement?.closest("details.item"));
    if (event.key === "/") {
      event.preventDefault();
      search.focus();
    } else if (event.key === "j" || event.key === "k") {
      const next = visible[at + (event.key === "j" ? 1 : -1)];
      next?.querySelector("summary").focus();
    } else if (event.key === "f") {
      show = show === "failed" ? "all" : "failed";
      apply();
    }
  });
  apply();
})();
