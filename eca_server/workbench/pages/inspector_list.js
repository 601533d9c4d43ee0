"use strict";
// Drawing: texts with visible special characters, trees, a virtual list, the time strip.
const drawing = (() => {
  const VISIBLE =
    "[^\\u{0}-\\u{a0}\\u{200b}-\\u{200f}\\u{2028}-\\u{202f}\\u{2060}-\\u{206f}\\u{e0000}-\\u{e0fff}]";
  const UNSEEN = new RegExp(
    "[\\u{0}-\\u{8}\\u{b}-\\u{1f}\\u{7f}-\\u{9f}\\u{ad}\\u{61c}\\u{200b}\\u{200e}\\u{200f}" +
      "\\u{2028}-\\u{202e}\\u{2060}-\\u{206f}\\u{feff}\\u{d800}-\\u{dfff}\\u{fff9}-\\u{ffff}" +
      "\\u{e0000}-\\u{e0fff}]" +
      `|(?<!${VISIBLE})[\\u{200c}\\u{200d}]|[\\u{200c}\\u{200d}](?!${VISIBLE})`,
    "gu",
  );
  const LONGEST = 20_000; // characters of a text that are shown at first
  const MOST = 200; // entries of an object or a list that are shown at first

  const made = (tag, className = "", ...inside) => {
    const element = document.createElement(tag);
    element.className = className;
    element.append(...inside);
    return element;
  };

  const button = (words, act) => {
    const element = made("button", "", words);
    element.addEventListener("click", act);
    return element;
  };

  // A text with invisible and bidirectional characters made visible.
  const spelled = (text) => {
    const parts = document.createDocumentFragment();
    let from = 0;
    for (const found of text.matchAll(UNSEEN)) {
      const code = found[0].codePointAt(0).toString(16);
      parts.append(text.slice(from, found.index), made("i", "", `\\u{${code}}`));
      from = found.index + found[0].length;
    }
    parts.append(text.slice(from));
    return parts;
  };

  const long = (text) => {
    const element = made("pre", "", spelled(text.slice(0, LONGEST)));
    if (text.length > LONGEST) {
      const more = button(`${(text.length - LONGEST).toLocaleString("en")} more characters`, () => {
        more.remove();
        element.append(spelled(text.slice(LONGEST)));
      });
      element.append(more);
    }
    return element;
  };

  const oddities = (node) => node.odd.map((odd) => made("span", "badge odd", spelled(odd)));

  const leaf = (key, node) => {
    const element = made("div", "leaf", made("span", "key", spelled(key)));
    if (node.raw !== undefined) {
      const text = typeof node.raw === "string" ? node.raw : JSON.stringify(node.raw);
      element.append(" ", made("span", `value ${node.type}`, long(text)));
    }
    element.append(" ", made("span", "faint", node.type), " ", ...oddities(node));
    return element;
  };

  const has = (node) => node.odd.length > 0 || (node.entries ?? []).some(([, inner]) => has(inner));

  const tree = (key, node, depth = 0) => {
    if (!node.entries) return leaf(key, node);
    const count = node.entries.length;
    const summary = made("summary", "", made("span", "key", spelled(key)), " ");
    summary.append(made("span", "faint", spelled(`${node.type} ${count}`)), " ", ...oddities(node));
    const element = made("details", "node", summary);
    const grow = (from) => {
      const next = node.entries.slice(from, from + MOST);
      element.append(...next.map(([name, inner]) => tree(name, inner, depth + 1)));
      if (from + MOST < count) {
        const more = button(`${count - from - MOST} more`, () => { more.remove(); grow(from + MOST); });
        element.append(more);
      }
    };
    let grown = false;
    const open = () => { if (element.open && !grown) { grown = true; grow(0); } };
    element.addEventListener("toggle", open);
    element.open = depth < 3 || (depth < 12 && count <= MOST && has(node));
    open();
    return element;
  };

  // A virtual list: only the visible rows are in the document; `draw` fills one of them.
  const List = class {
    constructor(box, height, draw) {
      this.box = box;
      this.inside = box.firstElementChild;
      this.height = height;
      this.draw = draw;
      this.length = 0;
      this.pool = [];
      this.drawn = () => {};
      this.waits = false;
      box.addEventListener("scroll", () => this.later());
      new ResizeObserver(() => this.later()).observe(box);
    }

    get first() { return Math.floor(this.box.scrollTop / this.height); }
    get last() {
      const end = (this.box.scrollTop + this.box.clientHeight) / this.height;
      return Math.min(this.length, Math.ceil(end)) - 1;
    }

    resize(length) {
      this.length = length;
      this.inside.style.height = `${length * this.height}px`;
      this.later();
    }

    later() {
      if (this.waits) return;
      this.waits = true;
      requestAnimationFrame(() => { this.waits = false; this.render(); });
    }

    render() {
      const { first, last } = this;
      const count = Math.max(0, last - first + 1);
      while (this.pool.length < count) {
        const row = this.draw(null, 0);
        this.pool.push(row);
        this.inside.append(row);
      }
      this.pool.forEach((row, index) => {
        row.hidden = index >= count;
        if (row.hidden) return;
        row.style.transform = `translateY(${(first + index) * this.height}px)`;
        this.draw(row, first + index);
      });
      this.drawn();
    }

    reveal(place, where = "nearest") {
      const top = place * this.height;
      const { scrollTop, clientHeight } = this.box;
      if (where === "start") this.box.scrollTop = top;
      else if (where === "center") this.box.scrollTop = top - clientHeight / 2;
      else if (top < scrollTop) this.box.scrollTop = top;
      else if (top + this.height > scrollTop + clientHeight) {
        this.box.scrollTop = top + this.height - clientHeight;
      }
      this.later();
    }
  };

  // The strip: each side's messages over time, the findings, and the visible part of the list.
  const WIDE = 1000;
  const HIGH = 40;
  const Strip = class {
    constructor(svg, seek) {
      this.paths = Object.fromEntries(
        [...svg.querySelectorAll("path")].map((path) => [path.id, path]),
      );
      this.now = svg.querySelector("rect");
      this.svg = svg;
      this.end = 0;
      const at = (event) => {
        const box = svg.getBoundingClientRect();
        seek(Math.min(1, Math.max(0, (event.clientX - box.left) / box.width)) * this.end);
      };
      svg.addEventListener("pointerdown", (event) => {
        svg.setPointerCapture(event.pointerId);
        at(event);
      });
      svg.addEventListener("pointermove", (event) => { if (event.buttons & 1) at(event); });
      svg.addEventListener("keydown", (event) => {
        const now = Number(svg.getAttribute("aria-valuenow"));
        const to = {
          ArrowLeft: now - this.end / 100,
          ArrowRight: now + this.end / 100,
          Home: 0,
          End: this.end,
        }[event.key];
        if (to === undefined) return;
        event.preventDefault();
        event.stopPropagation();
        seek(Math.min(this.end, Math.max(0, to)));
      });
    }

    place(at) { return this.end ? Math.min(WIDE - 1, Math.floor((at / this.end) * WIDE)) : 0; }

    // `times` are the [path, seconds] pairs of all messages and findings.
    draw(times, end) {
      this.end = end;
      this.svg.setAttribute("aria-valuemax", end.toFixed(3));
      const counts = {};
      for (const [name, at] of times) {
        counts[name] ??= new Uint32Array(WIDE);
        counts[name][this.place(at)] += 1;
      }
      const most = Math.max(1, ...["client", "server"].flatMap((name) => [...(counts[name] ?? [])]));
      for (const [name, path] of Object.entries(this.paths)) {
        const lines = [];
        counts[name]?.forEach((count, x) => {
          if (!count) return;
          const size = name === "finding" ? HIGH : 3 + (HIGH / 2 - 4) * (Math.log1p(count) / Math.log1p(most));
          const up = name === "client" ? -size : size;
          lines.push(name === "finding" ? `M${x + 0.5} 0v${HIGH}` : `M${x + 0.5} ${HIGH / 2}v${up.toFixed(1)}`);
        });
        path.setAttribute("d", lines.join(""));
      }
    }

    mark(from, to) {
      const x = this.place(from);
      this.now.setAttribute("x", x);
      this.now.setAttribute("width", Math.max(3, this.place(to) - x));
      this.svg.setAttribute("aria-valuenow", from.toFixed(3));
      this.svg.setAttribute("aria-valuetext", `${from.toFixed(3)} seconds`);
    }
  };

  return { List, Strip, button, long, made, spelled, tree };
})();
