"""Texts that are cut for a report: a key must be masked before the cut."""

import json
import os

import pytest

from eca_protocol.ecp import AgentError, Result, ToolCall
from eca_server.ecp import scenario
from eca_server.ecp.graders import Graders, text_match, tool_usage
from eca_server.ecp.graders.settings import GraderSettings
from eca_server.ecp.manifest.model import Grader, Step
from eca_server.ecp.reports.masking import make_masker

ODD_KEY = 'pass"word\\with é'
KEY = "my-own-password-of-the-desk"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DESK_PASSWORD", KEY)
    monkeypatch.setenv("ODD_PASSWORD", ODD_KEY)


async def test_a_cut_text_shows_no_half_of_a_key() -> None:
    shown = text_match.shorten("x" * 390 + f" {KEY} and more")
    assert "my-own" not in shown
    assert "password" not in scenario._log_excerpt(KEY + "x" * 4090)
    error = str(AgentError("agent_error", "x" * 8180 + f" {KEY} and more"))
    assert ("my-own" in error, "16 characters" in error) == (False, False)
    assert error.endswith(f"(cut, {len(KEY) + 10} characters left out)")
    grader = Grader(type="not installed " + "x" * 8130 + f" {KEY}")
    (check,) = await Graders(GraderSettings()).grade(Step(input="", graders=(grader,)), Result())
    assert "my-own" not in check.reasoning


@pytest.mark.parametrize(
    ("expected", "text", "why"),
    [
        ("a", f"{KEY} b", "at character 1: expected 'a', got '*** b'"),
        (f"{KEY} b", "a", "at character 1: expected '*** b', got 'a'"),
        ("my-own-pen", KEY, "at character 1: expected 'my-own-pen', got '***'"),
        (f"{KEY} a", f"{KEY} b", "at character 5: expected 'a', got 'b'"),
        ("key: ***", f"key: {KEY}", "the text differs within a hidden key"),
        ("a", "a" * 9000, "at character 2: expected its end, got 'aaaaaaaaaaaaaaaaaaaa'"),
    ],
)
async def test_a_difference_shows_no_part_of_a_key(expected: str, text: str, why: str) -> None:
    grader = Grader(type="text_match", condition="equals", value=expected)
    check = await text_match.match_text(grader, Result(public_output=text), GraderSettings())
    assert check.reasoning.endswith(why)


@pytest.mark.parametrize("longer", ["", "x" * 500])
def test_a_key_is_masked_as_it_is_spelled_in_json(longer: str) -> None:
    calls = (ToolCall(name="t", arguments={"key": ODD_KEY, "longer": longer}),)
    grader = Grader(type="tool_usage", tool_name="t", arguments={"key": ODD_KEY})
    check = tool_usage.match_calls(grader, Result(tool_calls=calls), GraderSettings())
    mask = make_masker(os.environ)
    for text in (check.actual, check.expected, json.dumps(ODD_KEY), ODD_KEY):
        assert text is not None
        assert "word" not in mask(text)
