"""The models of a manifest: the agent, its scenarios, inputs and checks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import attrs

from eca_server.config.problems import Problem

Field: TypeAlias = Literal["public_output", "evaluation_context", "private_thought"]
Condition: TypeAlias = Literal["contains", "equals", "does_not_contain", "regex"]

Position: TypeAlias = tuple[int | None, int | None]
"""A line and a column, counted from 1, in characters; None if unknown."""

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
    position: Position = (0, 0)


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
        target_position: the position of its key.
        require_capabilities: do not run an agent that lacks a capability needed by the checks.
        warnings: unusual but allowed content.
    """

    path: Path
    digest: str
    name: str
    target: str
    scenarios: tuple[Scenario, ...]
    target_position: Position = (None, None)
    require_capabilities: bool = False
    warnings: tuple[Problem, ...] = ()

    def problem(self, key: str, position: Position, message: str) -> Problem:
        """Return an error of the manifest at this position."""
        line, column = position
        return Problem(source=str(self.path), line=line, column=column, key=key, message=message)
