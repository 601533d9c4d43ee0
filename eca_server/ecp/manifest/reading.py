"""Reading and checking of a manifest file, before anything is started.

All errors are reported at once. Warnings name allowed content that is probably a mistake: a step
without checks, a key without effect on its grader.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

import attrs
import yaml

from eca_server.config.problems import Problem
from eca_server.ecp.manifest.document import MAX_SIZE, Document, Members, parse
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
        manifest = _Reader(document).manifest(root, hashlib.sha256(data).hexdigest())
    if document.problems or manifest is None:
        raise ManifestInvalid(sorted(document.problems, key=_position))
    return manifest


def _position(problem: Problem) -> tuple[int, int]:
    return problem.line or 0, problem.column or 0


class _Reader:
    def __init__(self, document: Document) -> None:
        self._document = document
        self._installed: Collection[str] | None = None

    def manifest(self, root: yaml.Node, digest: str) -> Manifest | None:
        document = self._document
        members = document.read_mapping(root, None, _ROOT_KEYS)
        if members is None:
            return None
        members.require("manifest_version", "name", "target", "scenarios")
        members.choice("manifest_version", ("v1",))
        name = members.text("name", empty=False) or ""
        target = members.text("target", empty=False) or ""
        place = members.mark("target") if target else None
        required = False
        if "require_capabilities" in members.nodes:
            node = members.nodes["require_capabilities"][1]
            required = document.read_boolean(node, "require_capabilities") or False
        items = list(members.items("scenarios"))
        scenarios = [self._scenario(*item) for item in items]
        self._warn_about_names([node for node, _ in items], scenarios)
        if not items and not document.problems:
            message = "there are no scenarios: nothing is checked"
            document.add_warning(members.mark("scenarios"), "scenarios", message)
        return Manifest(
            path=document.path,
            digest=digest,
            name=name,
            target=target,
            target_line=None if place is None else place.line + 1,
            target_column=None if place is None else place.column + 1,
            require_capabilities=required,
            scenarios=tuple(scenarios),
            warnings=tuple(document.warnings),
        )

    def _warn_about_names(self, nodes: list[yaml.Node], scenarios: list[Scenario]) -> None:
        names: set[str] = set()
        for node, scenario in zip(nodes, scenarios, strict=True):
            if scenario.name and scenario.name in names:
                self._document.add_warning(
                    node.start_mark, "name", f"several scenarios are called {scenario.name!r}"
                )
            names.add(scenario.name)

    def _scenario(self, node: yaml.Node, key: str) -> Scenario:
        document = self._document
        members = document.read_mapping(node, key, ("name", "steps", "dataset"))
        if members is None:
            return Scenario(name="")
        members.require("name")
        name = members.text("name", empty=False) or ""
        steps = [self._step(*item) for item in members.items("steps")]
        dataset = None
        if members.is_set("dataset"):
            dataset = self._dataset(members)
            if steps:
                message = "expected steps or a dataset, got both"
                document.add_error(members.mark("dataset"), f"{key}.dataset", message)
        elif not steps:
            document.add_error(node.start_mark, key, "expected steps or a dataset, got neither")
        return Scenario(name=name, steps=tuple(steps), dataset=dataset)

    def _dataset(self, scenario: Members) -> Dataset | None:
        known = ("type", "source", "input_column", "output_column")
        node, mark = scenario.nodes["dataset"][1], scenario.mark("dataset")
        members = self._document.read_mapping(node, scenario.path("dataset"), known)
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
        return Dataset(
            type="csv" if kind == "csv" else "jsonl",
            source=source,
            line=mark.line + 1,
            column=mark.column + 1,
            **columns,
        )

    def _step(self, node: yaml.Node, key: str) -> Step:
        document = self._document
        members = document.read_mapping(node, key, ("input", "constraints", "graders"))
        if members is None:
            return Step(input="")
        members.require("input")
        text = members.text("input") or ""
        constraints: Mapping[str, Any] = {}
        if members.is_set("constraints"):
            value = members.nodes["constraints"][1]
            read = document.read_json(value, f"{key}.constraints")
            if isinstance(read, dict):
                constraints = read
            else:
                document.add_error(value.start_mark, f"{key}.constraints", "expected a mapping")
        graders = [self._grader(*item) for item in members.items("graders")]
        if not graders:
            document.add_warning(node.start_mark, key, "a step without graders checks nothing")
        return Step(input=text, constraints=constraints, graders=tuple(graders))

    def _grader(self, node: yaml.Node, key: str) -> Grader:
        members = self._document.read_mapping(node, key, _GRADER_KEYS)
        if members is None or not members.require("type"):
            return Grader(type="")
        kinds = (*BUILT_IN, *self._installed_types(members.nodes["type"][1]))
        kind = members.choice("type", kinds, _INSTALL_GRADER)
        fields: dict[str, Any] = {"type": kind or ""}
        for name, (_, value) in members.nodes.items():
            if name != "type" and name in _GRADER_KEYS and members.is_set(name):
                read = self._grader_value(value, f"{key}.{name}", name)
                if read is not None and name != "assertion":
                    fields[name] = read
        if fields.get("max_calls") == 0:
            fields.setdefault("min_calls", 0)
        grader = Grader(**fields)
        if kind is not None:
            self._check_grader(members, key, grader)
        return grader

    def _grader_value(self, node: yaml.Node, key: str, name: str) -> Any:
        document = self._document
        if name in _CHOICES:
            return document.read_choice(node, key, _CHOICES[name])
        if name in {"min_calls", "max_calls"}:
            return document.read_count(node, key)
        if name not in {"arguments", "options"}:
            return document.read_text(node, key)
        if isinstance(node, yaml.MappingNode):
            return document.read_json(node, key)
        document.read_mapping(node, key, None)
        return None

    def _check_grader(self, members: Members, key: str, grader: Grader) -> None:
        document, node = self._document, members.node
        needed: tuple[str, ...] = ()
        if grader.type == "text_match":
            needed = ("condition", "pattern" if grader.condition == "regex" else "value")
        elif grader.type == "llm_judge":
            needed = ("prompt",)
        for name in needed:
            if not members.is_set(name):
                document.add_error(node.start_mark, f"{key}.{name}", _NEEDED[name])
        if grader.pattern is not None:
            self._check_pattern(members.nodes["pattern"][1], f"{key}.pattern", grader.pattern)
        if grader.type == "llm_judge" and grader.prompt is not None and not grader.prompt.strip():
            document.add_error(node.start_mark, f"{key}.prompt", _NEEDED["prompt"])
        if grader.max_calls is not None and grader.max_calls < grader.min_calls:
            document.add_error(node.start_mark, f"{key}.max_calls", "expected at least min_calls")
        unused = members.nodes.keys() - {"type", *BUILT_IN.get(grader.type, members.nodes)}
        for name in sorted(unused & set(_GRADER_KEYS)):
            document.add_warning(members.mark(name), f"{key}.{name}", f"no effect on {grader.type}")
        if (
            grader.type == "tool_usage"
            and not {"tool_name", "arguments", "max_calls"} & members.nodes.keys()
        ):
            document.add_warning(node.start_mark, key, "this check passes for any call of any tool")

    def _check_pattern(self, node: yaml.Node, key: str, pattern: str) -> None:
        if not pattern:
            self._document.add_error(node.start_mark, key, _NEEDED["pattern"])
            return
        problem = pattern_problem(pattern)
        if problem is not None:
            self._document.add_error(node.start_mark, key, problem)

    def _installed_types(self, node: yaml.Node) -> tuple[str, ...]:
        """Return the types of installed graders; skip the search for a built-in type."""
        if isinstance(node, yaml.ScalarNode) and node.value in BUILT_IN:
            return ()
        if self._installed is None:
            from importlib.metadata import entry_points  # noqa: PLC0415 - slow, and rarely needed

            self._installed = [entry.name for entry in entry_points(group=GRADER_GROUP)]
        return tuple(self._installed)


_NEEDED: Final = {
    "condition": f"expected one of {', '.join(CONDITIONS)}, got none",
    "value": "expected the text to compare with, got none",
    "pattern": "expected a non-empty regular expression, got none",
    "prompt": "expected the judge's criteria, got none",
}
