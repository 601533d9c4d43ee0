"""The models of a manifest: the agent, its scenarios, inputs and checks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import attrs

from eca_server.config.problems import Problem

Field: TypeAlias = Literal["public_output", "evaluation_context", "private_thought"]
Condition: TypeAlias = Literal["contains", "equals", "does_not_contain", "regex"]

FIELDS: Final[tuple[Field, ...]] = ("public_output", "evaluation_context", "private_thought")
CONDITIONS: Final[tuple[Condition, ...]] = ("contains", "equals", "does_not_contain", "regex")


class Unusable(Exception):
    """Something that the user named cannot be used; the text says what and why."""


class ManifestInvalid(Unusable):
    """An invalid manifest; `problems` has the file, line, column and text of each error."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


@attrs.frozen(kw_only=True)
class Grader:
    """One check of a step's result.

    Attributes:
        type: `text_match`, `llm_judge`, `tool_usage`, or the name of an installed grader.
        field: the checked field of the result; `tool_usage` checks the tool calls.
        condition: for `text_match`, the comparison with `value` or `pattern`.
        prompt: for `llm_judge`, the criteria.
        tool_name: for `tool_usage`, the call's name; None matches any.
        arguments: for `tool_usage`, the required arguments; others are allowed.
        nested: our extension: the comparison of objects within the arguments.
        min_calls: our extension: the minimum number of matching calls.
        max_calls: our extension: the maximum number of matching calls; 0 forbids the tool.
        options: our extension: the options of an installed grader.
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
    """One input for the agent, and the checks of its result."""

    input: str
    graders: tuple[Grader, ...] = ()
    constraints: Mapping[str, Any] = attrs.field(factory=dict)
    """Copied into the report; no other effect."""


@attrs.frozen(kw_only=True)
class Dataset:
    """A file whose rows become steps; a row's output is the expected answer.

    `output_column` is in every row; None is the column `output` of the rows that have it.
    """

    type: Literal["csv", "jsonl"]
    source: str
    input_column: str = "input"
    output_column: str | None = None
    line: int = 0
    column: int = 0


@attrs.frozen(kw_only=True)
class Scenario:
    """A conversation: its steps, or the dataset that they come from."""

    name: str
    steps: tuple[Step, ...] = ()
    dataset: Dataset | None = None


@attrs.frozen(kw_only=True)
class Manifest:
    """An evaluation of one agent.

    Attributes:
        digest: the SHA-256 of its bytes, hexadecimal.
        target: a command, or an `http` or `https` URL.
        target_line: of its key, counted from 1.
        target_column: of its key, counted from 1, in characters.
        require_capabilities: do not run an agent that lacks a capability needed by the checks.
        warnings: unusual but allowed content.
    """

    path: Path
    digest: str
    name: str
    target: str
    scenarios: tuple[Scenario, ...]
    target_line: int | None = None
    target_column: int | None = None
    require_capabilities: bool = False
    warnings: tuple[Problem, ...] = ()
