"""The page's script reads a message as `explain` does: it marks the same places."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from eca_protocol.codec.explain import explain
from eca_protocol.draft import DRAFT
from eca_protocol.methods import ECA
from eca_protocol.revisions import Revision
from eca_protocol.testing.strategies import broken, raw_params, raw_results
from eca_server.inspector.shapes import shapes
from tests.node import node

Part: TypeAlias = Literal["params", "result"]
SCRIPT = Path("eca_server/pages/inspector_reading.js")
READ = """
const { shapes, messages } = JSON.parse(require("fs").readFileSync(0, "utf-8"));
const reading = new Function(`${process.argv[1]}; return reading;`)();
const read = ([edition, method, message]) => reading.message(shapes, edition, method, message);
console.log(JSON.stringify(messages.map((each) => reading.oddities(read(each)))));
"""


Case: TypeAlias = tuple[Revision, str, Part, Any]
"""An edition, a method, a part of its message, and what stands there."""

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
    """Where the script sees something odd, in each."""
    messages = [
        (edition.value, method, {part: raw} | ({"method": method} if part == "params" else {}))
        for edition, method, part, raw in cases
    ]
    done = subprocess.run(
        [node(), "-e", READ, SCRIPT.read_text("utf-8")],
        input=json.dumps({"shapes": shapes(), "messages": messages}),
        capture_output=True,
        text=True,
        check=True,
    )
    for marks in json.loads(done.stdout):
        yield {path for path, _ in marks if path != "method"}


def explained(case: Case) -> set[str]:
    """Where `explain` sees something, spelled as the script does."""
    edition, method, part, raw = case
    table = DRAFT if edition is Revision.DRAFT else ECA
    return {
        re.sub(r'\[(".*?")\]|\[(\d+)\]|\.', _step, departure.path)
        for departure in explain(method, raw, edition, part=part, table=table)
    }


def _step(found: re.Match[str]) -> str:
    return f"/{json.loads(found[1]) if found[1] else found[2] or ''}"


def test_the_page_marks_what_is_odd() -> None:
    marked = oddities([case for case, _ in CASES])
    for (case, wanted), seen in zip(CASES, marked, strict=True):
        assert seen == wanted == explained(case), case


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
    found: list[Case] = []

    @settings(max_examples=1500, phases=[Phase.generate])
    @given(cases())
    def collect(case: Case) -> None:
        found.append(case)

    collect()
    wanted = [explained(case) for case in found]
    for case, places, seen in zip(found, wanted, oddities(found), strict=True):
        assert seen == places, case
    assert sum(map(bool, wanted)) > len(found) / 10
