"""Datasets: rows become steps, and an error names file and line."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from eca_server.ecp.datasets import MAX_SIZE, load_datasets
from eca_server.ecp.manifest.model import Dataset, Manifest, ManifestInvalid, Scenario, Step


def manifest(folder: Path, **dataset: Any) -> Manifest:
    fields = {"type": "csv", "source": "rows.csv", "line": 7, "column": 3} | dataset
    scenarios = (
        Scenario(name="rows", dataset=Dataset(**fields)),
        Scenario(name="by hand", steps=(Step(input="x"),)),
    )
    path = folder / "m.yaml"
    return Manifest(path=path, digest="0", name="n", target="t", scenarios=scenarios)


def rows(read: Manifest) -> list[tuple[str, str | None]]:
    steps = read.scenarios[0].steps
    return [(step.input, step.graders[0].value if step.graders else None) for step in steps]


GOOD: dict[str, tuple[str, bytes, list[tuple[str, str | None]]]] = {
    "plain": ("csv", b"input,output\na,b\nc,\n", [("a", "b"), ("c", None)]),
    "a mark at the start": ("csv", b"\xef\xbb\xbfinput,output\na,b\n", [("a", "b")]),
    "quoted": (
        "csv",
        'id,output,input\r\n1,"b ""b""","a\r\n\na, é\u2028"\r\n\r\n2,,""\r\n'.encode(),
        [("a\r\n\na, é\u2028", 'b "b"'), ("", None)],
    ),
    "no output": ("csv", b"input\na", [("a", None)]),
    "objects": (
        "jsonl",
        '\ufeff{"input": "a\\n", "output": "b"}\n\n{"input": "c\u2028", "output": null}'.encode(),
        [("a\n", "b"), ("c\u2028", None)],
    ),
}


def test_each_row_is_a_step_and_its_output_the_expectation(tmp_path):
    for name, (kind, data, expected) in GOOD.items():
        (tmp_path / "rows.csv").write_bytes(data)
        read = load_datasets(manifest(tmp_path, type=kind), {})
        assert rows(read) == expected, name
        assert read.scenarios[1].steps == (Step(input="x"),)
    (grader,) = read.scenarios[0].steps[0].graders
    assert (grader.type, grader.condition, grader.field) == (
        "text_match",
        "equals",
        "public_output",
    )
    (tmp_path / "rows.csv").write_bytes(b"q,a\n1,2\n")
    read = load_datasets(manifest(tmp_path, input_column="q", output_column="a"), {})
    assert rows(read) == [("1", "2")]


def test_rows_without_the_default_output_column_are_a_warning(tmp_path):
    (tmp_path / "rows.csv").write_bytes(b'{"input": "a"}\n{"input": "b", "output": null}\n')
    (warning,) = load_datasets(manifest(tmp_path, type="jsonl"), {}).warnings
    assert warning.level == "warning"
    assert str(warning) == (
        f"{tmp_path}/m.yaml:7:3: dataset: rows.csv: 1 of 2 rows have no column 'output': "
        "a step without graders checks nothing"
    )
    named = load_datasets(manifest(tmp_path, type="jsonl", output_column="input"), {})
    assert named.warnings == ()


def test_a_named_output_column_is_in_every_row(tmp_path):
    (tmp_path / "rows.csv").write_bytes(b'{"input": "a", "output": ""}\n{"input": "b"}\n')
    why = "rows.csv, line 2: expected the column 'output', got input"
    assert why in refusal(manifest(tmp_path, type="jsonl", output_column="output"))
    why = "rows.csv, line 1: expected the column 'answer', got input, output"
    assert why in refusal(manifest(tmp_path, type="jsonl", output_column="answer"))


BAD: dict[str, tuple[str, bytes, str]] = {
    "another column": (
        "csv",
        b"question\na\n",
        "line 2: expected the column 'input', got question",
    ),
    "a row too short": ("csv", b"input,output\na,b\nc\n", "line 3: expected 2 values, got 1"),
    "a row too long": ("csv", b"input\na,b\n", "line 2: expected 1 values, got 2"),
    "a column twice": ("csv", b"input,input\na,b\n", "a column is named twice: input, input"),
    "an open quote": ("csv", b'input\n"a\n', "line 2: unexpected end of data"),
    "text behind a quote": ("csv", b'input\n"a"b\n', "line 2: ',' expected after '\"'"),
    "another encoding": ("csv", b"input\na\nb\xff\n", "line 3: expected UTF-8: invalid start byte"),
    "no row": ("csv", b"input,output\n", "rows.csv has no rows: there is nothing to check"),
    "nothing": ("csv", b"", "rows.csv has no rows"),
    "a long field": ("csv", b"input\n" + b"a" * 140_000, "line 2: field larger than field limit"),
    "no object": ("jsonl", b'{"input": "a"}\n["a"]\n', "line 2: expected an object"),
    "no json": ("jsonl", b'{"input": "a"}\n{"input": }\n', "line 2: "),
    "a key twice": ("jsonl", b'{"input": "a", "input": "b"}', "line 1: "),
    "not a number": ("jsonl", b'{"input": "a", "n": NaN}', "line 1: "),
    "depth": ("jsonl", b"[" * 100_000, "line 1: "),
    "a number": ("jsonl", b'{"input": 3}', "line 1: input: expected text, got 3"),
    "a boolean": ("jsonl", b'{"input": "a", "output": true}', "line 1: output: expected text"),
    "no input": ("jsonl", b"{}", "line 1: expected the column 'input', got none"),
    "bytes": ("jsonl", b'\n{"input": "\xff"}', "line 2: expected UTF-8"),
}


def refusal(read: Manifest, environment: dict[str, str] | None = None) -> str:
    with pytest.raises(ManifestInvalid) as caught:
        load_datasets(read, environment or {})
    return str(caught.value)


def test_an_error_in_a_row_names_its_position(tmp_path):
    for name, (kind, data, why) in BAD.items():
        (tmp_path / "rows.csv").write_bytes(data)
        error = refusal(manifest(tmp_path, type=kind))
        assert error.startswith(f"{tmp_path}/m.yaml:7:3: dataset: rows.csv"), name
        assert why in error, (name, error)
        assert "\n" not in error


def test_a_source_is_a_file_of_the_manifest_s_folder(tmp_path, monkeypatch):
    folder = tmp_path / "suite"
    (folder / "data").mkdir(parents=True)
    for file in (tmp_path / "rows.csv", folder / "data" / "rows.csv"):
        file.write_text("input\na\n", "utf-8")
    (folder / "link.csv").symlink_to(tmp_path / "rows.csv")
    os.mkfifo(folder / "pipe.csv")
    monkeypatch.chdir("/")
    inside = manifest(folder, source="${env:PLACE}/rows.csv")
    assert rows(load_datasets(inside, {"PLACE": "data"})) == [("a", None)]
    assert "the variable PLACE is not set" in refusal(inside)
    outside = "is outside the manifest's folder; --allow-outside permits it"
    for source in ("../rows.csv", "link.csv", f"{tmp_path}/rows.csv"):
        assert outside in refusal(manifest(folder, source=source))
        allowed = load_datasets(manifest(folder, source=source), {}, allow_outside=True)
        assert rows(allowed) == [("a", None)]
    for source, why in [
        ("none.csv", "none.csv: No such file or directory"),
        ("data", "data is not a regular file"),
        ("pipe.csv", "pipe.csv is not a regular file"),
        ("a\0b", "'a\\x00b' is not a path"),
    ]:
        assert why in refusal(manifest(folder, source=source))
    monkeypatch.setattr("eca_server.ecp.datasets.MAX_ROWS", 0)
    assert "expected at most 0 rows, got more" in refusal(inside, {"PLACE": "data"})
    os.truncate(folder / "data" / "rows.csv", MAX_SIZE + 1)
    assert f"expected at most {MAX_SIZE} bytes, got more" in refusal(inside, {"PLACE": "data"})


def test_every_invalid_dataset_is_reported(tmp_path):
    one = manifest(tmp_path, source="a.csv").scenarios
    two = manifest(tmp_path, source="b.csv").scenarios
    path = tmp_path / "m.yaml"
    both = Manifest(path=path, digest="0", name="n", target="t", scenarios=one + two)
    assert [line.split()[2] for line in refusal(both).splitlines()] == ["a.csv:", "b.csv:"]
