"""Plain English, as far as a program can tell: see `tests/language.py` and CONTRIBUTING.md."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.language import ROOT, findings, modules

PENDING = (
    "eca_protocol/client/",
    "eca_protocol/codec/",
    "eca_protocol/draft/",
    "eca_protocol/ecp/",
    "eca_protocol/fold/",
    "eca_protocol/messages/",
    "eca_protocol/schema/",
    "eca_protocol/testing/conformance/",
    "eca_protocol/transcript/",
    "eca_protocol/*.py",
    "eca_server/chat/",
    "eca_server/commands/",
    "eca_server/config/",
    "eca_server/conformance/",
    "eca_server/context/",
    "eca_server/credentials/",
    "eca_server/ecp/",
    "eca_server/editing/",
    "eca_server/features/",
    "eca_server/hooks/",
    "eca_server/inspector/",
    "eca_server/jobs/",
    "eca_server/llm/",
    "eca_server/mcp/",
    "eca_server/pages/",
    "eca_server/sandbox/",
    "eca_server/skills/",
    "eca_server/tools/",
    "eca_server/workspace/",
    "eca_server/*.py",
    "fuzz/",
    "tests/eca_protocol/client/",
    "tests/eca_protocol/codec/",
    "tests/eca_protocol/draft/",
    "tests/eca_protocol/ecp/",
    "tests/eca_protocol/fold/",
    "tests/eca_protocol/messages/",
    "tests/eca_protocol/schema/",
    "tests/eca_protocol/testing/conformance/",
    "tests/eca_protocol/transcript/",
    "tests/eca_protocol/*.py",
    "tests/eca_server/chat/",
    "tests/eca_server/commands/",
    "tests/eca_server/config/",
    "tests/eca_server/conformance/",
    "tests/eca_server/context/",
    "tests/eca_server/credentials/",
    "tests/eca_server/ecp/",
    "tests/eca_server/editing/",
    "tests/eca_server/features/",
    "tests/eca_server/hooks/",
    "tests/eca_server/inspector/",
    "tests/eca_server/jobs/",
    "tests/eca_server/llm/",
    "tests/eca_server/mcp/",
    "tests/eca_server/sandbox/",
    "tests/eca_server/skills/",
    "tests/eca_server/tools/",
    "tests/eca_server/wire/",
    "tests/eca_server/workspace/",
    "tests/eca_server/*.py",
)
"""Paths that were not revised yet; one that was leaves this list and never comes back."""

OWN = ("tests/language.py", "tests/test_language.py")
"""The list of what is not written has to be written."""


def is_checked(path: Path) -> bool:
    name = path.relative_to(ROOT).as_posix()
    is_pending = f"{path.parent.relative_to(ROOT).as_posix()}/*.py" in PENDING or any(
        name.startswith(each) for each in PENDING
    )
    return not is_pending and name not in OWN and "node_modules" not in path.parts


@pytest.mark.parametrize("top", ["docs", "eca_protocol", "eca_server", "fuzz", "tests"])
def test_sentences_and_names_are_plain(top: str) -> None:
    is_product = top.startswith("eca")
    assert not [
        str(finding)
        for path in modules([ROOT / top])
        if is_checked(path)
        for finding in findings(path, names=is_product, texts=is_product)
    ]


def test_what_is_not_plain_is_found(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        '"""What it is."""\n'
        "kept = 1  # nobody reads this\n"
        '"""How much there is."""\n'
        "def told(found: int) -> str:\n"
        '    """Return what stands in a file, as `told` says."""\n'
        '    return "It goes on."\n',
        encoding="utf-8",
    )
    found = [
        (each.line, each.text.partition(":")[0])
        for each in findings(module, names=True, texts=True)
    ]
    assert found == [
        (1, "a docstring begins with 'What'"),
        (3, "a docstring begins with 'How'"),
        (5, "'stands in'"),
        (2, "'nobody'"),
        (6, "'goes on'"),
        (2, "the name 'kept' hides what it holds"),
        (4, "the name 'found' hides what it holds"),
        (4, "the name 'told' hides what it holds"),
    ]
