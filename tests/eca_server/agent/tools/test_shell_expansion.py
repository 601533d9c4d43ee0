"""A command judged as inside the workspace opens no file outside it in a real bash."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from eca_protocol.server.roots import Root
from eca_server.agent.tools.shell_expansion import Unsure, glob_matches, matches_parent, with_braces
from eca_server.agent.tools.shell_syntax import Word, tokenize
from eca_server.agent.tools.shell_words import TouchedPaths, touched_paths
from eca_server.workspace.boundary import Workspace

BASH = shutil.which("bash")
needs_bash = pytest.mark.skipif(BASH is None, reason="there is no bash")
# The files that a command would open, as bash names them: the folder, then the argument.
RECORDS = """() { local a; for a in "$@"; do
builtin printf '%s\\0%s\\0' "$(builtin pwd -P)" "$a" >> "$RECORD"; done; }"""

OF_THE_ISSUE = [
    "cat ~+/../outside/x", "cat {.,.}./outside/x", "cat ${PWD%ws}outside/x",
    "cat ${HOME:0:1}etc/hostname", "cat $'\\x2fetc/hostname'",
]  # fmt: skip
OTHERS = [
    "cat ~-/../outside/x", "x=.; cat $x$x/outside/x", "cat $(echo ..)/outside/x",
    "cat `echo .`./outside/x", "cat $(printf .)./outside/x", "cat .{.,x}/outside/x",
    "cat .{.,}/outside/x", "cat {.,{.,.}}./outside/x", "cat .'.'/outside/x", "cat .$x./outside/x",
    "cat ..$x/outside/x", "cat $'..'/outside/x", "cat $'\\56\\56'/outside/x", "cat l*k/x",
    "cat l?nk/x", "cat [l]ink/x", "cat sub/../l*/x", "cd sub && cat ../l*/x", "cat */x",
    "cd up && cat ../../outside/x", "cd up/.. && cat ../outside/x",
    "cd in && cd .. && cat ../outside/x",
    "eval 'cat {.,.}./outside/x'", "eval cat '{.,.}./outside/x'", "bash -c 'cat ~+/../outside/x'",
    "sh -c 'cat $PWD/../outside/x'", "echo 'cat {.,.}./outside/x' | bash",
    "bash <<< 'cat {.,.}./outside/x'", "bash <<E\ncat {.,.}./outside/x\nE",
    "cat <<E\n'\nE\ncat {.,.}./outside/x #'", "cat <<E\n$(cat {.,.}./outside/x)\nE",
    "echo \"$(cat {.,.}./outside/x)\"", "echo \"${x:-$(cat {.,.}./outside/x)}\"",
    "read x < f; cat $x", "printf -v x '%b' '\\x2e\\x2e'; cat $x/outside/x",
    ": ..; cat $_/outside/x",
    "set -- ..; cat $1/outside/x", "f() { cat $1/x; }; f ../outside", "cat ${x:-..}/outside/x",
    "cd sub; cd() { :; }; cd sub && cat ../../outside/x",
    "function cd { :; }\ncd sub && cat ../outside/x",
    "while :; do cat ../outside/x; cd ..; break; done",
    "cd sub; f() { cat ../outside/x; }; cd ..; f",
    "shopt -s extglob; cat sub/@(.)@(.)/../outside/x", "cat sub/$(echo ..)/../outside/x",
    "declare x=..; cat ${!y}$x/outside/x", "PS4='$(cat {.,.}./outside/x)'; set -x; ls",
    "trap 'cat {.,.}./outside/x' EXIT", "[ -v 'a[$(cat {.,.}./outside/x)]' ]",
    "x=sub; x+=/../..; cat $x/outside/x", "HOME=sub; cat ~/../../outside/x",
    "source /dev/stdin <<< 'ls'",
    "(printf .)./outside/x", "cat <(ls)/../../../outside", "IFS=e; cat $HOME", "cat $BASH",
    "$(echo cat) x", "c?t x", "for f in . ..; do cat $f/outside/x; done", "read x''y < f; cat a$xy",
    "for f in a; do :; done; cat b/$f/$g", "for x in .; do cat $x$x/outside/x; done",
    "cd li* && cat x", "CDPATH=..; cd outside && cat x",
]  # fmt: skip
INSIDE = [
    'for f in *.py; do wc -l "$f"; done', "for f in a b; do cat $f/x; done", "cp x{,.bak}",
    "mkdir -p src/{a,b}/{1..3}", 'echo "$(date) $x $((1+2))"', "x=$(git rev-parse HEAD); echo $x",
    "find . -name '*.py' -exec wc -l {} \\;", "git show HEAD@{1}", "printf '%s\\n' \"$x\"",
    "bash -c 'cat x && ls sub'", "bash build.sh", "cat <<E\nit's text\nE", "grep $'\\t' x",
    'if [ -n "$x" ]; then echo yes; fi', "awk '{print $1}' x", "python - <<'E'\nprint(x[0])\nE",
    "cat $PWD/x", "ls sub/d*", "cat sub/*.md", "sleep 1 & wait $!",
]  # fmt: skip


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a workspace with links that lead out, up and in, and files beside it."""
    root = tmp_path_factory.mktemp("house") / "ws"
    (root / "sub" / "deep" / "er").mkdir(parents=True)
    (root.parent / "outside").mkdir()
    for path in (root / "x", root / "sub" / "x", root.parent / "outside" / "x", root / "f"):
        path.write_text("../outside/x\n")
    (root / "link").symlink_to(root.parent / "outside")
    (root / "up").symlink_to("sub")
    (root / "in").symlink_to("sub/deep/er")
    (root / "sub" / "top").symlink_to("..")
    return root


def environment(root: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(root.parent), "DOT": ".", "DEEP": "sub/deep"}


def judged(root: Path, command: str, folder: Path | None = None) -> TouchedPaths:
    workspace = Workspace([Root(name="ws", uri="", path=root, real_path=root.resolve())])
    return touched_paths(
        workspace, [], command=command, folder=str(folder or root), variables=environment(root)
    )


@pytest.mark.parametrize("command", [*OF_THE_ISSUE, *OTHERS])
def test_a_command_that_may_lead_out_asks(house, command):
    assert judged(house, command).outside


@pytest.mark.parametrize("command", INSIDE)
def test_a_command_that_stays_inside_does_not_ask(house, command):
    assert judged(house, command) == TouchedPaths(outside=(), guarded=())


@pytest.mark.parametrize(
    "command",
    [
        "cat .gi?/config", "cat .ec*/config.json", "cat sub/.GI[T]/x", "tee .{git,x}/config",
        "rm -r .g''it", "echo x > AGENTS.md", "sed -i s/a/b/ AG*.md", "cp x .vscode/tasks.json",
        "mv x .github", "touch sub/.envrc", "cat > .nvim.lua <<E\nx\nE",
        "echo x >> sub/deep/Claude.md",
    ],
)  # fmt: skip
def test_a_command_that_may_change_a_guarded_path_asks(house, command):
    assert judged(house, command).guarded


@pytest.mark.parametrize("command", ["cat AGENTS.md", "git diff .github", "ls .vscode | head -3"])
def test_a_command_that_only_reads_guarded_paths_does_not_ask(house, command):
    assert judged(house, command) == TouchedPaths(outside=(), guarded=())


def test_a_glob_asks_for_the_guarded_files_it_matches(tmp_path):
    assert judged(tmp_path, "sed -i s/a/b/ *.md") == TouchedPaths(outside=(), guarded=())
    (tmp_path / "AGENTS.md").touch()
    assert judged(tmp_path, "sed -i s/a/b/ *.md").guarded == (f"{tmp_path}/AGENTS.md",)
    assert judged(tmp_path, "wc -l *.md") == TouchedPaths(outside=(), guarded=())


PIECES = [
    ".", ".", "..", "/", "/", "x", "sub", "link", "up", "in", "top", "outside", "deep", "''", '""',
    "'.'", '"."', "\\.", "$DOT", "${DOT}", '"$DOT"', "$DEEP", "$PWD", "~", "~+", "~-", "{.,x}",
    "{.,.}", "{x,sub}", "{,.}", "{..}", "{a..c}", "*", "?", "[.]", "l*", "s?b", "[u-v]p", "t*",
    "$(echo .)", "`echo .`", '"$(echo ..)"', "$'.'", "$'\\x2e'", '$"."', "${DOT:-x}", "${a-.}",
    "$a", "${a}", '"$a"', "$_", "$OLDPWD", "$((1))", ",", "{", "}", "-", "=", ":", "\\\n",
]  # fmt: skip
SHAPES = [
    "cat {0}", "cat -o{0}", "cat --file={0}", "cat x {0}", "a={0}; cat {1}", "a={0} cat {1}",
    "cd {0} && cat {1}", "cd {0}; cat {1}", "cd {0} || cat {1}", "(cd {0} && cat {1}); cat {0}",
    "for a in {0} {1}; do cat {2}; done", "for a in x {0}; do cat {1}; cd {2}; done",
    "eval 'cat {0}'", 'eval "cat {0}"', "eval cat '{0}'", "bash -c 'cat {0}'", "echo $(cat {0})",
    'echo "`cat {0}`"', "cat <<E {0}\n{1}\nE\ncat {2}", "cat <<'E'\n{0}\nE\ncat {1}",
    "f() {{ cat {0}; }}; cd {1}; f", "if cd {0}; then cat {1}; fi", "true # {0}\ncat {1}",
    "cd {0} && cd {1} && cat {2}", "a=({0} {1}); cat ${{a[1]}}", "pushd {0} && cat {1}",
    "export a={0}; bash -c 'cat {1}'", "case x in x) cat {0};; esac", "case x in x)cat {0};; esac",
    "! cat {0} && cat {1} & wait", "cat x{0}<x", "echo {0} | while read a; do cat $a; done",
]  # fmt: skip
words = st.lists(st.sampled_from(PIECES), min_size=1, max_size=6).map("".join)


@needs_bash
@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.sampled_from(SHAPES),
    st.tuples(words, words, words),
    st.sampled_from([".", "sub", "sub/deep"]),
)
def test_nothing_judged_as_inside_leads_bash_outside(house, shape, given_words, start):
    command = shape.format(*given_words)
    folder = house / start
    if judged(house, command, folder).outside:
        return
    for opened in opened_by_bash(house, command, folder):
        real = os.path.realpath(opened)
        assert f"{real}/".startswith(f"{house}/"), (command, opened)


def opened_by_bash(root: Path, command: str, folder: Path) -> list[str]:
    assert BASH is not None
    record = root.parent / "record"
    record.write_bytes(b"")
    variables = environment(root) | {"BASH_FUNC_cat%%": RECORDS, "RECORD": str(record)}
    subprocess.run(
        [BASH, "-c", command], cwd=folder, env=variables, capture_output=True, check=False,
        stdin=subprocess.DEVNULL, timeout=20,
    )  # fmt: skip
    fields = record.read_bytes().split(b"\0")[:-1]
    return [
        f"{os.fsdecode(fields[at])}/{os.fsdecode(fields[at + 1])}"
        if not fields[at + 1].startswith(b"/")
        else os.fsdecode(fields[at + 1])
        for at in range(0, len(fields), 2)
    ]


@needs_bash
def test_bash_is_recorded_as_it_opens_files(house):
    opened = opened_by_bash(house, "cd sub; cat {.,x} $(echo y); bash -c 'cat z'", house)
    assert opened == [f"{house}/sub/{name}" for name in (".", "x", "y", "z")]


@needs_bash
@settings(max_examples=60, deadline=None)
@given(st.text(st.sampled_from("{},.ab13"), min_size=1, max_size=14))
def test_braces_become_every_word_that_bash_makes_of_them(text):
    assert BASH is not None
    (word,) = tokenize(text)
    assert isinstance(word, Word)
    real = subprocess.run(
        [BASH, "-c", f"set -f; printf '%s\\n' {text}"], capture_output=True, check=False, text=True
    )
    try:
        ours = [each.text for each in with_braces(word)]
    except Unsure:
        return
    assert set(real.stdout.split()) <= set(ours)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (".*", True), (".?", True), (".[.]", True), (".[!a]", True), (".[[:punct:]]", True),
        (".[!.]*", False), (".x*", False), ("*", False), ("..", False),
    ],
)  # fmt: skip
def test_a_glob_that_may_match_the_parent_folder_is_known(pattern, expected):
    assert matches_parent(pattern) is expected


def test_a_glob_matches_what_is_there_and_has_a_limit(tmp_path):
    for name in ("a.py", "b.py", ".c.py"):
        (tmp_path / name).touch()
    assert sorted(glob_matches(f"{tmp_path}/*.py")) == [f"{tmp_path}/a.py", f"{tmp_path}/b.py"]
    assert glob_matches(f"{tmp_path}/.*.py") == [f"{tmp_path}/.c.py"]
    assert glob_matches(f"{tmp_path}/[[:alpha:]].py") == [
        path for path in glob_matches(f"{tmp_path}/*") if path.endswith(".py")
    ]
    (tmp_path / "many").mkdir()
    for number in range(2_001):
        (tmp_path / "many" / str(number)).touch()
    with pytest.raises(Unsure):
        glob_matches(f"{tmp_path}/many/*")
