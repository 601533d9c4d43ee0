"use strict";
// Decodes a message by the models of an edition: the type of each value, and its oddities.
const reading = (() => {
  const knows = (editions, edition) =>
    !editions || (editions[0] <= edition && edition <= editions[1]);
  const isObject = (raw) => raw !== null && typeof raw === "object" && !Array.isArray(raw);
  const IS = {
    string: (raw) => typeof raw === "string",
    integer: (raw) => Number.isInteger(raw),
    number: (raw) => typeof raw === "number",
    boolean: (raw) => typeof raw === "boolean",
  };
  const kindOf = (raw) => {
    if (raw === null) return "null";
    if (Array.isArray(raw)) return "list";
    return typeof raw === "number" && Number.isInteger(raw) ? "integer" : typeof raw;
  };

  // A node is {raw, type, odd, entries}; entries are [key, node] pairs, or null for a leaf.
  const plain = (raw) => ({
    raw,
    type: kindOf(raw),
    odd: [],
    entries: raw !== null && typeof raw === "object"
      ? Object.entries(raw).map(([key, value]) => [key, plain(value)])
      : null,
  });
  const wrong = (raw, type) => ({ ...plain(raw), odd: [`wrong type: expected ${type}`] });
  const missing = (type) => ({ raw: undefined, type, odd: ["missing"], entries: null });

  const named = (shape) => {
    const [kind, inner] = shape;
    if (kind === "is") return shape.slice(1).join(" or ");
    if (kind === "list") return `list of ${named(inner)}`;
    if (kind === "or null") return named(inner);
    if (kind === "model") return inner;
    return { any: "any", object: "object", "one of": "string", tagged: "object" }[kind];
  };

  const Reader = class {
    constructor(table, edition) {
      this.models = table.models;
      this.edition = edition;
    }

    read(shape, raw) {
      const [kind, inner] = shape;
      if (kind === "or null") return raw === null ? plain(raw) : this.read(inner, raw);
      if (kind === "model") return this.model(inner, raw, []);
      if (kind === "tagged") return this.tagged(inner, raw);
      if (kind === "one of") return this.choice(inner, raw);
      if (kind === "list") return this.list(shape, raw);
      if (kind === "object") return isObject(raw) ? plain(raw) : wrong(raw, "object");
      const fits = kind === "any" || shape.slice(1).some((name) => IS[name](raw));
      return fits ? plain(raw) : wrong(raw, named(shape));
    }

    choice(values, raw) {
      if (typeof raw !== "string") return wrong(raw, "string");
      const node = plain(raw);
      if (!Object.hasOwn(values, raw)) node.odd.push("unknown value");
      else if (!knows(values[raw], this.edition)) node.odd.push("not in this edition");
      return node;
    }

    list(shape, raw) {
      if (!Array.isArray(raw)) return wrong(raw, named(shape));
      const entries = raw.map((value, place) => [String(place), this.read(shape[1], value)]);
      return { raw, type: named(shape), odd: [], entries };
    }

    tagged(members, raw) {
      if (!isObject(raw)) return wrong(raw, "object");
      const tag = raw.type ?? null;
      if (typeof tag === "string" && Object.hasOwn(members, tag)) {
        const foreign = !knows(this.models[members[tag]].in, this.edition);
        return this.model(members[tag], raw, foreign ? ["not in this edition"] : []);
      }
      const node = plain(raw);
      const odd = tag === null || typeof tag === "string"
        ? `unknown type: expected ${Object.keys(members).join(", ")}`
        : "wrong type: expected string";
      const known = node.entries.find(([key]) => key === "type");
      if (known) known[1].odd.push(odd);
      else node.entries.unshift(["type", { ...missing("string"), odd: [odd] }]);
      return node;
    }

    model(name, raw, oddType) {
      if (!isObject(raw)) return wrong(raw, name);
      const model = this.models[name];
      const entries = Object.entries(raw).map(([key, value]) => [
        key,
        Object.hasOwn(model.fields, key)
          ? this.field(model.fields[key], value)
          : { ...plain(value), odd: model.open ? [] : ["unknown key"] },
      ]);
      for (const [key, field] of Object.entries(model.fields)) {
        if (!Object.hasOwn(raw, key) && field.needed.includes(this.edition)) {
          entries.push([key, missing(named(field.shape))]);
        }
      }
      entries.find(([key]) => key === "type")?.[1].odd.push(...oddType);
      return { raw, type: name, odd: [], entries };
    }

    field(field, raw) {
      const ruled = field.ruling ? ` (${field.ruling})` : "";
      const forgiven = raw === null && field.null;
      const node = forgiven ? plain(raw) : this.read(field.shape, raw);
      if (forgiven && field.null === "odd") node.odd.push(`null${ruled}`);
      if (!knows(field.in, this.edition)) node.odd.push(`not in this edition${ruled}`);
      return node;
    }
  };

  // The whole message: `method` is its own, or that of the request it answers.
  const message = (shapes, editionName, method, raw) => {
    const edition = shapes.editions.indexOf(editionName);
    const isDraft = edition === 0 && Object.hasOwn(shapes.draft.methods, method);
    const table = isDraft ? shapes.draft : shapes.since;
    const node = plain(raw);
    const row = Object.hasOwn(table.methods, method) ? table.methods[method] : null;
    const reader = new Reader(table, edition);
    for (const entry of node.entries) {
      const [key] = entry;
      if (key === "method" && !row) entry[1].odd.push("unknown method");
      else if (key === "method" && !knows(row.in, edition)) entry[1].odd.push("not in this edition");
      else if (row && (key === "params" || key === "result")) {
        entry[1] = part(reader, row[key], raw[key]);
      }
    }
    return node;
  };

  const part = (reader, shape, raw) => {
    const isEmpty = raw === null || (Array.isArray(raw) && !raw.length);
    if (shape && isEmpty) return { ...reader.read(shape, {}), raw, odd: [kindOf(raw)] };
    if (shape) return reader.read(shape, raw);
    const isNothing = isEmpty || (isObject(raw) && !Object.keys(raw).length);
    return isNothing ? plain(raw) : wrong(raw, "null");
  };

  // The paths of a node's oddities, with their texts.
  const oddities = (node, path = "") => [
    ...node.odd.map((odd) => [path, odd]),
    ...(node.entries ?? []).flatMap(([key, inner]) => oddities(inner, path ? `${path}/${key}` : key)),
  ];

  return { message, oddities };
})();
