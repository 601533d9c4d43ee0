"""Datasets: the rows of a CSV or JSON Lines file as steps of a scenario.

A row's input is sent to the agent; its output, if there is one, is the expected answer. A named
output column is in every row. Errors name file and line, before anything is started.
"""

from __future__ import annotations

import codecs
import csv
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from eca_protocol import json
from eca_protocol.errors import InvalidJSON
from eca_server.config.problems import Problem
from eca_server.ecp.manifest.model import (
    Dataset,
    Grader,
    Manifest,
    ManifestInvalid,
    Scenario,
    Step,
    Unusable,
)
from eca_server.ecp.target import expand_variables

MAX_SIZE: Final = 256 * 2**20
MAX_ROWS: Final = 1_000_000

_OUTPUT: Final = "output"  # the default column of the expected answers

Row = tuple[int, Mapping[str, Any]]


def load_datasets(
    manifest: Manifest, environment: Mapping[str, str], *, allow_outside: bool = False
) -> Manifest:
    """Return the manifest with each dataset's rows as its scenario's steps.

    A source may name variables of the environment, as `${env:NAME}`.

    Raises:
        ManifestInvalid: a file cannot be used; the text names the file, the line and the reason.
    """
    problems: list[Problem] = []
    warnings = list(manifest.warnings)
    scenarios: list[Scenario] = []
    for scenario in manifest.scenarios:
        dataset = scenario.dataset
        if dataset is None:
            scenarios.append(scenario)
            continue
        try:
            steps, unchecked = _steps(dataset, manifest.path, environment, allow_outside)
        except Unusable as fault:
            problems.append(manifest.problem("dataset", dataset.position, str(fault)))
            continue
        scenarios.append(attrs.evolve(scenario, steps=steps))
        if unchecked:
            message = (
                f"{dataset.source}: {unchecked} of {len(steps)} rows have no column {_OUTPUT!r}: "
                "a step without graders checks nothing"
            )
            problem = manifest.problem("dataset", dataset.position, message)
            warnings.append(attrs.evolve(problem, level="warning"))
    if problems:
        raise ManifestInvalid(problems)
    return attrs.evolve(manifest, scenarios=tuple(scenarios), warnings=tuple(warnings))


def _steps(
    dataset: Dataset, manifest: Path, environment: Mapping[str, str], allow_outside: bool
) -> tuple[tuple[Step, ...], int]:
    """Return the steps, and how many of them have no check for lack of the default column."""
    steps: list[Step] = []
    unchecked = 0
    source = expand_variables(dataset.source, environment)
    if "\0" in source:
        raise Unusable(f"{source!r} is not a path")
    directory = manifest.resolve().parent
    file = Path(os.path.realpath(directory / source))  # in a loop of links pathlib fails
    if not allow_outside and not file.is_relative_to(directory):
        raise Unusable(f"{source} is outside the manifest's folder; --allow-outside permits it")
    try:
        size = file.stat().st_size
        if not file.is_file():
            raise Unusable(f"{source} is not a regular file")
        if size > MAX_SIZE:
            raise Unusable(f"{source}: expected at most {MAX_SIZE} bytes, got more")
        for row in _rows(dataset, file, source):
            steps.append(_step(dataset, source, row))
            unchecked += dataset.output_column is None and _OUTPUT not in row[1]
    except OSError as fault:
        raise Unusable(f"{source}: {fault.strerror or fault}") from fault
    if not steps:
        raise Unusable(f"{source} has no rows: there is nothing to check")
    return tuple(steps), unchecked


def _rows(dataset: Dataset, file: Path, source: str) -> Iterator[Row]:
    rows = _csv_rows(file, source) if dataset.type == "csv" else _jsonl_rows(file, source)
    for count, row in enumerate(rows):
        if count >= MAX_ROWS:
            raise Unusable(f"{source}: expected at most {MAX_ROWS} rows, got more")
        yield row


def _lines(file: Path, source: str) -> Iterator[str]:
    with file.open("rb") as data:
        for number, line in enumerate(data, 1):
            try:
                yield (line.removeprefix(codecs.BOM_UTF8) if number == 1 else line).decode()
            except UnicodeDecodeError as fault:
                raise Unusable(f"{source}, line {number}: expected UTF-8: {fault.reason}") from None


def _csv_rows(file: Path, source: str) -> Iterator[Row]:
    reader = csv.reader(_lines(file, source), strict=True)
    try:
        header = next(reader, None) or []
        if len(set(header)) != len(header):
            raise Unusable(f"{source}: a column is named twice: {', '.join(header)}")
        for values in reader:
            if not values:
                continue
            if len(values) != len(header):
                expected = f"expected {len(header)} values, got {len(values)}"
                raise Unusable(f"{source}, line {reader.line_num}: {expected}")
            yield reader.line_num, dict(zip(header, values, strict=True))
    except csv.Error as fault:
        raise Unusable(f"{source}, line {reader.line_num}: {fault}") from fault


def _jsonl_rows(file: Path, source: str) -> Iterator[Row]:
    for number, line in enumerate(_lines(file, source), 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line, duplicate_keys="refuse")
        except InvalidJSON as fault:
            raise Unusable(f"{source}, line {number}: {fault}") from fault
        if not isinstance(value, dict):
            raise Unusable(f"{source}, line {number}: expected an object")
        yield number, value


def _step(dataset: Dataset, source: str, row: Row) -> Step:
    number, values = row
    text = _text(dataset.input_column, source, number, values)
    expected = ""
    column = dataset.output_column or _OUTPUT
    is_missing = dataset.output_column is not None and column not in values
    if is_missing or values.get(column) is not None:
        expected = _text(column, source, number, values)
    grader = Grader(type="text_match", condition="equals", value=expected)
    return Step(input=text, graders=(grader,) if expected else ())


def _text(column: str, source: str, number: int, values: Mapping[str, Any]) -> str:
    if column not in values:
        columns = ", ".join(map(str, values)) or "none"
        raise Unusable(f"{source}, line {number}: expected the column {column!r}, got {columns}")
    value = values[column]
    if not isinstance(value, str):
        raise Unusable(f"{source}, line {number}: {column}: expected text, got {value!r:.60}")
    return value
