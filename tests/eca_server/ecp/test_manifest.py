"""Manifests: their content, and errors with their positions."""

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_server.ecp.manifest.model import Manifest, ManifestInvalid
from eca_server.ecp.manifest.reading import read_manifest

GOOD = """\
manifest_version: v1
name: Library desk
target: python desk_agent.py
scenarios:
  - name: renewal
    steps:
      - input: "Please renew B-17"
        constraints: {tokens: 3}
        graders:
          - {type: text_match, condition: regex, pattern: "(?i)renewed"}
          - {type: text_match, field: evaluation_context, condition: equals, value: ""}
          - {type: tool_usage, tool_name: renew, arguments: {book: B-17, times: [1, 2.5, null]}}
          - {type: tool_usage, tool_name: delete, max_calls: 0}
          - {type: llm_judge, prompt: Is it polite}
  - name: rows
    dataset: {type: csv, source: rows.csv, input_column: question}
"""


def read(text: str | bytes) -> Manifest:
    data = text.encode() if isinstance(text, str) else text
    return read_manifest(data, Path("m.yaml"))


def errors(text: str | bytes) -> list[str]:
    with pytest.raises(ManifestInvalid) as caught:
        read(text)
    return str(caught.value).splitlines()


def test_a_valid_manifest_is_read() -> None:
    manifest = read(GOOD)
    assert not manifest.warnings
    assert (manifest.name, manifest.target) == ("Library desk", "python desk_agent.py")
    renewal, rows = manifest.scenarios
    graders = renewal.steps[0].graders
    types = [*["text_match"] * 2, *["tool_usage"] * 2, "llm_judge"]
    assert [grader.type for grader in graders] == types
    assert graders[2].arguments == {"book": "B-17", "times": [1, 2.5, None]}
    assert (graders[3].min_calls, graders[3].max_calls) == (0, 0)
    assert renewal.steps[0].constraints == {"tokens": 3}
    assert (rows.dataset.source, rows.dataset.input_column) == ("rows.csv", "question")
    assert read(b"\xef\xbb\xbf" + GOOD.encode()).name == "Library desk"
    assert read(GOOD.replace("Library desk", '"\\uD83D\\uDE00"')).name == "\U0001f600"


HEAD = "manifest_version: v1\nname: n\ntarget: t\n"
SCENARIO = HEAD + "scenarios:\n- name: "
STEP = SCENARIO + "s\n  steps:\n  - input: i\n    graders:\n    - "
GRADER = "scenarios[0].steps[0].graders[0]"
OF_MANIFEST = {
    "a version that is no text": (
        *("manifest_version: 1\n", "1:19: manifest_version"),
        'expected text, got a number, 1; write "1" in quotes',
    ),
    "another version": (
        *("manifest_version: v2\n", "1:19: manifest_version"),
        "expected one of v1, got 'v2'",
    ),
    "a missing key": ("name: n\n", "1:1: target", "this key is missing"),
    "a slip of the pen": (HEAD + "scenario: []", "4:1: scenario", "unknown key; did you mean"),
    "a key twice": (HEAD + "name: m", "4:1: name", "duplicate key; the first is in line 2"),
    "yes": (
        *(HEAD + "require_capabilities: yes", "4:23: require_capabilities"),
        "expected true or false, got a boolean in YAML, yes",
    ),
    "a tag": (HEAD + "scenarios: !!python/object:os.system [a]", "4:12: scenarios", ""),
    "a list": ("- a", "1:1", "expected a mapping, got a list"),
    "two documents": ("a: 1\n---\nb: 2", "2:1", "expected one document, got a second one"),
    "no YAML": ("a: [\n", "2:1", "not YAML: "),
    "a tab": ("é: 1\n\tb: 2", "2:1", "not YAML: expected spaces, got a tab"),
}
OF_SCENARIO = {
    "a date as a name": (
        *("2026-01-02", "5:9", ".name"),
        'expected text, got a date in YAML, 2026-01-02; write "2026-01-02" in quotes',
    ),
    "octal": ("012", "5:9", ".name", 'expected text, got a number, 012; write "012" in quotes'),
    "half a pair": ('"\\uD800"', "5:9", ".name", "expected text, got half a surrogate pair"),
    "an empty name": ("''\n  steps: []", "5:9", ".name", "expected a non-empty text"),
    "nothing to do": ("a\n  steps: []", "5:3", "", "expected steps or a dataset, got neither"),
    "steps and a dataset": (
        *("a\n  steps: [{input: i}]\n  dataset: {type: csv, source: s}", "7:3", ".dataset"),
        "expected steps or a dataset, got both",
    ),
}
TOO_LARGE = (
    "expected a smaller regular expression: its counted repetitions stand for more than "
    "1,000,000 parts"
)
OF_GRADER = {
    "no regular expression": (
        *("{type: text_match, condition: regex, pattern: '('}", "9:53", ".pattern"),
        "expected a regular expression: missing ), unterminated subpattern at position 0",
    ),
    "a regular expression with a number that is too long": (
        *("{type: text_match, condition: regex, pattern: 'a{%s1}'}" % ("0" * 5000), "9:53"),
        *(".pattern", "expected a regular expression: Exceeds the limit (4300 digits)"),
    ),
    **{
        f"a regular expression that is too large, {number}": (
            *(f"{{type: text_match, condition: regex, pattern: '{pattern}'}}", "9:53", ".pattern"),
            TOO_LARGE,
        )
        for number, pattern in enumerate(
            (
                "(a{65000}){65000}",
                "(?:x(?:[)]{2,}|[\\](]{99999}){0,3}){11}",
                "(" + "ab[cd]" * 400 + "){1000,}",
                "(?x)(a{3000}) {3000}",
                "(a{3000})(?#c){3000}",
            )
        )
    },
    "no value": (
        *("{type: text_match, condition: equals}", "9:7", ".value"),
        "expected the text to compare with, got none",
    ),
    "an unknown grader": (
        *("{type: tool_use}", "9:14", ".type"),
        "expected one of text_match, llm_judge, tool_usage, got 'tool_use'; did you mean tool_us",
    ),
    "a blank prompt": (
        *("{type: llm_judge, prompt: ' '}", "9:7", ".prompt"),
        "expected the judge's criteria, got none",
    ),
    "a date as an argument": (
        *("{type: tool_usage, arguments: {a: 2026-01-02}}", "9:41", ".arguments.a"),
        "expected a JSON value, got a date in YAML, 2026-01-02; quote it as text",
    ),
    "infinity": (
        *("{type: tool_usage, arguments: {a: .inf}}", "9:41", ".arguments.a"),
        "expected a JSON value, got a number, .inf; quote it as text",
    ),
    "a key that is no text": (
        *("{type: tool_usage, arguments: {1: a}}", "9:38", ".arguments.a key"),
        'expected text, got a number, 1; write "1" in quotes',
    ),
    "no limits": (
        *("{type: tool_usage, min_calls: 3, max_calls: 2}", "9:7", ".max_calls"),
        "expected at least min_calls",
    ),
}
INVALID = {
    **{name: (text, f"m.yaml:{where}: {why}") for name, (text, where, why) in OF_MANIFEST.items()},
    **{
        name: (SCENARIO + text, f"m.yaml:{where}: scenarios[0]{key}: {why}")
        for name, (text, where, key, why) in OF_SCENARIO.items()
    },
    **{
        name: (STEP + text, f"m.yaml:{where}: {GRADER}{key}: {why}")
        for name, (text, where, key, why) in OF_GRADER.items()
    },
    "nothing": ("", "m.yaml: expected a mapping, got an empty file"),
    "a merge key": (
        HEAD + "scenarios:\n- <<: {name: a}",
        'm.yaml:5:3: scenarios[0].a key: expected text, got a merge key, <<; write "<<" in quotes',
    ),
}


@pytest.mark.parametrize("name", INVALID)
def test_an_error_names_line_column_and_key(name: str) -> None:
    text, expected = INVALID[name]
    assert any(line.startswith(expected) for line in errors(text)), errors(text)


def test_all_errors_are_reported_at_once_and_invalid_bytes_by_their_line() -> None:
    assert len(errors("manifest_version: 1\nname: 2\nnmae: x")) == 5
    assert errors(b"a: 1\nb: \xff") == ["m.yaml:2: expected UTF-8, got the byte 0xff"]


def test_an_unknown_grader_may_be_one_that_is_not_installed() -> None:
    (error,) = errors(STEP + "{type: brevity}")
    assert error.endswith("is in an installed package, as an entry point of ecp.graders")


def test_a_document_beyond_the_limits_is_refused_at_once() -> None:
    rows = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    rows += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    started = time.perf_counter()
    assert "add more than 100000" in errors("\n".join(rows))[0]
    assert "add more than 100000" in errors("a: &a [*a]")[0]
    assert "nested more than 64 deep" in errors("[" * 65)[0]
    assert "nest" in errors("[" * 100_000)[0]  # newer parsers have a limit of their own
    assert "at most 1048576 bytes" in errors(b"#" * 1_048_577)[0]
    assert time.perf_counter() - started < 5  # without libyaml a tenth of that, and hours unchecked


WARNINGS = {
    "scenarios: there are no scenarios: nothing is checked": HEAD + "scenarios: []",
    "several scenarios are called 's'": STEP
    + "{type: tool_usage, tool_name: a}\n- name: s\n  steps: [{input: i}]",
    "a step without graders checks nothing": HEAD + "scenarios:\n- name: s\n  steps: [{input: i}]",
    "value: no effect on tool_usage": STEP + "{type: tool_usage, tool_name: a, value: b}",
    "assertion: no effect on llm_judge": STEP + "{type: llm_judge, prompt: a, assertion: b}",
    "this check passes for any call of any tool": STEP + "{type: tool_usage}",
}


@pytest.mark.parametrize("expected", WARNINGS)
def test_a_probable_mistake_is_a_warning(expected: str) -> None:
    warnings = [str(problem) for problem in read(WARNINGS[expected]).warnings]
    assert any(warning.endswith(expected) for warning in warnings), warnings


@pytest.mark.long
def test_a_long_manifest_with_few_aliases_is_read() -> None:
    grader = "    - {type: text_match, condition: equals, value: a}\n"
    steps = f"  - input: i\n    graders:\n{grader * 20}" * 700
    text = f"{SCENARIO}s\n  steps:\n{steps}  - &a {{input: i}}\n  - *a\n"
    assert len(read(text).scenarios[0].steps) == 702


@given(st.binary(max_size=60) | st.text(alphabet=" -:[]{}&*!'\"\n#ab1<", max_size=60))
def test_any_input_is_a_manifest_or_an_error(text: bytes | str) -> None:
    expected = "m.yaml"
    try:
        read(text)
    except ManifestInvalid as fault:
        expected = str(fault)
    assert expected.startswith("m.yaml")
