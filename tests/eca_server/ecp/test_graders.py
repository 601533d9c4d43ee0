"""The graders without a model: their comparisons and their reasons."""

import re
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from eca_protocol.ecp import Result
from eca_server.ecp.graders import Graders, GraderSettings, read_settings
from eca_server.ecp.graders.text_match import match_text
from eca_server.ecp.graders.tool_usage import equal_json
from eca_server.ecp.manifest.model import Grader, Step, Unusable
from eca_server.ecp.manifest.reading import BUILT_IN
from eca_server.ecp.results import Check

OUTPUT = "Renewed until 2026-12-01.\nÉtude\n"


async def graded(grader: Grader, result: Result, settings: GraderSettings | None = None) -> Check:
    async with Graders(settings or GraderSettings()) as graders:
        (check,) = await graders.grade(Step(input="i", graders=(grader,)), result)
    return check


def text_match(condition: Any, expected: str, **more: Any) -> Grader:
    name = "pattern" if condition == "regex" else "value"
    return Grader(type="text_match", condition=condition, **{name: expected}, **more)


CONTAINS, LACKS = "the text contains the value", "the text does not contain the value"
MATCH, EMPTY = "regex: the pattern was found", "the text was empty"
TEXTS: list[tuple[Any, str, str | None, bool, str]] = [
    ("contains", "until 2026", OUTPUT, True, CONTAINS),
    ("contains", "renewed", OUTPUT, False, LACKS),
    ("contains", "E\u0301tude", OUTPUT, False, LACKS),
    ("contains", "", OUTPUT, True, CONTAINS),
    ("does_not_contain", "lost", OUTPUT, True, LACKS),
    ("does_not_contain", "until", OUTPUT, False, CONTAINS),
    ("does_not_contain", "x", " ", True, LACKS),
    ("equals", OUTPUT, OUTPUT, True, "equals: the text is as expected"),
    ("equals", "ab", "abc", False, "at character 3: expected its end, got 'c'"),
    ("equals", "a\r\n", "a\n", False, "at character 2: expected '\\r\\n', got '\\n'"),
    ("equals", " ", "  ", False, "at character 2: expected its end, got ' '"),
    ("regex", r"until \d{4}-\d{2}", OUTPUT, True, MATCH),
    ("regex", "^Étude$", OUTPUT, False, "regex: the pattern was not found"),
    ("regex", "(?mi)^étude$", OUTPUT, True, MATCH),
    ("regex", "tude$", OUTPUT, True, MATCH),
    ("regex", "Hello {id}, x{e}", "Hello {id}, x{e}", True, MATCH),
    *((condition, "x", "", False, EMPTY) for condition in ("equals", "does_not_contain")),
    *((condition, "^$", None, False, EMPTY) for condition in ("contains", "regex")),
]


async def test_texts_are_compared_as_they_are():
    for condition, expected, output, passed, why in TEXTS:
        check = await graded(text_match(condition, expected), Result(public_output=output))
        assert (check.passed, check.score) == (passed, float(passed)), (condition, expected, check)
        assert why in check.reasoning
        assert (check.expected, check.actual) == (expected, output or "")


async def test_an_empty_text_and_either_name_of_the_context_are_compared():
    lenient = GraderSettings(allow_empty=True)
    for condition, expected, passed in [
        ("equals", "", True),
        ("does_not_contain", "x", True),
        ("contains", "x", False),
        ("regex", "^$", True),
    ]:
        assert (await graded(text_match(condition, expected), Result(), lenient)).passed is passed
    result = Result(public_output="out", evaluation_context="why")
    fields = {"public_output": "out", "evaluation_context": "why", "private_thought": "why"}
    for field, expected in fields.items():
        check = await graded(text_match("equals", expected, field=field), result)
        assert (check.passed, check.field) == (True, field)


async def test_an_endless_pattern_is_stopped_after_its_time_limit():
    endless = text_match("regex", "(a|aa)+$")
    hard = Result(public_output="a" * 200 + "b")
    with trio.fail_after(5):
        check = await graded(endless, hard, GraderSettings(regex_seconds=0.05))
    assert (check.passed, check.error) == (False, False)
    assert check.reasoning == "regex: the pattern took more than 0.05 s"


@given(
    st.text(alphabet="ab{}0,1(?:e<=)|\\^$.*+", max_size=12),
    st.lists(st.text(alphabet="ab{}01,e<=", max_size=8), max_size=3),
)
def test_a_pattern_means_what_the_standard_library_says(pattern, texts):
    try:
        expected = re.compile(pattern)
    except re.error:
        return
    for text in texts:
        if text:
            result = Result(public_output=text)
            check = trio.run(match_text, text_match("regex", pattern), result, GraderSettings())
            assert check.passed is (expected.search(text) is not None)


BOOK = {"book": "B-17", "times": 1, "deep": {"a": 1, "b": [True, None]}}
CALLS = [{"name": "find", "arguments": {"q": "x"}}, {"name": "renew", "arguments": BOOK, "id": 7}]

MATCHING: list[dict[str, Any]] = [
    {"tool_name": "renew"},
    {"tool_name": "renew", "arguments": {"book": "B-17"}},
    {"arguments": {"book": "B-17"}},
    {"arguments": {"times": 1.0}},
    {"arguments": {"deep": {"b": [True, None], "a": 1}}},
    {"arguments": {"deep": {"a": 1}}, "nested": "subset"},
    {},
    {"tool_name": "drop", "min_calls": 0, "max_calls": 0},
    {"min_calls": 2},
]
DIFFERENT: list[dict[str, Any]] = [
    {"tool_name": "Renew"},
    {"tool_name": "find", "arguments": {"book": "B-17"}},
    {"arguments": {"book": "B-17", "other": None}},
    {"arguments": {"times": True}},
    {"arguments": {"times": "1"}},
    {"arguments": {"deep": {"a": 1}}},
    {"arguments": {"deep": {"b": [True]}}, "nested": "subset"},
    {"tool_name": "find", "min_calls": 0, "max_calls": 0},
    {"min_calls": 3},
    {"max_calls": 1},
]


async def test_calls_are_compared_as_json_by_name_and_by_some_of_their_arguments():
    result = Result(tool_calls=CALLS)
    for passed, rows in ((True, MATCHING), (False, DIFFERENT)):
        for fields in rows:
            check = await graded(Grader(type="tool_usage", **fields), result)
            assert (check.passed, check.field) == (passed, "tool_calls"), fields
    lenient = GraderSettings(nested_subset=True)
    deep = Grader(type="tool_usage", arguments={"deep": {"a": 1}})
    assert (await graded(deep, result, lenient)).passed


async def test_a_check_of_calls_names_the_expected_and_the_actual_calls():
    expected = Grader(type="tool_usage", tool_name="renew", arguments={"book": "B-18"})
    check = await graded(expected, Result(tool_calls=CALLS))
    assert check.reasoning == "0 of 2 calls match, expected at least 1; called: find, renew"
    assert check.expected == 'renew({"book": "B-18"})'
    assert check.actual.startswith('find({"q": "x"})\nrenew({"book": "B-17"')
    for calls, words in [(None, "the agent reports no tool calls"), ([], "called: none")]:
        assert words in (await graded(expected, Result(tool_calls=calls))).reasoning
    many = [{"name": "n" * 100_000, "arguments": {"a": "b" * 100_000}}] * 3
    check = await graded(expected, Result(tool_calls=many))
    assert len(check.reasoning) + len(check.actual or "") < 1200


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.floats(-2, 2) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("ab"), inner, max_size=2),
    max_leaves=4,
)


@given(VALUES, VALUES)
def test_values_are_equal_as_json_if_python_says_so_and_no_boolean_is_a_number(one, other):
    assert equal_json(one, one)
    assert equal_json(one, other) == equal_json(other, one) == (spelled(one) == spelled(other))


def spelled(value: Any) -> Any:
    """Replace booleans by values that are unequal to any number."""
    if isinstance(value, bool):
        return ("boolean", value)
    if isinstance(value, list):
        return [spelled(item) for item in value]
    if isinstance(value, dict):
        return {key: spelled(item) for key, item in value.items()}
    return value


async def test_all_graders_run_in_their_order_and_a_long_text_is_shortened():
    first, last = text_match("contains", "no" * 5000), text_match("contains", "y")
    step = Step(input="i", graders=(first, Grader(type="tool_usage"), last))
    async with Graders(GraderSettings()) as graders:
        checks = await graders.grade(step, Result(public_output="y" * 1_000_000))
    assert [check.passed for check in checks] == [False, False, True]
    assert checks[0].actual.endswith("... (cut, 999600 characters left out)")


VERDICTS: list[tuple[Callable[..., Any] | Any, bool, float, bool, str]] = [
    (True, True, 1.0, False, "passed"),
    (False, False, 0.0, False, "did not pass"),
    (0.7, True, 0.7, False, "a score of 0.7"),
    (0, False, 0.0, False, "a score of 0"),
    ({"passed": True, "score": 0.9, "reasoning": "neat"}, True, 0.9, False, "neat"),
    ({"passed": False}, False, 0.0, False, "did not pass"),
    (1.5, False, 0.0, True, "TypeError: expected mine to return a boolean, a score from 0 to 1"),
    (None, False, 0.0, True, "with `passed`, got None"),
    (float("nan"), False, 0.0, True, "with `passed`, got nan"),
    (ValueError("broken"), False, 0.0, True, "could not be made: ValueError: broken"),
    (SystemExit(3), False, 0.0, True, "could not be made: SystemExit: 3"),
]


def install(monkeypatch: pytest.MonkeyPatch, **graders: Callable[..., Any]) -> None:
    """Install graders as by entry points of packages."""

    class Installed(EntryPoint):
        def load(self) -> Any:
            return graders[self.name]

    def entry_points(group: str, name: str) -> list[EntryPoint]:
        assert group == "ecp.graders"
        return [Installed(each, "a.module", group) for each in {*graders} & {name}]

    monkeypatch.setattr("eca_server.ecp.graders.installed.entry_points", entry_points)


async def test_an_installed_grader_gives_a_verdict_or_none(monkeypatch):
    current: list[Any] = []
    received: list[Any] = []

    def mine(text: str, result: Result, options: dict[str, Any]) -> Any:
        received.append((text, result.public_output, options))
        if isinstance(current[0], BaseException):
            raise current[0]
        return current[0]

    async def awaited(text: str, result: Result, options: dict[str, Any]) -> bool:
        await trio.sleep(0)
        return bool(options["strict"])

    install(monkeypatch, mine=mine, awaited=awaited)
    grader = Grader(type="mine", options={"strict": True})
    for verdict, passed, score, error, why in VERDICTS:
        current[:] = [verdict]
        check = await graded(grader, Result(public_output="out"))
        assert (check.passed, check.score, check.error) == (passed, score, error), verdict
        assert why in check.reasoning
    assert received[0] == ("i", "out", {"strict": True})
    assert (await graded(Grader(type="awaited", options={"strict": True}), Result())).passed
    check = await graded(Grader(type="gone"), Result())
    assert (check.error, "no grader called gone" in check.reasoning) == (True, True)


async def test_an_unfinished_check_has_an_error_and_no_verdict(monkeypatch, autojump_clock):
    async def never(*_: Any) -> None:
        await trio.sleep_forever()

    install(monkeypatch, never=never)
    check = await graded(Grader(type="never"), Result())
    assert (check.error, trio.current_time()) == (True, 60.0)
    step = Step(input="i", graders=(text_match("contains", "a"), *[Grader(type="never")] * 2))
    async with Graders(GraderSettings()) as graders:
        checks = await graders.grade(step, Result(public_output="a"), seconds=5)
    assert trio.current_time() < 66
    assert [check.passed for check in checks] == [True, False, False]
    assert [check.error for check in checks] == [False, True, True]
    assert checks[1].reasoning == "the check could not be made: the time limit was exceeded"


SETTINGS = {
    "ECP_LLM_JUDGE_MODEL": "simulator/script",
    "ECP_LLM_JUDGE_TEMPERATURE": " 0.5 ",
    "ECP_LLM_JUDGE_TIMEOUT": "7",
    "OPENAI_BASE_URL": "http://127.0.0.1:1/v1",
    "ECP_LLM_JUDGE_API_KEY": "k",
    "ECP_TEXT_MATCH_EMPTY": "allow",
}


def test_settings_come_from_variables_and_nonsense_is_refused():
    settings = read_settings(SETTINGS)
    judge = settings.judge
    assert (judge.model, judge.temperature, judge.deadline) == ("simulator/script", 0.5, 7)
    assert (judge.url, judge.key_variable) == ("http://127.0.0.1:1/v1", "ECP_LLM_JUDGE_API_KEY")
    assert settings.allow_empty
    plain = read_settings({"ECP_LLM_JUDGE_MODEL": "", "ECP_LLM_JUDGE_TIMEOUT": " "})
    assert plain == GraderSettings()
    for name, text in [
        *(("ECP_LLM_JUDGE_TEMPERATURE", odd) for odd in ("warm", "-1", "nan")),
        *(("ECP_LLM_JUDGE_TIMEOUT", odd) for odd in ("0", "inf")),
        ("ECP_TEXT_MATCH_EMPTY", "yes"),
    ]:
        with pytest.raises(Unusable, match=f"{name}: expected .*, got '{text}'"):
            read_settings({name: text})


@pytest.mark.parametrize("type_", BUILT_IN)
async def test_a_built_in_grader_is_made_and_documented(type_: str) -> None:
    check = await graded(Grader(type=type_), Result())
    assert f"no grader called {type_}" not in check.reasoning
    guide = Path(__file__).parents[3] / "docs" / "guides" / "evaluation.md"
    assert f"\n### {type_}\n" in guide.read_text("utf-8")
