"""Datasets: the rows of a CSV or JSON Lines file as steps of a scenario.

A row's input is said to the agent; its output, if it has one, is what the agent is to answer.
Whatever is wrong is told with file and row, before anything is started.
"""

from __future__ import annotations

import codecs
import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from eca_protocol import json
from eca_protocol.errors import InvalidJSON
from eca_server.config.problems import Problem
from eca_server.ecp.manifest import Dataset, Grader, Manifest, ManifestInvalid, Scenario, Step
from eca_server.ecp.target import TargetInvalid, with_environment

__all__ = ["with_datasets"]

MAX_SIZE: Final = 256 * 2**20
MAX_ROWS: Final = 1_000_000

Row = tuple[int, Mapping[str, Any]]


def with_datasets(
    manifest: Manifest, environment: Mapping[str, str], *, allow_outside: bool = False
) -> Manifest:
    """The manifest with each dataset's rows as its scenario's steps.

    Args:
        manifest: as it was read.
        environment: for `${env:NAME}` in a source.
        allow_outside: whether a file may lie outside the manifest's folder.

    Raises:
        ManifestInvalid: a file cannot be used; says which, and in which row why.
    """
    problems: list[Problem] = []
    scenarios: list[Scenario] = []
    for scenario in manifest.scenarios:
        if scenario.dataset is None:
            scenarios.append(scenario)
            continue
        try:
            steps = _steps(scenario.dataset, manifest.path, environment, allow_outside)
            scenarios.append(attrs.evolve(scenario, steps=steps))
        except _Unusable as fault:
            problems.append(
                Problem(
                    source=str(manifest.path),
                    line=scenario.dataset.line,
                    column=scenario.dataset.column,
                    key="dataset",
                    message=str(fault),
                )
            )
    if problems:
        raise ManifestInvalid(problems)
    return attrs.evolve(manifest, scenarios=tuple(scenarios))


class _Unusable(Exception):
    """Why a dataset cannot be used."""


def _steps(
    dataset: Dataset, manifest: Path, environment: Mapping[str, str], allow_outside: bool
) -> tuple[Step, ...]:
    try:
        source = with_environment(dataset.source, environment)
    except TargetInvalid as fault:
        raise _Unusable(str(fault)) from None
    if "\0" in source:
        raise _Unusable(f"{source!r} is no path")
    folder = manifest.resolve().parent
    file = (folder / source).resolve()
    if not allow_outside and not file.is_relative_to(folder):
        raise _Unusable(f"{source} lies outside the manifest's folder; --allow-outside permits it")
    try:
        size = file.stat().st_size
        if not file.is_file():
            raise _Unusable(f"{source} is no regular file")
        if size > MAX_SIZE:
            raise _Unusable(f"{source}: expected at most {MAX_SIZE} bytes, got more")
        steps = tuple(_step(dataset, source, row) for row in _rows(dataset, file, source))
    except OSError as fault:
        raise _Unusable(f"{source}: {fault.strerror or fault}") from fault
    if not steps:
        raise _Unusable(f"{source} has no rows: nothing would be checked")
    return steps


def _rows(dataset: Dataset, file: Path, source: str) -> Iterator[Row]:
    rows = _csv_rows(file, source) if dataset.type == "csv" else _jsonl_rows(file, source)
    for count, row in enumerate(rows):
        if count >= MAX_ROWS:
            raise _Unusable(f"{source}: expected at most {MAX_ROWS} rows, got more")
        yield row


def _lines(file: Path, source: str) -> Iterator[str]:
    with file.open("rb") as data:
        for number, line in enumerate(data, 1):
            try:
                yield (line.removeprefix(codecs.BOM_UTF8) if number == 1 else line).decode()
            except UnicodeDecodeError as fault:
                raise _Unusable(
                    f"{source}, line {number}: expected UTF-8: {fault.reason}"
                ) from None


def _csv_rows(file: Path, source: str) -> Iterator[Row]:
    reader = csv.reader(_lines(file, source), strict=True)
    try:
        header = next(reader, None) or []
        if len(set(header)) != len(header):
            raise _Unusable(f"{source}: a column is named twice: {', '.join(header)}")
        for values in reader:
            if not values:
                continue
            if len(values) != len(header):
                expected = f"expected {len(header)} values, got {len(values)}"
                raise _Unusable(f"{source}, line {reader.line_num}: {expected}")
            yield reader.line_num, dict(zip(header, values, strict=True))
    except csv.Error as fault:
        raise _Unusable(f"{source}, line {reader.line_num}: {fault}") from fault


def _jsonl_rows(file: Path, source: str) -> Iterator[Row]:
    for number, line in enumerate(_lines(file, source), 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line, duplicate_keys="refuse")
        except InvalidJSON as fault:
            raise _Unusable(f"{source}, line {number}: {fault}") from fault
        if not isinstance(value, dict):
            raise _Unusable(f"{source}, line {number}: expected an object")
        yield number, value


def _step(dataset: Dataset, source: str, row: Row) -> Step:
    number, values = row
    said = _text(dataset.input_column, source, number, values)
    wanted = ""
    if dataset.output_column in values and values[dataset.output_column] is not None:
        wanted = _text(dataset.output_column, source, number, values)
    grader = Grader(type="text_match", condition="equals", value=wanted)
    return Step(input=said, graders=(grader,) if wanted else ())


def _text(column: str, source: str, number: int, values: Mapping[str, Any]) -> str:
    if column not in values:
        have = ", ".join(map(str, values)) or "none"
        raise _Unusable(f"{source}, line {number}: expected the column {column!r}, got {have}")
    value = values[column]
    if not isinstance(value, str):
        raise _Unusable(f"{source}, line {number}: {column}: expected text, got {value!r:.60}")
    return value
