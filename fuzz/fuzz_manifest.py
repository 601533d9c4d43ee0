"""Any manifest is read or refused, each problem with its place in the file, in bounded time."""

from __future__ import annotations

import re
from pathlib import Path

from runner import instrumented, main

with instrumented():
    from eca_protocol import json
    from eca_server.config.problems import Problem
    from eca_server.ecp.manifest.model import Manifest, ManifestInvalid
    from eca_server.ecp.manifest.reading import read_manifest

PATH = Path("/manifest.yaml")
LINE_END = re.compile("\r\n|[\n\r\x85\u2028\u2029]")


def check(data: bytes) -> None:
    lines = LINE_END.split(data.decode("utf-8", "replace").removeprefix("\ufeff"))
    try:
        manifest = read_manifest(data, PATH)
    except ManifestInvalid as fault:
        assert fault.problems
        check_places(fault.problems, lines)
        return
    check_places(manifest.warnings, lines)
    assert manifest.name
    assert manifest.target
    for scenario in manifest.scenarios:
        assert scenario.name
        assert bool(scenario.steps) != (scenario.dataset is not None)
        for step in scenario.steps:
            json.dumps(step.constraints)
            for grader in step.graders:
                assert grader.type
                assert grader.pattern is None or re.compile(grader.pattern)
    commented = read_manifest(b"# a comment\n" + data.removeprefix(BOM), PATH)
    assert content_of(commented) == content_of(manifest)


BOM = b"\xef\xbb\xbf"


def content_of(manifest: Manifest) -> object:
    """Return the content of a manifest without its places."""
    return [
        (scenario.name, scenario.steps, scenario.dataset and scenario.dataset.source)
        for scenario in manifest.scenarios
    ]


def check_places(problems: tuple[Problem, ...] | list[Problem], lines: list[str]) -> None:
    for problem in problems:
        assert problem.message
        if problem.line is not None:
            assert 1 <= problem.line <= len(lines) + 1  # the line after the last
        if problem.line is not None and problem.column is not None:
            assert 1 <= problem.column <= len(([*lines, ""])[problem.line - 1]) + 2


if __name__ == "__main__":
    main("manifest", check)
