"use strict";
(() => {
  const { List, Strip, button, long, made, spelled, tree } = drawing;
  const { get, onKeys, onSearch, search } = page;
  // The positions in a row.
  const [AT, SIDE, KIND, WHAT, ID, CHAT, LANE, EARLIER, LATE, BRIEF, TEXT, LEFT_OUT, RAW, MASKED] =
    Array(14).keys();
  const MOST = 500_000; // rows that a page holds; the oldest are dropped,
  const SPARE = 50_000; // this many at once, since the list is rebuilt then
  const CHOICES = 500; // entries of a menu
  const HEIGHT = 24; // of a row, as in the style sheet
  const LATENCIES = {
    answer: ["", "answered after"],
    first: ["first", "first output of the model after"],
    turn: ["turn", "duration of the turn:"],
    stop: ["stopped", "stopped after"],
    approval: ["decided", "decided by the user after"],
    tool: ["ran", "duration of the tool:"],
  };

  let rows = [];
  let base = 0; // the number of the first row
  let shown = []; // the numbers of the rows that pass the filters
  let found = new Map(); // the findings of a row
  let later = new Map(); // the first row whose latency is measured from a row
  let chosen = -1; // the number of the row that is selected
  let findings = 0;
  let tail = false;
  const head = { name: "", started: "", command: "", edition: "", shapes: null };
  const requirements = {};
  const menus = { what: new Map(), chat: new Map() };

  const row = (number) => rows[number - base];
  const seconds = (at) => at.toFixed(3);
  const taken = (time) => {
    if (time < 1) return `${(time * 1000).toFixed(time < 0.01 ? 1 : 0)} ms`;
    return time < 100 ? `${time.toFixed(2)} s` : `${Math.round(time).toLocaleString("en")} s`;
  };
  const latency = (each) => {
    const earlier = each[EARLIER] === null ? undefined : row(each[EARLIER]);
    return earlier ? each[AT] - earlier[AT] : null;
  };
  const byRow = (number) => found.get(number) ?? [];
  const isBad = (finding) => requirements[finding[1]]?.[2] === "must";

  // Filters.
  const side = get("#side");
  const what = get("#what");
  const chat = get("#chat");
  const onlyFound = get("#found");
  let words = [];

  const passes = (each, number) =>
    (!side.value || each[SIDE] === side.value) &&
    (!what.value || each[WHAT] === what.value) &&
    (!chat.value || each[CHAT] === chat.value) &&
    (onlyFound.ariaPressed !== "true" || found.has(number)) &&
    words.every((word) => [each[TEXT], each[WHAT], ...byRow(number).map((finding) => finding[1])]
      .some((text) => text.toLowerCase().includes(word)));

  const filter = () => {
    words = page.words();
    shown = [];
    rows.forEach((each, index) => { if (passes(each, base + index)) shown.push(base + index); });
    list.resize(shown.length);
    const place = placeOf(chosen);
    if (shown[place] === chosen) list.reveal(place, "center");
    showCount();
  };

  const showCount = () => {
    const all = rows.length.toLocaleString("en");
    get("#count").textContent = shown.length === rows.length
      ? `${all} messages`
      : `${shown.length.toLocaleString("en")} of ${all} messages`;
    onlyFound.textContent = `findings ${findings}`;
  };

  // Return the position in the list of the first row from that number on.
  const placeOf = (number) => {
    let [low, high] = [0, shown.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (shown[middle] < number) low = middle + 1;
      else high = middle;
    }
    return low;
  };

  // Rows.
  const emptyRow = () => {
    const element = made("div", "row", ...["no", "at", "arrows", "what", "brief", "late", "marks"]
      .map((name) => made("span", name)));
    element.role = "option";
    element.children[2].append(made("b"), made("b"));
    element.addEventListener("click", () => choose(Number(element.dataset.number), true));
    return element;
  };

  const fill = (element, place) => {
    if (element === null) return emptyRow();
    const number = shown[place];
    const each = row(number);
    const [no, at, arrows, what, brief, late, marks] = element.children;
    element.id = `row-${number}`;
    element.dataset.number = number;
    element.className = `row ${each[SIDE] ?? "exit"} ${each[KIND]}`;
    element.ariaSelected = String(number === chosen);
    no.textContent = number;
    at.textContent = seconds(each[AT]);
    const lane = Math.abs(each[LANE]);
    const isArrow = each[SIDE] !== null && each[KIND] !== "end";
    arrows.firstChild.className = isArrow ? `wire ${each[SIDE] === "client" ? "right" : "left"}` : "";
    arrows.lastChild.className =
      isArrow && lane > 1 ? `far to${lane} ${each[LANE] < 0 ? "right" : "left"}` : "";
    what.replaceChildren(spelled((each[WHAT] || each[KIND]).replace("chat/contentReceived: ", "")));
    if (each[WHAT] && (each[KIND] === "answer" || each[KIND] === "error")) {
      what.prepend(made("small", "", each[KIND]), " ");
    }
    brief.replaceChildren(spelled(each[BRIEF]));
    const time = latency(each);
    late.textContent = time === null ? "" : `${LATENCIES[each[LATE]][0]} ${taken(time)}`;
    marks.replaceChildren(...byRow(number).slice(0, 2).map(badge));
    return element;
  };

  const badge = (finding) => made("span", `badge ${isBad(finding) ? "bad" : "odd"}`, finding[1]);

  const list = new List(get("#rows"), HEIGHT, fill);
  const strip = new Strip(get("#time"), (at) => {
    let [low, high] = [0, shown.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (row(shown[middle])[AT] < at) low = middle + 1;
      else high = middle;
    }
    setTail(false);
    list.reveal(Math.min(low, shown.length - 1), "start");
  });
  list.drawn = () => {
    if (list.last < 0) return;
    strip.mark(row(shown[Math.min(list.first, list.last)])[AT], row(shown[list.last])[AT]);
  };

  // The opened message.
  const opened = get("#opened");
  const choose = (number, opens) => {
    if (!row(number)) return;
    chosen = number;
    setTail(false);
    get("#rows").setAttribute("aria-activedescendant", `row-${number}`);
    const place = placeOf(number);
    if (shown[place] === number) list.reveal(place);
    list.later();
    if (opens || !opened.hidden) open(number);
  };
  const close = () => { opened.hidden = true; get("#rows").focus(); };

  const moment = (at) => {
    const date = new Date(Date.parse(head.started) + at * 1000);
    return Number.isNaN(date.getTime()) ? "" : `, ${date.toISOString()}`;
  };
  const link = (words, number) => button(`${words} ${number}`, () => choose(number, true));
  const section = (title, ...inside) => made("section", "", made("h2", "", title), ...inside);
  const facts = (values) => made("dl", "", ...Object.entries(values)
    .filter(([, value]) => value)
    .map(([name, value]) => made(
      "div", "", made("dt", "", name), made("dd", "", typeof value === "string" ? spelled(value) : value),
    )));

  const open = (number) => {
    const each = row(number);
    const between = each[SIDE] === "client" ? "editor \u2192 server" : "server \u2192 editor";
    const bytes = new TextEncoder().encode(each[TEXT]).length + each[LEFT_OUT];
    const time = latency(each);
    const before = time === null ? null : row(each[EARLIER]);
    const about = facts({
      Direction: each[SIDE] ? between : "the server's process",
      Kind: `${each[KIND]}${each[ID] ? ` ${each[ID]}` : ""}`,
      Chat: each[CHAT],
      Time: `${seconds(each[AT])} s${moment(each[AT])}`,
      Latency: before && made("span", "", `${LATENCIES[each[LATE]][1]} ${taken(time)}, since `, link("message", each[EARLIER])),
      "Followed by": later.has(number) && link("message", later.get(number)),
      Size: each[TEXT] && `${bytes.toLocaleString("en")} bytes`,
    });
    const title = made("h2", "", spelled(`${number} ${each[WHAT] || each[BRIEF]}`));
    opened.replaceChildren(made("div", "top", title, button("close", close)), about);
    if (byRow(number).length) opened.append(section("Findings", ...byRow(number).map(judged)));
    if (each[MASKED]) opened.append(made("p", "notes", "A secret was masked, so these are not the exact bytes."));
    if (each[LEFT_OUT]) opened.append(made("p", "notes", `${each[LEFT_OUT].toLocaleString("en")} more bytes are in the transcript.`));
    if (each[TEXT]) opened.append(...(each[LEFT_OUT] ? [] : decoded(each)), raw(each, bytes));
    opened.hidden = false;
    opened.scrollTop = 0;
    list.later();
  };

  const judged = (finding) => {
    const [requirement, place, level, binds] = requirements[finding[1]] ?? ["", "", "", ""];
    return made("div", "judged", badge(finding), " ", made("span", "faint", `${level}, ${binds}, ${place}`),
      made("p", "", spelled(requirement)),
      facts({ Expected: long(finding[2]), Got: long(finding[3]) }));
  };

  const decoded = (each) => {
    let message;
    try { message = JSON.parse(each[TEXT]); } catch { return []; }
    const method = each[WHAT].split(": ")[0];
    const node = reading.message(head.shapes, head.edition, method, message);
    return [section(`Decoded (${head.edition})`, ...node.entries.map(([key, inner]) => tree(key, inner, 1)))];
  };

  const raw = (each, bytes) => {
    const header = each[KIND] === "bytes" ? "" : `Content-Length: ${bytes}\r\n\r\n`;
    return section(each[RAW] === null ? "Raw" : "Raw, with a header that differs from W-1", long(each[RAW] ?? header + each[TEXT]));
  };

  // New parts.
  const intake = (part) => {
    for (const key of Object.keys(head)) if (key in part) head[key] = part[key];
    Object.assign(requirements, part.requirements);
    if (part.fault) {
      get("#fault").replaceChildren(spelled(part.fault));
      get("#fault").hidden = false;
    }
    if (part.rows?.length) {
      if (part.first !== base + rows.length) {
        [rows, shown, base] = [[], [], part.first]; // the server dropped the rows between
        forget();
        list.resize(0);
      }
      for (const each of part.rows) add(each);
    }
    for (const finding of part.findings ?? []) {
      const [number] = finding;
      if (!found.has(number)) found.set(number, []);
      found.get(number).push(finding);
      findings += 1;
    }
    if (part.findings?.length && onlyFound.ariaPressed === "true") filter();
    if (rows.length > MOST + SPARE) {
      base += rows.length - MOST;
      rows = rows.slice(-MOST);
      forget();
      filter();
    }
  };

  // Remove the data of dropped rows.
  const forget = () => {
    for (const number of later.keys()) if (number < base) later.delete(number);
    for (const [number, each] of found) {
      if (number < base) {
        found.delete(number);
        findings -= each.length;
      }
    }
  };

  const add = (each) => {
    const number = base + rows.length;
    rows.push(each);
    if (each[EARLIER] !== null && !later.has(each[EARLIER])) later.set(each[EARLIER], number);
    for (const [menu, value] of [["what", each[WHAT]], ["chat", each[CHAT]]]) {
      if (value) menus[menu].set(value, (menus[menu].get(value) ?? 0) + 1);
    }
    if (passes(each, number)) shown.push(number);
  };

  const refill = (select, counts) => {
    if (document.activeElement === select) return; // the menu is open
    const { value } = select;
    const names = [...counts.keys()].slice(0, CHOICES);
    if (select === what) names.sort();
    select.replaceChildren(select.options[0], ...names.map((name) => {
      const option = made("option", "", spelled(`${name} (${counts.get(name)})`).textContent);
      option.value = name;
      return option;
    }));
    select.value = value;
  };

  const average = (late) => {
    const times = rows.filter((each) => each[LATE] === late).map(latency).sort((a, b) => a - b);
    if (!times.length) return "";
    const [median, slowest] = [times[times.length >> 1], times.at(-1)].map(taken);
    return `median ${median}, slowest ${slowest}, of ${times.length.toLocaleString("en")}`;
  };

  const refresh = () => {
    get("#name").replaceChildren(spelled(head.name));
    get("#facts").replaceWith(Object.assign(facts({
      Command: head.command,
      Started: head.started,
      Edition: head.edition,
      Duration: rows.length ? taken(rows.at(-1)[AT]) : "",
      "Time to answer": average("answer"),
      "Time to first output": average("first"),
      "Time to stop": average("stop"),
    }), { id: "facts" }));
    refill(what, menus.what);
    refill(chat, menus.chat);
    list.resize(shown.length);
    if (tail) list.reveal(shown.length - 1);
    const times = rows.map((each) => [each[SIDE], each[AT]]);
    for (const number of found.keys()) if (row(number)) times.push(["finding", row(number)[AT]]);
    strip.draw(times, rows.at(-1)?.[AT] ?? 0);
    showCount();
  };

  let waiting = 0;
  const take = (part) => {
    intake(part);
    const pause = 50 + rows.length / 200; // milliseconds: many parts are drawn at once
    waiting ||= setTimeout(() => { waiting = 0; refresh(); }, pause);
  };

  const state = (words, kind) => {
    get("#state").textContent = words;
    get("#state").className = `badge ${kind}`;
  };

  const listen = async (token) => {
    try {
      state("following", "good");
      const answer = await fetch("/parts", { method: "POST", headers: { authorization: `Bearer ${token}` } });
      if (!answer.ok) throw new Error(await answer.text());
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        const lines = (rest + value).split("\n");
        rest = lines.pop();
        for (const line of lines) take(JSON.parse(line));
      }
      clearTimeout(waiting);
      refresh();
      state("ended", "");
    } catch (fault) {
      state(`lost the inspector: ${fault.message}`, "bad");
    }
  };

  // Keys and buttons.
  const setTail = (on) => {
    tail = on;
    get("#tail").ariaPressed = String(on);
    if (on) list.reveal(shown.length - 1);
  };
  const step = (by) => {
    const place = placeOf(chosen);
    const next = chosen < 0 ? list.first : place + (by > 0 && shown[place] !== chosen ? 0 : by);
    choose(shown[Math.min(Math.max(next, 0), shown.length - 1)]);
  };
  const stepFound = (by) => {
    const numbers = [...found.keys()].filter((number) => shown[placeOf(number)] === number).sort((a, b) => a - b);
    const next = by > 0 ? numbers.find((number) => number > chosen) : numbers.findLast((number) => number < chosen);
    if (next !== undefined) choose(next, true);
  };
  const related = () => {
    const earlier = row(chosen)?.[EARLIER];
    const other = earlier ?? later.get(chosen);
    if (other !== undefined) choose(other);
  };
  const showFound = () => {
    onlyFound.ariaPressed = String(onlyFound.ariaPressed !== "true");
    filter();
  };
  const pageful = () => Math.max(1, list.last - list.first - 1);
  onKeys({
    ArrowDown: () => step(1),
    ArrowUp: () => step(-1),
    End: () => choose(shown.at(-1)),
    Enter: () => { if (chosen >= 0) open(chosen); },
    Escape: close,
    Home: () => choose(shown[0]),
    PageDown: () => step(pageful()),
    PageUp: () => step(-pageful()),
    f: showFound,
    j: () => step(1),
    k: () => step(-1),
    l: () => setTail(!tail),
    n: () => stepFound(1),
    p: () => stepFound(-1),
    r: related,
  }, (event) =>
    (event.key === "Enter" && event.target.matches("button, summary")) ||
    (opened.contains(event.target) && /^(Arrow|Page|Home|End)/.test(event.key)));
  onSearch(filter);
  for (const select of [side, what, chat]) select.addEventListener("change", filter);
  onlyFound.addEventListener("click", showFound);
  get("#tail").addEventListener("click", () => setTail(!tail));
  get("#rows").addEventListener("wheel", (event) => { if (event.deltaY < 0) setTail(false); }, { passive: true });

  const visit = () => {
    const [number] = location.hash.match(/(?<=^#)\d+$/) ?? [];
    if (number) choose(Number(number), true);
  };
  addEventListener("hashchange", visit);
  const data = get("#data");
  if (data) {
    for (const part of JSON.parse(data.textContent)) intake(part);
    data.remove();
    get("#tail").hidden = true;
    refresh();
    visit();
  } else {
    const token = location.hash.slice(1) || sessionStorage.getItem("token");
    sessionStorage.setItem("token", token);
    history.replaceState(null, "", location.pathname); // hides it from bookmarks and screenshots
    setTail(true);
    listen(token);
  }
  get("#rows").focus();
})();
