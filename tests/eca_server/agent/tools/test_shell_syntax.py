from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eca_server.agent.tools import shell_syntax
from eca_server.agent.tools.shell_syntax import Operator, Unreadable, Variables, Word, tokenize

UNKNOWN = shell_syntax.UNKNOWN
VARIABLES = Variables(values={"HOME": "/home/me", "EMPTY": ""})


def words(command: str) -> list[str]:
    return [token.text for token in tokenize(command, VARIABLES) if isinstance(token, Word)]


def operators(command: str) -> list[str]:
    return [token.text for token in tokenize(command) if isinstance(token, Operator)]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("a  b\tc", ["a", "b", "c"]),
        ("a'b c'd", ["ab cd"]),
        ('a"b c"d', ["ab cd"]),
        ("''", [""]),
        (r"a\ b", ["a b"]),
        (r"'a\b'", [r"a\b"]),
        (r'"a\b\"\$"', [r'a\b"$']),
        ("a\\\nb", ["ab"]),
        ("/e'tc'/\"pass\"wd", ["/etc/passwd"]),
        ("a\\", ["a\\"]),
        ("$HOME/x ${HOME}/y", ["/home/me/x", "/home/me/y"]),
        ('"$HOME/x"', ["/home/me/x"]),
        ("'$HOME'", ["$HOME"]),
        ("$UNSET/x $EMPTY/y", ["/x", "/y"]),
        ("$BASHPID $BASH/x", [UNKNOWN, f"{UNKNOWN}/x"]),
        ("$1 ${x%y}z $?", [UNKNOWN, f"{UNKNOWN}{{x%y}}z", UNKNOWN]),
        ("$((1+2))x $((a<<b))", [f"{UNKNOWN}x", UNKNOWN]),
        ("<(a)b", ["a", f"{UNKNOWN}b"]),
        ("cat <<E x\n'a\nE\nb", ["cat", "E", "x", "'a\n", "b"]),
        ("cat <<'E'\n$(a)\nE\nb", ["cat", "E", "$(a)\n", "b"]),
        ("cat <<-E <<F\n\ta\n\tE\nb\nF\nc", ["cat", "E", "F", "\ta\n", "b\n", "c"]),
        ("$'a'b", ["ab"]),
        (r"$'\x2f'etc", [f"{UNKNOWN}etc"]),
        (r"$'a\tb\\'", ["a\tb\\"]),
        ('$"a b"', ["a b"]),
        ("grep 'x$' x$", ["grep", "x$", "x$"]),
        ('"x$"', ["x$"]),
        ("a#b # c 'd", ["a#b", "c", "'d"]),
        ("cat 2>x 2 >y z2>w", ["cat", "x", "2", "y", "z2", "w"]),
        ("'2'>x", ["2", "x"]),
        ("a$(b c)d", [f"a{UNKNOWN}d"]),
        ("a`b c`d", [f"a{UNKNOWN}d"]),
        ("${X:-/etc}", [f"{UNKNOWN}{{X:-/etc}}"]),
    ],
)
def test_a_command_is_cut_into_words_as_the_shell_cuts_it(command, expected):
    assert words(command) == expected


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("a;b&&c||d|e|&f&g\nh", [";", "&&", "||", "|", "|&", "&", "\n"]),
        ("a>b>>c<d 2>&1 &>e &>>f", [">", ">>", "<", ">&", "&>", "&>>"]),
        ("(a) <(b) $(c;d) `e;f`", ["(", ")", "<", "(", ")"]),
        ("a <<E <<<x <>y >|z", ["<<", "<<<", "<>", ">|"]),
        ("';' \"&&\" \\| a\\;b", []),
        ("# a; b", ["#"]),
        ("a # b\nc", ["#", "\n"]),
    ],
)
def test_operators_are_separate_and_quoted_ones_are_not(command, expected):
    assert operators(command) == expected


@pytest.mark.parametrize(
    ("command", "active"),
    [
        ("a", ""),
        ("*.py", "*"),
        ("'*.py'", ""),
        (r"\*.py", ""),
        ('"$X"', "$"),
        ("'$X'", ""),
        ('"`x`"', "`"),
        ("{a,b}", "{}"),
        ("~/x", "~"),
        ("a?[b]", "?["),
        ("x$", ""),
    ],
)
def test_a_word_says_what_in_it_the_shell_would_expand(command, active):
    (word,) = tokenize(command)
    assert isinstance(word, Word)
    assert word.active == frozenset(active)


@pytest.mark.parametrize(
    ("command", "inner"),
    [
        ("a$(b c)d", ["b", "c"]),
        ('"a$(b "c d")d"', ["b", "c d"]),
        ("`b 'c d'`", ["b", "c d"]),
        ("$(b $(c) # )\n)", ["b", UNKNOWN, ")"]),
        ("<<E\na $(b) c\nE", ["b"]),
    ],
)
def test_the_code_in_a_word_is_cut_as_well(command, inner):
    nested = [code for token in tokenize(command) for code in getattr(token, "nested", ())]
    assert [token.text for code in nested for token in code if isinstance(token, Word)] == inner


UNREADABLE = [
    "x$(case a in a) b;; esac)c", "$(a", "`a", "`a\\``", "${x:-$(a)}", "${x:-'a'}", "$[1]",
    "((1<<2))\na\n2))", "a[1<<2]=b\nc", "cat <<$X\na", "(a)#b", "$(( $(a) ))",
    "$a\\\nb", '"${a}\\\nb"', "$\\\n{a}", "a <\\\n<b",
    "cat <<E\na\\\nE\nb", "cat <<E $(a\nb)\nE",
    "'a", '"a', '"a\\"', "$'a", "a\0b", "a" * 200_000, "x '\n",
]  # fmt: skip


@pytest.mark.parametrize("command", UNREADABLE, ids=range(25))
def test_what_is_too_involved_or_no_command_is_not_guessed_at(command):
    with pytest.raises(Unreadable):
        tokenize(command, VARIABLES)


@settings(max_examples=60, deadline=None)
@given(st.text(st.sampled_from(" \t'\"\\ab#/.-=2"), max_size=25))
def test_words_are_cut_as_a_real_shell_cuts_them(command):
    shell = shutil.which("bash") or "sh"
    script = f"set -f\nprintf '%s\\0' x {command}"
    real = subprocess.run([shell, "-c", script], capture_output=True, check=False)
    try:
        tokens = tokenize(f"printf x {command}")
    except Unreadable:
        assert real.returncode != 0
        return
    comment = tokens.index(Operator("#")) if Operator("#") in tokens else len(tokens)
    ours = [token.text for token in tokens[1:comment]]
    assert "\0".join([*ours, ""]).encode() == real.stdout
