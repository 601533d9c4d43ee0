"""The page's script marks the same places of a message as `explain`."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from eca_protocol.codec.departures import explain
from eca_protocol.draft import DRAFT
from eca_protocol.methods import ECA
from eca_protocol.revisions import Revision
from eca_protocol.testing.strategies import broken, raw_params, raw_results
from eca_server.workbench.inspector.shapes import make_shapes
from tests.node import node

Part: TypeAlias = Literal["params", "result"]
SCRIPT = Path("eca_server/workbench/pages/inspector_reading.js")
READ = """
const { shapes, messages } = JSON.parse(require("fs").readFileSync(0, "utf-8"));
const reading = new Function(`${process.argv[1]}; return reading;`)();
const read = ([edition, method, message]) => reading.message(shapes, edition, method, message);
console.log(JSON.stringify(messages.map((each) => reading.oddities(read(each)))));
"""


Case: TypeAlias = tuple[Revision, str, Part, Any]
"""An edition, a method, a part of its message, and that part's value."""

PROMPT: dict[str, Any] = {"message": "Hi", "chatId": "c"}
CASES: list[tuple[Case, set[str]]] = [
    ((Revision.CURRENT, "chat/prompt", "params", PROMPT), set()),
    ((Revision.R2025_10, "chat/prompt", "params", None), {"params", "params/message"}),
    (
        (Revision.R2025_10, "chat/prompt", "params", PROMPT | {"message": 1, "odd": 1}),
        {"params/message", "params/odd"},
    ),
    (
        (Revision.R2025_10, "chat/prompt", "params", PROMPT | {"variant": "x", "model": None}),
        {"params/variant", "params/model"},
    ),
    (
        (Revision.R2025_10, "chat/prompt", "params", PROMPT | {"contexts": [{"type": "new"}, {}]}),
        {"params/contexts/0/type", "params/contexts/1/type"},
    ),
    (
        (Revision.R2025_10, "chat/prompt", "result", {"chatId": "c", "model": "", "status": "?"}),
        {"result/status"},
    ),
    (
        (Revision.DRAFT, "chat/prompt", "result", {"chatId": "c"}),
        {"result/status", "result/resultMessage"},
    ),
]


def oddities(cases: list[Case]) -> Iterator[set[str]]:
    """Yield the paths that the script marks in each case."""
    messages = [
        (edition.value, method, {part: raw} | ({"method": method} if part == "params" else {}))
        for edition, method, part, raw in cases
    ]
    done = subprocess.run(
        [node(), "-e", READ, SCRIPT.read_text("utf-8")],
        input=json.dumps({"shapes": make_shapes(), "messages": messages}),
        capture_output=True,
        text=True,
        check=True,
    )
    for marks in json.loads(done.stdout):
        yield {path for path, _ in marks if path != "method"}


def explained(case: Case) -> set[str]:
    """Return the paths that `explain` names, in the script's notation."""
    edition, method, part, raw = case
    table = DRAFT if edition is Revision.DRAFT else ECA
    return {
        re.sub(r'\[("(?:[^"\\]|\\.)*")\]|\[(\d+)\]|\.', _step, departure.path)
        for departure in explain(method, raw, edition, part=part, table=table)
    }


def _step(match: re.Match[str]) -> str:
    return f"/{json.loads(match[1]) if match[1] else match[2] or ''}"


def test_the_page_marks_oddities() -> None:
    marked = oddities([case for case, _ in CASES])
    for (case, expected), paths in zip(CASES, marked, strict=True):
        assert paths == expected == explained(case), case


@st.composite
def cases(draw: st.DrawFn) -> Case:
    revision = draw(st.sampled_from(list(Revision)))
    table = DRAFT if revision is Revision.DRAFT else ECA
    row = draw(st.sampled_from([row for row in table if row.window.holds(revision)]))
    parts: list[Part] = ["params", "result"] if row.kind == "request" else ["params"]
    part = draw(st.sampled_from(parts))
    raw = raw_params if part == "params" else raw_results
    values = raw(row.name, revision=revision, table=table)
    return revision, row.name, part, draw(values | broken(values))


@pytest.mark.long
def test_the_page_marks_what_explain_finds_in_any_message() -> None:
    collected: list[Case] = []

    @settings(max_examples=1500, phases=[Phase.generate])
    @given(cases())
    def collect(case: Case) -> None:
        collected.append(case)

    collect()
    expected = [explained(case) for case in collected]
    for case, places, paths in zip(collected, expected, oddities(collected), strict=True):
        has_cut_key = any(" characters)]" in place for place in places)
        assert paths == places or has_cut_key, case
    assert sum(map(bool, expected)) > len(collected) / 10
