"""The YAML of manifests: a tree with positions and limits, and strict types.

Several documents, duplicate keys, merge keys, tags of other types, and too large, too deep or
alias-expanded documents are errors. Where text is expected, YAML 1.1 may read `yes`, `012` or a
date as a different type: the message names that type, and asks for quotes.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import attrs
import yaml

from eca_server.config.problems import Problem

MAX_SIZE: Final = 2**20
MAX_DEPTH: Final = 64
MAX_NODES: Final = 100_000

_FastLoader: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_STANDARD: Final = "tag:yaml.org,2002:"
_KINDS: Final = {
    "bool": "a boolean",
    "int": "a number",
    "float": "a number",
    "null": "null",
    "timestamp": "a date",
    "map": "a mapping",
    "seq": "a list",
    "binary": "binary data",
    "merge": "a merge key",
    "value": "a default key",
}
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


@attrs.define
class Document:
    """A parsed file with its problems."""

    path: Path
    problems: list[Problem] = attrs.field(factory=list)
    warnings: list[Problem] = attrs.field(factory=list)
    constructor: Any = attrs.field(factory=lambda: yaml.SafeLoader(""), init=False)

    def add_error(self, mark: Any, key: str | None, message: str) -> None:
        """Add an error at the position of `mark`."""
        self.problems.append(self._problem(mark, key, message))

    def add_warning(self, mark: Any, key: str | None, message: str) -> None:
        """Add a warning at the position of `mark`."""
        self.warnings.append(attrs.evolve(self._problem(mark, key, message), level="warning"))

    def _problem(self, mark: Any, key: str | None, message: str) -> Problem:
        line = None if mark is None else mark.line + 1
        column = None if mark is None else mark.column + 1
        return Problem(source=str(self.path), line=line, column=column, key=key, message=message)


@attrs.frozen
class Place:
    """A value of a document, or the name of a member, and its key.

    Each reader returns the value, or None after adding a problem.
    """

    document: Document
    node: yaml.Node
    key: str | None = None

    @property
    def position(self) -> tuple[int, int]:
        """The line and the column, counted from 1, in characters."""
        return self.node.start_mark.line + 1, self.node.start_mark.column + 1

    def below(self, name: str, node: yaml.Node | None = None) -> Place:
        """Return the place of a member; without a node, as if the member were missing."""
        key = name if self.key is None else f"{self.key}.{name}"
        return Place(self.document, node or self.node, key)

    def add_error(self, message: str) -> None:
        """Add an error at this place."""
        self.document.add_error(self.node.start_mark, self.key, message)

    def add_warning(self, message: str) -> None:
        """Add a warning at this place."""
        self.document.add_warning(self.node.start_mark, self.key, message)

    def mapping(self, known: tuple[str, ...] | None) -> Members | None:
        """Return the members; `known` None allows any name."""
        if not isinstance(self.node, yaml.MappingNode) or _kind(self.node) != "map":
            self.add_error(f"expected a mapping, got {_describe(self.node)}")
            return None
        names: dict[str, Place] = {}
        values: dict[str, Place] = {}
        for name_node, value in self.node.value:
            name = self.below("a key", name_node).text()
            if name is None:
                continue
            place = self.below(name, name_node)
            if name in names:
                first, _ = names[name].position
                place.add_error(f"duplicate key; the first is in line {first}")
            elif known is not None and name not in known:
                near = _nearest(name, known) or f"; expected one of {', '.join(known)}"
                place.add_error(f"unknown key{near}")
            names.setdefault(name, place)
            values.setdefault(name, self.below(name, value))
        return Members(self, names, values)

    def items(self) -> list[Place]:
        """Return the items of a list."""
        if not isinstance(self.node, yaml.SequenceNode) or _kind(self.node) != "seq":
            self.add_error(f"expected a list, got {_describe(self.node)}")
            return []
        return list(self._items())

    def _items(self) -> Iterator[Place]:
        for index, item in enumerate(self.node.value):
            yield Place(self.document, item, f"{self.key}[{index}]")

    def text(self, *, empty: bool = True) -> str | None:
        """Return text; other types are not converted."""
        node = self.node
        if _kind(node) != "str":
            hint = f'; write "{node.value}" in quotes' if isinstance(node, yaml.ScalarNode) else ""
            self.add_error(f"expected text, got {_describe(node)}{hint}")
            return None
        text = _join_surrogates(node.value)
        if _SURROGATE.search(text):
            self.add_error("expected text, got half a surrogate pair")
            return None
        if not text and not empty:
            self.add_error("expected a non-empty text")
            return None
        return text

    def choice(self, allowed: tuple[str, ...], advice: str = "") -> str | None:
        """Return one of the allowed words; `advice` is for a word that is similar to none."""
        text = self.text()
        if text is None or text in allowed:
            return text
        more = _nearest(text, allowed) or (advice if text else "")
        self.add_error(f"expected one of {', '.join(allowed)}, got {text[:60]!r}{more}")
        return None

    def boolean(self) -> bool | None:
        """Return `true` or `false`."""
        if _kind(self.node) == "bool" and self.node.value in {"true", "false"}:
            return bool(self.node.value == "true")
        self.add_error(f"expected true or false, got {_describe(self.node)}")
        return None

    def count(self) -> int | None:
        """Return an integer from 0 on, in decimal digits."""
        if _kind(self.node) == "int" and re.fullmatch(r"0|[1-9][0-9]{0,8}", self.node.value):
            return int(self.node.value)
        self.add_error(f"expected a number from 0 on, got {_describe(self.node)}")
        return None

    def json(self) -> Any:
        """Return a JSON value: no dates, no infinite numbers, and only text as keys."""
        if isinstance(self.node, yaml.MappingNode):
            members = self.mapping(None)
            values = {} if members is None else members.values
            return {name: value.json() for name, value in values.items()}
        if isinstance(self.node, yaml.SequenceNode):
            return [item.json() for item in self._items()]
        kind = _kind(self.node)
        if kind == "str":
            return self.text()
        if kind in {"null", "bool", "int", "float"}:
            try:
                value = self.document.constructor.construct_object(self.node)
            except ValueError:
                value = math.nan
            if not isinstance(value, float) or math.isfinite(value):
                return value
        self.add_error(f"expected a JSON value, got {_describe(self.node)}; quote it as text")
        return None


@attrs.frozen
class Members:
    """The members of a mapping: the places of names and values; an absent one is read as None."""

    place: Place
    names: Mapping[str, Place]
    values: Mapping[str, Place]

    def require(self, *names: str) -> bool:
        """Add an error for each absent member; return True if there is none."""
        missing = [name for name in names if name not in self.names]
        for name in missing:
            self.place.below(name).add_error("this key is missing")
        return not missing

    def is_set(self, name: str) -> bool:
        """Return True if a member is present and not null."""
        return name in self.values and not str(self.values[name].node.tag).endswith(":null")

    def text(self, name: str, *, empty: bool = True) -> str | None:
        """Return the text of a member."""
        return self.values[name].text(empty=empty) if name in self.values else None

    def choice(self, name: str, allowed: tuple[str, ...]) -> str | None:
        """Return one of the allowed words."""
        return self.values[name].choice(allowed) if name in self.values else None

    def items(self, name: str) -> list[Place]:
        """Return the items of a list."""
        return self.values[name].items() if name in self.values else []


def parse(data: bytes, path: Path) -> tuple[Document, Place | None]:
    """Parse a document; the root is None, with an error, for invalid YAML or beyond the limits."""
    document = Document(path)
    text = _decode(document, data)
    if text is None:
        return document, None
    root = None
    try:
        try:
            root = _compose(document, text, _FastLoader)
        except yaml.YAMLError as fault:
            if "Unicode character escape" not in str(fault):
                raise
            # The C loader rejects escaped surrogate pairs, which are valid in JSON.
            root = _compose(document, text, yaml.SafeLoader)
    except yaml.MarkedYAMLError as fault:
        mark = fault.problem_mark or fault.context_mark
        is_tab = mark is not None and text[mark.index : mark.index + 1] == "\t"
        why = "expected spaces, got a tab" if is_tab else fault.problem or fault.context
        document.add_error(mark, None, f"not YAML: {why}")
    except yaml.YAMLError as fault:
        document.add_error(None, None, f"not YAML: {fault}")
    if root is None or document.problems:
        return document, None
    return document, Place(document, root)


def _compose(document: Document, text: str, loader: Any) -> yaml.Node | None:
    _check_bounds(document, text, loader)
    if document.problems:
        return None
    root = yaml.compose(text, Loader=loader)
    if root is None:
        document.add_error(None, None, "expected a mapping, got an empty file")
    elif _is_expanded(root):
        message = f"its aliases add more than {MAX_NODES} values"
        document.add_error(root.start_mark, None, message)
    return root


def _decode(document: Document, data: bytes) -> str | None:
    if len(data) > MAX_SIZE:
        document.add_error(None, None, f"expected at most {MAX_SIZE} bytes, got more")
        return None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        line = data.count(b"\n", 0, fault.start) + 1
        message = f"expected UTF-8, got the byte 0x{data[fault.start]:02x}"
        document.problems.append(Problem(source=str(document.path), line=line, message=message))
        return None


def _check_bounds(document: Document, text: str, loader: Any) -> None:
    depth = documents = 0
    for event in yaml.parse(text, Loader=loader):
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1:
                document.add_error(
                    event.start_mark, None, "expected one document, got a second one"
                )
                return
        elif isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                message = f"nested more than {MAX_DEPTH} deep"
                document.add_error(event.start_mark, None, message)
                return
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _is_expanded(root: yaml.Node) -> bool:
    """Return True if aliases add too many values, or form a loop.

    Without aliases the file's size is the limit.
    """
    sizes: dict[int, float] = {}
    entered: set[int] = set()
    stack: list[tuple[yaml.Node, bool]] = [(root, False)]
    while stack:
        node, done = stack.pop()
        if done:
            sizes[id(node)] = 1 + sum(sizes.get(id(child), math.inf) for child in _children(node))
            entered.discard(id(node))
        elif id(node) not in sizes and id(node) not in entered:
            entered.add(id(node))
            stack.append((node, True))
            stack.extend((child, False) for child in _children(node))
        elif id(node) in entered:
            return True
    return sizes[id(root)] > len(sizes) + MAX_NODES


def _children(node: yaml.Node) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield key
            yield value
    elif isinstance(node, yaml.SequenceNode):
        yield from node.value


def _kind(node: yaml.Node) -> str:
    return str(node.tag).removeprefix(_STANDARD)


def _describe(node: yaml.Node) -> str:
    kind = _kind(node)
    name = _KINDS.get(kind, "text" if kind == "str" else f"a value tagged {node.tag:.60}")
    if not isinstance(node, yaml.ScalarNode) or kind == "null":
        return name
    shown = node.value if len(node.value) <= 40 else f"{node.value[:40]}..."
    if kind == "bool":
        return f"a boolean in YAML, {shown}"
    return f"{name}, {shown}" if kind != "timestamp" else f"a date in YAML, {shown}"


def _nearest(name: str, known: tuple[str, ...]) -> str:
    near = difflib.get_close_matches(name.lower(), known, n=1)
    return f"; did you mean {near[0]}?" if near else ""


def _join_surrogates(text: str) -> str:
    """Replace escaped surrogate pairs by their characters."""
    if not _SURROGATE.search(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
