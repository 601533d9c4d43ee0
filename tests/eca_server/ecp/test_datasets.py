"""Datasets: rows become steps, and an error names file and line."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from eca_server.ecp.datasets import MAX_SIZE, load_datasets
from eca_server.ecp.manifest.model import Dataset, Manifest, ManifestInvalid, Scenario, Step
from tests.eca_server.ecp.runs import manifest


def with_rows(folder: Path, **dataset: Any) -> Manifest:
    fields = {"type": "csv", "source": "rows.csv", "position": (7, 3)} | dataset
    rows = Scenario(name="rows", dataset=Dataset(**fields))
    by_hand = Scenario(name="by hand", steps=(Step(input="x"),))
    return manifest(rows, by_hand, path=folder / "m.yaml")


def rows(read: Manifest) -> list[tuple[str, str | None]]:
    steps = read.scenarios[0].steps
    return [(step.input, step.graders[0].value if step.graders else None) for step in steps]


QUOTED = 'id,output,input\r\n1,"b ""b""","a\r\n\na, é\u2028"\r\n\r\n2,,""\r\n'
OBJECTS = '\ufeff{"input": "a\\n", "output": "b"}\n\n{"input": "c\u2028", "output": null}'
GOOD: list[tuple[str, str, list[tuple[str, str | None]]]] = [
    ("csv", "input,output\na,b\nc,\n", [("a", "b"), ("c", None)]),
    ("csv", "\ufeffinput,output\na,b\n", [("a", "b")]),
    ("csv", QUOTED, [("a\r\n\na, é\u2028", 'b "b"'), ("", None)]),
    ("csv", "input\na", [("a", None)]),
    ("jsonl", OBJECTS, [("a\n", "b"), ("c\u2028", None)]),
]


def test_each_row_is_a_step_and_its_output_the_expectation(tmp_path):
    for kind, data, expected in GOOD:
        (tmp_path / "rows.csv").write_bytes(data.encode())
        read = load_datasets(with_rows(tmp_path, type=kind), {})
        assert rows(read) == expected
        assert read.scenarios[1].steps == (Step(input="x"),)
    (grader,) = read.scenarios[0].steps[0].graders
    assert (grader.type, grader.condition) == ("text_match", "equals")
    assert grader.field == "public_output"
    (tmp_path / "rows.csv").write_bytes(b"q,a\n1,2\n")
    read = load_datasets(with_rows(tmp_path, input_column="q", output_column="a"), {})
    assert rows(read) == [("1", "2")]


def test_only_a_named_output_column_must_be_in_every_row(tmp_path):
    (tmp_path / "rows.csv").write_bytes(b'{"input": "a", "output": ""}\n{"input": "b"}\n')
    (warning,) = load_datasets(with_rows(tmp_path, type="jsonl"), {}).warnings
    assert warning.level == "warning"
    assert str(warning) == (
        f"{tmp_path}/m.yaml:7:3: dataset: rows.csv: 1 of 2 rows have no column 'output': "
        "a step without graders checks nothing"
    )
    named = load_datasets(with_rows(tmp_path, type="jsonl", output_column="input"), {})
    assert named.warnings == ()
    why = "rows.csv, line 2: expected the column 'output', got input"
    assert why in refusal(with_rows(tmp_path, type="jsonl", output_column="output"))
    why = "rows.csv, line 1: expected the column 'answer', got input, output"
    assert why in refusal(with_rows(tmp_path, type="jsonl", output_column="answer"))


BAD: list[tuple[str, bytes, str]] = [
    ("csv", b"question\na\n", "line 2: expected the column 'input', got question"),
    ("csv", b"input,output\na,b\nc\n", "line 3: expected 2 values, got 1"),
    ("csv", b"input\na,b\n", "line 2: expected 1 values, got 2"),
    ("csv", b"input,input\na,b\n", "a column is named twice: input, input"),
    ("csv", b'input\n"a\n', "line 2: unexpected end of data"),
    ("csv", b'input\n"a"b\n', "line 2: ',' expected after '\"'"),
    ("csv", b"input\na\nb\xff\n", "line 3: expected UTF-8: invalid start byte"),
    ("csv", b"input,output\n", "rows.csv has no rows: there is nothing to check"),
    ("csv", b"", "rows.csv has no rows"),
    ("csv", b"input\n" + b"a" * 140_000, "line 2: field larger than field limit"),
    ("jsonl", b'{"input": "a"}\n["a"]\n', "line 2: expected an object"),
    ("jsonl", b'{"input": "a"}\n{"input": }\n', "line 2: "),
    ("jsonl", b'{"input": "a", "input": "b"}', "line 1: "),
    ("jsonl", b'{"input": "a", "n": NaN}', "line 1: "),
    ("jsonl", b"[" * 100_000, "line 1: "),
    ("jsonl", b'{"input": 3}', "line 1: input: expected text, got 3"),
    ("jsonl", b'{"input": "a", "output": true}', "line 1: output: expected text"),
    ("jsonl", b"{}", "line 1: expected the column 'input', got none"),
    ("jsonl", b'\n{"input": "\xff"}', "line 2: expected UTF-8"),
]


def refusal(read: Manifest, environment: dict[str, str] | None = None) -> str:
    with pytest.raises(ManifestInvalid) as caught:
        load_datasets(read, environment or {})
    return str(caught.value)


def test_an_error_in_a_row_names_its_position(tmp_path):
    for kind, data, why in BAD:
        (tmp_path / "rows.csv").write_bytes(data)
        error = refusal(with_rows(tmp_path, type=kind))
        assert error.startswith(f"{tmp_path}/m.yaml:7:3: dataset: rows.csv")
        assert why in error, (data, error)
        assert "\n" not in error


def test_a_source_is_a_file_of_the_manifest_s_folder(tmp_path, monkeypatch):
    folder = tmp_path / "suite"
    (folder / "data").mkdir(parents=True)
    for file in (tmp_path / "rows.csv", folder / "data" / "rows.csv"):
        file.write_text("input\na\n", "utf-8")
    (folder / "link.csv").symlink_to(tmp_path / "rows.csv")
    os.mkfifo(folder / "pipe.csv")
    (folder / "loop.csv").symlink_to("loop.csv")
    monkeypatch.chdir("/")
    inside = with_rows(folder, source="${env:PLACE}/rows.csv")
    assert rows(load_datasets(inside, {"PLACE": "data"})) == [("a", None)]
    assert "the variable PLACE is not set" in refusal(inside)
    outside = "is outside the manifest's folder; --allow-outside permits it"
    for source in ("../rows.csv", "link.csv", f"{tmp_path}/rows.csv"):
        assert outside in refusal(with_rows(folder, source=source))
        allowed = load_datasets(with_rows(folder, source=source), {}, allow_outside=True)
        assert rows(allowed) == [("a", None)]
    for source, why in [
        ("none.csv", "none.csv: No such file or directory"),
        ("data", "data is not a regular file"),
        ("pipe.csv", "pipe.csv is not a regular file"),
        ("loop.csv", f"loop.csv: {os.strerror(errno.ELOOP)}"),
        ("a\0b", "'a\\x00b' is not a path"),
    ]:
        assert why in refusal(with_rows(folder, source=source))
    monkeypatch.setattr("eca_server.ecp.datasets.MAX_ROWS", 0)
    assert "expected at most 0 rows, got more" in refusal(inside, {"PLACE": "data"})
    os.truncate(folder / "data" / "rows.csv", MAX_SIZE + 1)
    assert f"expected at most {MAX_SIZE} bytes, got more" in refusal(inside, {"PLACE": "data"})


def test_every_invalid_dataset_is_reported(tmp_path):
    scenarios = [
        each for name in "ab" for each in with_rows(tmp_path, source=f"{name}.csv").scenarios
    ]
    both = manifest(*scenarios, path=tmp_path / "m.yaml")
    assert [line.split()[2] for line in refusal(both).splitlines()] == ["a.csv:", "b.csv:"]
