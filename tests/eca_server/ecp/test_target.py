"""Targets: the command or URL of a manifest, and errors before anything runs."""

import shlex
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_server.ecp.manifest.model import Unusable
from eca_server.ecp.target import Target, resolve_target

ENVIRONMENT = {"PATH": "/usr/bin:/bin", "NAME": "a b;'c' $HOME \ue0000\ue001", "PORT": "8765"}


def resolved(text: str, *, shell: bool = False) -> Target:
    return resolve_target(text, environment=ENVIRONMENT, cwd=Path("/"), shell=shell)


def test_a_command_is_split_like_in_a_shell_without_expansions() -> None:
    for text, words in [
        ("sh agent.sh --fast", ["agent.sh", "--fast"]),
        ("  sh a\n", ["a"]),
        (
            "sh 'a b' \"c d\" e\\ f '' '$HOME' \\$x \"a;b|c\"",
            ["a b", "c d", "e f", "", "$HOME", "$x", "a;b|c"],
        ),
        ("sh # no comment", ["#", "no", "comment"]),
        ("sh ${env:NAME} '${env:NAME}'-x", [ENVIRONMENT["NAME"], f"{ENVIRONMENT['NAME']}-x"]),
        ("sh --port=${env:PORT}${env:PORT} é", ["--port=87658765", "é"]),
    ]:
        target = resolved(text)
        assert Path(target.command[0]).name == "sh"
        assert ([*target.command[1:]], target.url, target.cwd) == (words, None, "/"), text


@given(
    st.lists(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\ue000\ue001")),
        max_size=4,
    )
)
def test_any_quoted_words_arrive_as_they_are(words: list[str]) -> None:
    if not any("${env:" in word for word in words):
        assert resolved(shlex.join(["sh", *words])).command[1:] == (*words,)


REFUSED = {
    "sh a && sh b": "it contains '&'; write sh -c '...', or pass --shell",
    "sh a | sh b": "it contains '|'",
    "sh a; sh b": "it contains ';'",
    "sh a\nsh b": "it contains '\\n'",
    "sh <in": "it contains '<'",
    "(sh a)": "it contains '('",
    "sh $HOME": "it contains a variable; write ${env:NAME}, or write sh -c",
    'sh "$HOME"': "it contains a variable",
    "sh `pwd`": "it contains a variable",
    "sh 'a": "no closing quotation",
    "sh a\\": "no escaped character",
    " ": "it is empty",
    "A=1 sh x": "it sets a variable; write env A=1 ..., or write sh -c",
    "sh ${env:NONE}": "the variable NONE is not set",
    "no-such-agent x": "the command 'no-such-agent' is not on PATH",
    "./no-such-agent": "the command './no-such-agent' is not below /",
    "/etc/passwd": "the command '/etc/passwd' is not below /",
    "~nobody-here/x": "'~nobody-here/x': the home directory is unknown",
    "a\0b": "the command 'a\\x00b' is not on PATH",
    "http://": "expected a URL with a host, got 'http://'",
    "https:///x": "expected a URL with a host",
    "http://[::1": "expected a URL, got 'http://[::1': invalid ipv6 url",
    "http://host:0/": "expected a URL with a port from 1 to 65535, got 'http://host:0/'",
    "http://host:99999/": "expected a URL, got 'http://host:99999/': port out of range",
    "http://host/a b": "expected a URL with a host, got",
    "HTTP://me:word@host/": "the URL contains a user or a password",
    "http://host/${env:NONE}": "the variable NONE is not set",
}


def test_a_command_that_needs_a_shell_is_refused_with_a_hint() -> None:
    for text, why in REFUSED.items():
        with pytest.raises(Unusable) as caught:
            resolved(text)
        assert why in str(caught.value), text
        assert "word" not in str(caught.value).replace("password", "")


def test_a_url_in_any_case_is_a_url_and_a_shell_runs_a_line() -> None:
    urls = {" http://127.0.0.1:${env:PORT}/ecp ": "http://127.0.0.1:8765/ecp"}
    for text, url in {**urls, "HTTPS://host": "HTTPS://host"}.items():
        assert resolved(text) == resolved(text, shell=True) == Target(url=url)
        assert resolved(text).text == url
    target = resolved("cd ${env:PORT} && sh $X", shell=True)
    assert target.command == ("/bin/sh", "-c", "cd 8765 && sh $X")


def test_python_is_this_one_where_path_has_none_and_a_path_starts_in_the_directory(tmp_path):
    for name in ("python", "python3"):
        target = resolve_target(f"{name} x.py", environment={"PATH": "/none"}, cwd=tmp_path)
        assert target.command == (sys.executable, "x.py")
    program = tmp_path / "bin" / "agent"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n", "utf-8")
    program.chmod(0o755)
    target = resolve_target("bin/agent x", environment={}, cwd=tmp_path)
    assert target.command == (str(program), "x")
    assert target.text == f"{program} x"
