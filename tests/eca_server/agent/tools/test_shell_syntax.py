"""Words of a shell, and values of the model in a user's command: each is one word, never code."""

import shutil
import subprocess
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from eca_server.agent.tools import shell_syntax
from eca_server.agent.tools.command_template import CommandTemplate, TemplateError
from eca_server.agent.tools.shell_syntax import Operator, Unreadable, Variables, Word, tokenize
from tests.eca_server.processes import run_to_end

UNKNOWN = shell_syntax.UNKNOWN
VARIABLES = Variables(values={"HOME": "/home/me", "EMPTY": ""})


def words(command: str) -> list[str]:
    return [token.text for token in tokenize(command, VARIABLES) if isinstance(token, Word)]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (r'"a\b\"\$"', [r'a\b"$']),
        ("a\\\nb", ["ab"]),
        ("/e'tc'/\"pass\"wd", ["/etc/passwd"]),
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
    "((1<<2))\na\n2))", "a[1<<2]=b\nc", "cat <<$X\na", "(a)#b", "$(( $(a) ))", "$((${))",
    "$a\\\nb", '"${a}\\\nb"', "$\\\n{a}", "a <\\\n<b",
    "cat <<E\na\\\nE\nb", "cat <<E $(a\nb)\nE",
    "'a", '"a', '"a\\"', "$'a", "a\0b", "a" * 200_000, "x '\n",
]  # fmt: skip


@pytest.mark.parametrize("command", UNREADABLE, ids=range(26))
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


NAMES = ("a", "b")
HOSTILE = 'x\'; touch owned; "$(touch owned)" `touch owned` ${HOME} \\ \n* #'
WORDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))

PLACES = {
    "p {{a}} {{b}}": ["{a}", "{b}"],
    "p --a={{a}}{{b}}.txt": ["--a={a}{b}.txt"],
    'p "{{a}} and {{ b }}"': ["{a} and {b}"],
    "p 'it is {{a}}' 'none'": ["it is {a}", "none"],
    'p "it\'s {{a}}" # "don\'t {{b}}': ["it's {a}"],
    'p "$(printf %s. {{a}})"': ["{a}."],
    "p $'\\'' {{a}} \\' {{b}}": ["'", "{a}", "'", "{b}"],
    "cat <<< {{a}} | { read -r -d '' line; p \"$line\" {{b}}; }": None,
    "p $((1 + (2))) ${none:-'x'} {{a}}": ["3", "x", "{a}"],
    "p '{{.State}}' {{c}} {{a}}": ["{{.State}}", "{{c}}", "{a}"],
    "x[0]=1; p ${x[0]} {{a}}": None,
    "p x[0-9] [x] {{a}}": ["x[0-9]", "[x]", "{a}"],
    "f() { p {{a}}; }; f": ["{a}"],
}


def shown_by(script: str, environment: dict[str, str], shell: str = "bash") -> list[str]:
    """Return the words that `p` gets in a script."""
    program = [shell, "-c", 'p() { printf "%s\\0" "$@"; }\n' + script]
    done = run_to_end(program, env=environment, check=True)
    assert not done.stderr
    return done.stdout.split("\0")[:-1]


@pytest.mark.parametrize("shell", ["bash", "sh"])
@pytest.mark.parametrize(
    ("command", "expected"),
    [(command, words) for command, words in PLACES.items() if words is not None],
)
def test_a_value_is_one_word_wherever_it_is(command: str, expected: list[str], shell: str) -> None:
    if shell == "sh" and "$'" in command:
        command, expected = "p {{a}}", ["{a}"]  # a word of bash's own
    template = CommandTemplate(command, NAMES)
    arguments = {"a": HOSTILE, "b": "-b"}
    words = [word.replace("{a}", HOSTILE).replace("{b}", "-b") for word in expected]
    assert shown_by(template.script, template.variables(arguments), shell) == words
    assert shown_by(template.command(arguments), {}, shell) == words


@given(st.sampled_from(sorted(PLACES)), WORDS, WORDS)
@example("p {{a}} {{b}}", HOSTILE, "")
def test_script_and_shown_command_do_the_same(command: str, a: str, b: str) -> None:
    template = CommandTemplate(command, NAMES)
    arguments = {"a": a, "b": b}
    shown = shown_by(template.command(arguments), {})
    assert shown_by(template.script, template.variables(arguments)) == shown


def test_what_is_not_given_leaves_no_word_and_what_is_no_string_is_given_as_json() -> None:
    template = CommandTemplate("p {{a}} \"{{a}}\" '{{a}}' {{b}}", NAMES)
    for missing in ({"b": "x"}, {"a": None, "b": "x"}):
        assert shown_by(template.script, template.variables(missing)) == ["", "", "x"]
        assert shown_by(template.command(missing), {}) == ["", "", "x"]
    template = CommandTemplate("p {{a}}", NAMES)
    values: list[Any] = [5, True, 0.5, ["a", 1], {"k": "'"}]
    for value, word in zip(values, ["5", "true", "0.5", '["a",1]', '{"k":"\'"}'], strict=True):
        assert shown_by(template.script, template.variables({"a": value})) == [word]


@pytest.mark.parametrize(
    ("command", "place"),
    [
        ("echo $(( {{a}} + 1 ))", "((...))"),
        ("(( x = {{a}} ))", "((...))"),
        ("echo $(( $(echo {{a}}) ))", "((...))"),
        ("echo $[ {{a}} + 1 ]", "$[...]"),
        ("x[{{a}}]=1", "a subscript"),
        ("[[ {{a}} -eq 1 ]]", "[[...]]"),
        ("echo ${x:-{{a}}}", "${...}"),
        ('echo "${x:-"{{a}}"}"', "${...}"),
        ("echo `cat {{a}}`", "backticks"),
        ("echo $'{{a}}'", "$'...'"),
        ("cat <<EOF\n{{a}}\nEOF", "a here document, where no value can be inserted; write it out"),
        ("cat <<-'EOF'\n{{a}}\nEOF", "a here document"),
        ("echo {{a}} 'open", "single quotes in it are not closed"),
        ('echo "{{a}}', "double quotes in it are not closed"),
    ],
)
def test_where_a_value_would_be_read_as_code_none_is_allowed(command: str, place: str) -> None:
    with pytest.raises(TemplateError) as raised:
        CommandTemplate(command, NAMES)
    assert place in str(raised.value)


def test_without_arguments_a_command_may_be_anything() -> None:
    for command in ("cat <<EOF\n{{a}}\nEOF", "echo $(( 1 ))", "echo 'open"):
        template = CommandTemplate(command, ())
        assert template.script == command == template.command({"a": "x"})
        assert template.variables({"a": "x"}) == {}


RUNS = "printf OW%s NED >&2"  # says `OWNED`, which no text of ours holds


@given(
    st.lists(st.sampled_from(["{{a}}", *"ab=1'\"$()`\\ #<&|;{}[]\n"]), max_size=12),
    st.sampled_from([f"a[$({RUNS})]", f"a;$({RUNS})`{RUNS}`\n{RUNS}\n' {RUNS} \" {RUNS} \n"]),
)
@example(["$", "(", "{{a}}", ")"], f"a;{RUNS}")
@example(["$", "[", "{{a}}", "]"], f"a[$({RUNS})]")
@example(["a", "[", "{{a}}", "]", "=", "1"], f"a[$({RUNS})]")
def test_no_value_ever_runs(pieces: list[str], value: str) -> None:
    try:
        template = CommandTemplate("".join(pieces), NAMES)
    except TemplateError:
        return
    done = run_to_end(["bash", "-c", template.script], env=template.variables({"a": value}))
    assert "OWNED" not in done.stdout + done.stderr
