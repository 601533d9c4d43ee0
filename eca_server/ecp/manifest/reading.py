"""Reading and checking of a manifest file, before anything is started.

All errors are reported at once. Warnings name allowed content that is probably a mistake: a step
without checks, a key without effect on its grader.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final, Literal

import attrs
import yaml

from eca_server.config.problems import Problem
from eca_server.ecp.manifest.document import MAX_SIZE, Members, Place, parse
from eca_server.ecp.manifest.model import (
    CONDITIONS,
    FIELDS,
    Dataset,
    Grader,
    Manifest,
    ManifestInvalid,
    Scenario,
    Step,
)
from eca_server.ecp.manifest.patterns import pattern_problem

GRADER_GROUP: Final = "ecp.graders"
"""The entry-point group of installed graders."""

_INSTALL_GRADER: Final = (
    f"; a grader of your own is in an installed package, as an entry point of {GRADER_GROUP}"
)

BUILT_IN: Final[Mapping[str, tuple[str, ...]]] = {
    "text_match": ("field", "condition", "value", "pattern"),
    "llm_judge": ("field", "prompt"),
    "tool_usage": ("tool_name", "arguments", "nested", "min_calls", "max_calls"),
}
"""The built-in graders, with the keys that have an effect on each."""
_GRADER_KEYS: Final = (*(field.name for field in attrs.fields(Grader)), "assertion")
_ROOT_KEYS: Final = ("manifest_version", "name", "target", "require_capabilities", "scenarios")

_CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "field": FIELDS,
    "condition": CONDITIONS,
    "nested": ("exact", "subset"),
}


def load_manifest(path: Path) -> Manifest:
    """Read the manifest at `path`.

    Raises:
        OSError: the file cannot be read.
        ManifestInvalid: the file is not a valid manifest; the text has a line for each problem.
    """
    with path.open("rb") as file:
        data = file.read(MAX_SIZE + 1)
    return read_manifest(data, path)


def read_manifest(data: bytes, path: Path) -> Manifest:
    """Read a manifest from the bytes of the file `path`.

    Raises:
        ManifestInvalid: the bytes are not a valid manifest; the text has a line for each problem.
    """
    document, root = parse(data, path)
    manifest = None
    if root is not None:
        manifest = _Reader().manifest(root, hashlib.sha256(data).hexdigest())
    if document.problems or manifest is None:
        raise ManifestInvalid(sorted(document.problems, key=_position))
    return manifest


def _position(problem: Problem) -> tuple[int, int]:
    return problem.line or 0, problem.column or 0


class _Reader:
    def __init__(self) -> None:
        self._installed: Collection[str] | None = None

    def manifest(self, root: Place, digest: str) -> Manifest | None:
        document = root.document
        members = root.mapping(_ROOT_KEYS)
        if members is None:
            return None
        members.require("manifest_version", "name", "target", "scenarios")
        members.choice("manifest_version", ("v1",))
        name = members.text("name", empty=False) or ""
        target = members.text("target", empty=False) or ""
        required = members.values.get("require_capabilities")
        items = members.items("scenarios")
        scenarios = [self._scenario(item) for item in items]
        _warn_about_names(items, scenarios)
        if not items and not document.problems:
            message = "there are no scenarios: nothing is checked"
            members.names["scenarios"].add_warning(message)
        return Manifest(
            path=document.path,
            digest=digest,
            name=name,
            target=target,
            target_position=members.names["target"].position if target else (None, None),
            require_capabilities=required is not None and (required.boolean() or False),
            scenarios=tuple(scenarios),
            warnings=tuple(document.warnings),
        )

    def _scenario(self, place: Place) -> Scenario:
        members = place.mapping(("name", "steps", "dataset"))
        if members is None:
            return Scenario(name="")
        members.require("name")
        name = members.text("name", empty=False) or ""
        steps = [self._step(item) for item in members.items("steps")]
        dataset = None
        if members.is_set("dataset"):
            dataset = _dataset(members)
            if steps:
                members.names["dataset"].add_error("expected steps or a dataset, got both")
        elif not steps:
            place.add_error("expected steps or a dataset, got neither")
        return Scenario(name=name, steps=tuple(steps), dataset=dataset)

    def _step(self, place: Place) -> Step:
        members = place.mapping(("input", "constraints", "graders"))
        if members is None:
            return Step(input="")
        members.require("input")
        text = members.text("input") or ""
        constraints: Mapping[str, Any] = {}
        if members.is_set("constraints"):
            read = members.values["constraints"].json()
            if isinstance(read, dict):
                constraints = read
            else:
                members.values["constraints"].add_error("expected a mapping")
        graders = [self._grader(item) for item in members.items("graders")]
        if not graders:
            place.add_warning("a step without graders checks nothing")
        return Step(input=text, constraints=constraints, graders=tuple(graders))

    def _grader(self, place: Place) -> Grader:
        members = place.mapping(_GRADER_KEYS)
        if members is None or not members.require("type"):
            return Grader(type="")
        kinds = (*BUILT_IN, *self._installed_types(members.values["type"].node))
        kind = members.values["type"].choice(kinds, _INSTALL_GRADER)
        fields: dict[str, Any] = {"type": kind or ""}
        for name, value in members.values.items():
            if name != "type" and name in _GRADER_KEYS and members.is_set(name):
                read = _grader_value(value, name)
                if read is not None and name != "assertion":
                    fields[name] = read
        if fields.get("max_calls") == 0:
            fields.setdefault("min_calls", 0)
        grader = Grader(**fields)
        if kind is not None:
            _check_grader(members, grader)
        return grader

    def _installed_types(self, node: yaml.Node) -> tuple[str, ...]:
        """Return the types of installed graders; skip the search for a built-in type."""
        if isinstance(node, yaml.ScalarNode) and node.value in BUILT_IN:
            return ()
        if self._installed is None:
            from importlib.metadata import entry_points  # noqa: PLC0415 - slow, and rarely needed

            self._installed = [entry.name for entry in entry_points(group=GRADER_GROUP)]
        return tuple(self._installed)


def _warn_about_names(places: list[Place], scenarios: list[Scenario]) -> None:
    names: set[str] = set()
    for place, scenario in zip(places, scenarios, strict=True):
        if scenario.name and scenario.name in names:
            message = f"several scenarios are called {scenario.name!r}"
            attrs.evolve(place, key="name").add_warning(message)
        names.add(scenario.name)


def _dataset(scenario: Members) -> Dataset | None:
    known = ("type", "source", "input_column", "output_column")
    members = scenario.values["dataset"].mapping(known)
    if members is None:
        return None
    members.require("type", "source")
    kind = members.choice("type", ("csv", "jsonl"))
    source = members.text("source", empty=False)
    columns = {
        column: text
        for column in ("input_column", "output_column")
        if (text := members.text(column, empty=False)) is not None
    }
    if kind is None or source is None:
        return None
    position = scenario.names["dataset"].position
    type_: Literal["csv", "jsonl"] = "csv" if kind == "csv" else "jsonl"
    return Dataset(type=type_, source=source, position=position, **columns)


def _grader_value(place: Place, name: str) -> Any:
    if name in _CHOICES:
        return place.choice(_CHOICES[name])
    if name in {"min_calls", "max_calls"}:
        return place.count()
    if name not in {"arguments", "options"}:
        return place.text()
    if isinstance(place.node, yaml.MappingNode):
        return place.json()
    place.mapping(None)  # adds the error
    return None


def _check_grader(members: Members, grader: Grader) -> None:
    place = members.place
    needed: tuple[str, ...] = ()
    if grader.type == "text_match":
        needed = ("condition", "pattern" if grader.condition == "regex" else "value")
    elif grader.type == "llm_judge":
        needed = ("prompt",)
    for name in needed:
        if not members.is_set(name):
            place.below(name).add_error(_NEEDED[name])
    if grader.pattern is not None:
        problem = pattern_problem(grader.pattern) if grader.pattern else _NEEDED["pattern"]
        if problem is not None:
            members.values["pattern"].add_error(problem)
    if grader.type == "llm_judge" and grader.prompt is not None and not grader.prompt.strip():
        place.below("prompt").add_error(_NEEDED["prompt"])
    if grader.max_calls is not None and grader.max_calls < grader.min_calls:
        place.below("max_calls").add_error("expected at least min_calls")
    unused = members.names.keys() - {"type", *BUILT_IN.get(grader.type, members.names)}
    for name in sorted(unused & set(_GRADER_KEYS)):
        members.names[name].add_warning(f"no effect on {grader.type}")
    if grader.type == "tool_usage" and not (
        {"tool_name", "arguments", "max_calls"} & members.names.keys()
    ):
        place.add_warning("this check passes for any call of any tool")


_NEEDED: Final = {
    "condition": f"expected one of {', '.join(CONDITIONS)}, got none",
    "value": "expected the text to compare with, got none",
    "pattern": "expected a non-empty regular expression, got none",
    "prompt": "expected the judge's criteria, got none",
}
