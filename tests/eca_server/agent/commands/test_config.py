"""`/config`: the configured values and their sources, without secrets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from eca_server.agent.commands.config import report
from eca_server.config.loading import LoadedConfig, load
from eca_server.secret import Secret

KEY = "planted-0123456789-key"


def load_file(
    folder: Path, options: Mapping[str, Any], *, text: str = "", **environ: str
) -> LoadedConfig:
    file = folder / "config.json"
    file.write_text(text or "{}")
    return load(
        initialization_options=options, roots=(), environ=environ, config_file=file, home=folder
    )


def test_each_value_has_the_last_source_that_set_it(tmp_path: Path) -> None:
    options = {"chat": {"title": False}, "retry": {"maxRetries": 2}, "disabledTools": ["grep"]}
    text = '{"retry": {"maxRetries": 3, "baseDelayMs": 5}, "disabledTools": null}'
    lines = report(load_file(tmp_path, options, text=text), ()).splitlines()
    file = tmp_path / "config.json"
    assert "- `chat.title`: `false` (initializationOptions)" in lines
    assert f"- `retry.maxRetries`: `3` ({file})" in lines
    assert f"- `retry.baseDelayMs`: `5` ({file})" in lines
    assert not any("disabledTools" in line for line in lines)
    assert f"- {file}: present" in lines
    assert "- ECA_CONFIG: not found" in lines


def test_an_empty_configuration_is_named_as_such(tmp_path: Path) -> None:
    assert "No setting is configured." in report(load_file(tmp_path, {}), ()).splitlines()


def test_problems_are_listed(tmp_path: Path) -> None:
    text = report(load_file(tmp_path, {}, text='{\n"defaultModel": 1}'), ())
    assert f"- {tmp_path / 'config.json'}:2:1" in text


def test_a_reference_is_shown_unresolved(tmp_path: Path) -> None:
    options = {
        "providers": {"p": {"key": "${env:SECRET}", "url": "http://${env:SECRET}/", "keyEnv": "N"}},
        "customTools": {"t": {"command": "curl -H ${env:SECRET}"}},
    }
    text = report(load_file(tmp_path, options, SECRET=KEY), ())
    assert KEY not in text
    assert '`providers.p.key`: `"${env:SECRET}"`' in text
    assert '`providers.p.keyEnv`: `"N"`' in text


SECRET_PATHS = st.sampled_from(
    [
        ("providers", "p", "key"),
        ("providers", "p", "extraHeaders", "Authorization"),
        ("providers", "p", "models", "m", "extraPayload", "x"),
        ("mcpServers", "s", "env", "TOKEN"),
        ("mcpServers", "s", "headers", "X"),
        ("mcpServers", "s", "clientSecret"),
        ("remote", "password"),
        ("apiKeys",),
    ]
)


@given(
    path=SECRET_PATHS,
    shape=st.sampled_from(["%s", "a ${env:A:} %s", "${env:A:%s}"]),
    nested=st.booleans(),
)
def test_no_secret_is_shown(path: tuple[str, ...], shape: str, nested: bool) -> None:
    text = shape % KEY
    value: Any = [{"a": text}] if nested else text
    for name in reversed(path):
        value = {name: value}
    configuration = load(initialization_options={"pureConfig": True, **value}, roots=(), environ={})
    assert KEY not in report(configuration, ())


def test_a_key_in_use_is_masked_everywhere(tmp_path: Path) -> None:
    options = {"welcomeMessage": f"the key is {KEY}", "defaultModel": "key/word"}
    text = report(load_file(tmp_path, options), [Secret(KEY), Secret("word")])
    assert KEY not in text
    assert "key/word" in text


def test_a_huge_configuration_is_cut(tmp_path: Path) -> None:
    options = {"x": {f"k{number}": 1 for number in range(5_000)}, "y": "z" * 10_000}
    text = report(load_file(tmp_path, options), ())
    assert len(text) < 30_000
    assert "and 4701 more" in text


def test_a_value_cannot_leave_its_line(tmp_path: Path) -> None:
    options = {"welcomeMessage": "a`b\n- `c`: d"}
    lines = report(load_file(tmp_path, options), ()).splitlines()
    (line,) = [line for line in lines if "welcomeMessage" in line]
    assert json.dumps("a'b\n- 'c': d") in line
