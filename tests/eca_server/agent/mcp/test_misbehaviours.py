"""`MISBEHAVIOURS.md` is whole: every test that it names is there."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
ROW = re.compile(r"(?m)^(\d+)\. .+\n((?:   - .+\n)+)")
ONLY_ON_WINDOWS = 4


def test_every_misbehaviour_has_its_tests():
    rows = ROW.findall((HERE / "MISBEHAVIOURS.md").read_text("utf-8"))
    assert [int(number) for number, _ in rows] == list(range(1, len(rows) + 1))
    assert len(rows) >= 82
    lacking = []
    for number, below in rows:
        tests = re.findall(r"- `(.+)` (test_\w+)", below)
        for file, name in tests:
            text = (HERE / file).read_text("utf-8")
            if not re.search(rf"(?m)^(async )?def {name}\(", text):
                lacking.append(f"{number}: {file} has no {name}")
        if not tests and int(number) != ONLY_ON_WINDOWS:
            lacking.append(f"{number}: no test")
    assert lacking == []
