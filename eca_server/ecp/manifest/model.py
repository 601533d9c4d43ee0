"""A manifest as it is run: which agent is evaluated, what is said to it, and what is checked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import attrs

from eca_server.config.problems import Problem

__all__ = [
    "CONDITIONS",
    "FIELDS",
    "Condition",
    "Dataset",
    "Field",
    "Grader",
    "Manifest",
    "ManifestInvalid",
    "Scenario",
    "Step",
]

Field: TypeAlias = Literal["public_output", "evaluation_context", "private_thought"]
Condition: TypeAlias = Literal["contains", "equals", "does_not_contain", "regex"]

FIELDS: Final[tuple[Field, ...]] = ("public_output", "evaluation_context", "private_thought")
CONDITIONS: Final[tuple[Condition, ...]] = ("contains", "equals", "does_not_contain", "regex")


class ManifestInvalid(Exception):
    """The manifest cannot be run; `problems` says where and why, each with file, line, column."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


@attrs.frozen(kw_only=True)
class Grader:
    """One check of a step's result.

    Attributes:
        type: `text_match`, `llm_judge`, `tool_usage`, or the name of an installed grader.
        field: of the result, what is looked at; `tool_usage` looks at the tool calls.
        condition: of a `text_match`, how `value` or `pattern` is compared.
        prompt: of an `llm_judge`, the criteria.
        tool_name: of a `tool_usage`, the call's name; None: any.
        arguments: of a `tool_usage`, the arguments the call has, among others.
        nested: ours: how an object within the arguments is compared.
        min_calls: ours: how many calls match at least.
        max_calls: ours: how many match at most; 0 says that the tool is not used.
        options: ours: what an installed grader is given.
    """

    type: str
    field: Field = "public_output"
    condition: Condition | None = None
    value: str | None = None
    pattern: str | None = None
    prompt: str | None = None
    tool_name: str | None = None
    arguments: Mapping[str, Any] = attrs.field(factory=dict)
    nested: Literal["exact", "subset"] = "exact"
    min_calls: int = 1
    max_calls: int | None = None
    options: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class Step:
    """Something that is said to the agent, and the checks of what it makes of it."""

    input: str
    graders: tuple[Grader, ...] = ()
    constraints: Mapping[str, Any] = attrs.field(factory=dict)
    """Carried into the report; without effect."""


@attrs.frozen(kw_only=True)
class Dataset:
    """Rows of a file: each becomes a step, to be answered by the row's output if it has one."""

    type: Literal["csv", "jsonl"]
    source: str
    input_column: str = "input"
    output_column: str = "output"
    line: int = 0
    column: int = 0


@attrs.frozen(kw_only=True)
class Scenario:
    """A conversation from its beginning."""

    name: str
    steps: tuple[Step, ...] = ()
    dataset: Dataset | None = None


@attrs.frozen(kw_only=True)
class Manifest:
    """What is evaluated.

    Attributes:
        path: where it was read.
        digest: SHA-256 of its bytes, hexadecimal.
        target: a command or an `http` or `https` URL.
        require_capabilities: whether an agent that lacks what the checks need is not run at all.
        warnings: what is allowed and odd.
    """

    path: Path
    digest: str
    name: str
    target: str
    scenarios: tuple[Scenario, ...]
    require_capabilities: bool = False
    warnings: tuple[Problem, ...] = ()
