"""The paths that a command names: judged as inside only if a real bash stays inside as well."""

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from eca_server.agent.tools import shell_expansion
from eca_server.agent.tools.command_keys import command_parts
from eca_server.agent.tools.read_only_commands import why_not_read_only
from eca_server.agent.tools.shell_expansion import Unsure, glob_matches, matches_parent, with_braces
from eca_server.agent.tools.shell_syntax import Unreadable, Variables, tokenize
from eca_server.agent.tools.shell_words import NamedPaths, TouchedPaths, paths_in, touched_paths
from eca_server.workspace.boundary import Workspace
from tests.eca_server.agent.tools.file_tools import workspace_of

BASH = shutil.which("bash")
needs_bash = pytest.mark.skipif(BASH is None, reason="there is no bash")
ENVIRON = {"HOME": "/home/me"}
NOTHING = TouchedPaths(outside=(), guarded=())


def named(command: str, folder: str = "/ws") -> NamedPaths:
    return paths_in(command, folder=folder, variables=ENVIRON)


def test_what_cannot_be_cut_or_is_too_much_is_reported():
    assert "/ws/sub/a" in named("cat a", "/ws/sub").paths
    assert "quote" in named("cat 'a").unknown[0]
    assert named(" ".join(f"a{n}" for n in range(2_000))).unknown
    assert named("cd $X; X=1").unknown


@pytest.mark.long(but=5)
@pytest.mark.parametrize(
    "part",
    [
        *["a.", "$a ", "'a' ", "cd a;", "a=", "[", "(", "a://", "-", "$'", "../", "#", "~", ".*"],
        *["-a", "-aa ", "sed w/", "http://a,", "-aa/,", "x", "x["],
    ],
)
def test_a_long_command_costs_no_more_than_its_length(part):
    started = time.process_time()
    named(part * (20_000 // len(part)))
    assert (
        time.process_time() - started < 1
    )  # half a minute, if each part were compared with the others


outside_places = st.sampled_from(["/etc/passwd", "../x", "~/x", "$HOME/x", "a/../../x", "'/etc'/x"])
innocent = st.sampled_from(["ls", "cat a", "echo 'x y'", "git log", "make -j2", "X=1 y", "cd sub"])
joints = st.sampled_from([";", " && ", " || ", " | ", "\n", " & "])
shapes = st.sampled_from(
    ["cat {}", "x > {}", "x --f={}", "(cat {})", "echo $(cat {})", "x <{}", 'sh -c "cat {}"']
)


@given(
    st.lists(innocent, max_size=3),
    st.lists(innocent, max_size=3),
    shapes,
    outside_places,
    st.data(),
)
def test_one_path_outside_is_found_in_any_place(house, before, after, shape, place, data):
    commands = [*before, shape.format(place), *after]
    text = commands[0]
    for command in commands[1:]:
        text += data.draw(joints) + command
    if place.endswith("../x") and "cd sub" in before:
        text = text.replace("../x", "../../../../x")
    assert judged(house, text).outside


@given(st.text(st.sampled_from(" \t'\"\\ab$#/.-=*~2;|&<>(){}`\n!lsrm"), max_size=40))
def test_no_text_makes_a_judge_fail(command):
    assert all(path.startswith(("/", "~")) for path in named(command).paths)
    assert why_not_read_only(command) is None or why_not_read_only(command)
    command_parts(command, folder="/", workspace=Workspace([]), path="")
    try:
        tokens = tokenize(command, Variables(values=ENVIRON))
    except Unreadable:
        return
    assert all(isinstance(token.text, str) for token in tokens)


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


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    """Create a workspace with a link that leads out, which a test may change."""
    (tmp_path / "ws" / "sub").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "ws" / "link").symlink_to(tmp_path / "other")
    return tmp_path / "ws"


def environment(root: Path) -> dict[str, str]:
    more = {"DOT": ".", "DEEP": "sub/deep", "SECRETS": "/var/secrets"}
    return {"PATH": os.environ["PATH"], "HOME": str(root.parent), **more}


def judged(
    root: Path, command: str | None, *paths: str, folder: Path | None = None
) -> TouchedPaths:
    workspace = workspace_of(root)
    return touched_paths(
        workspace,
        [workspace.locate(path) for path in paths],
        command=command,
        folder=str(folder or root),
        variables=environment(root),
    )


def test_paths_and_words_are_judged_by_where_they_lead(ws):
    assert judged(ws, None, "sub/a", "new", str(ws / "x")) == NOTHING
    outside = judged(ws, None, "sub/a", "../x", "link/x", "/etc", "../x").outside
    assert outside == ("../x", "link/x", "/etc")
    assert judged(ws, "cat sub/a && make > log 2>&1") == NOTHING
    assert judged(ws, "cat ../sub/x", folder=ws / "sub") == NOTHING
    assert judged(ws, "cat ../../x", folder=ws / "sub").outside
    assert judged(ws, "cat link").outside == (f"{ws}/link",)
    assert judged(ws, "cd sub && cat ../link/x").outside == (f"{ws}/sub/../link/x",)
    assert judged(ws, "cat ~/x").outside == ("~/x",)
    assert "cd to an unknown folder" in judged(ws, "cd $(pwd)", "sub").outside
    (ws / "circle").symlink_to("circle")  # what leads nowhere counts as outside
    outside = judged(ws, f"cat circle {'a' * 5_000}").outside
    assert outside == (f"{ws}/circle", f"{ws}/{'a' * 5_000}")


def test_a_place_is_judged_as_it_was_found(ws):
    """The call opens the judged path, even if the path has changed."""
    workspace = workspace_of(ws)
    places = [workspace.locate("link/x"), workspace.locate("sub/x")]
    (ws / "link").unlink()
    (ws / "link").mkdir()
    (ws / "sub").rmdir()
    (ws / "sub").symlink_to(ws.parent / "other")
    judgement = touched_paths(workspace, places, folder=str(ws), variables={})
    assert judgement.outside == ("link/x",)


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("sort -uo{other}/x f", "{other}/x"),
        ("grep -hof{other}/x f", "{other}/x"),
        ("sed -n w{other}/x f", "{other}/x"),
        ("cp -vtlink/x f", "{root}/link/x"),
        ("cat https://x", "{root}/https://x"),
        ("cat --file=https://x", "{root}/https://x"),
        ("cat file://x", "{root}/file://x"),
    ],
)
def test_the_disk_decides_on_a_word_with_two_meanings(ws, command, path):
    for scheme in ("https:", "file:"):
        (ws / scheme).symlink_to(ws.parent / "other")
    names = {"other": ws.parent / "other", "root": ws}
    assert path.format(**names) in judged(ws, command.format(**names)).outside


def test_a_guarded_path_behind_options_or_a_url_is_found(ws):
    (ws / "http:").mkdir()
    for command in ("sort -uo.git/hooks/x f", "sort -uoAGENTS.md f", "cp f http://.git/hooks/x"):
        assert judged(ws, command).guarded
    assert judged(ws, "echo x > https://../.git/hooks/x").guarded


def test_a_workspace_without_roots_has_nothing_inside():
    workspace = Workspace([])
    places = [workspace.locate("/a")]
    outside = touched_paths(workspace, places, command="ls", folder="/home", variables={}).outside
    assert outside == ("/a", "/home/ls")


def test_what_decides_on_calls_is_distinguished_however_it_is_named(ws):
    (ws / ".eca").mkdir()
    (ws / "settings").symlink_to(".eca")
    paths = (".eca/config.json", "settings/x", "sub/.GIT/hooks/a", "a.git", "sub/.ecarc")
    assert judged(ws, None, *paths) == TouchedPaths(outside=(), guarded=paths[:3])
    command = "echo '{}' > .eca/config.json; git commit"
    assert judged(ws, command).guarded == (f"{ws}/.eca/config.json",)


def test_a_glob_asks_for_the_guarded_files_it_matches(ws):
    assert judged(ws, "sed -i s/a/b/ *.md") == NOTHING
    (ws / "AGENTS.md").touch()
    assert judged(ws, "sed -i s/a/b/ *.md").guarded == (f"{ws}/AGENTS.md",)
    assert judged(ws, "wc -l *.md") == NOTHING


LEADING_OUT = [
    "cat /etc/passwd", "cat '/etc/passwd'", "cat /e'tc'/passwd", "cat \\/etc/passwd", "ls /",
    "cat ../x", "cat a/../../x", "ls ..", "cat ~/x", "ls ~", "ls ~root", "cat $HOME/x",
    'cat "${HOME}/x"', "cat $SECRETS", "cat $UNSET/etc/passwd", "cat a>/mnt/x", "cat a > ../x",
    "cat <../x", "ls 2>>/mnt/x", "ls &>/mnt/x", "cat<<</etc/x", "x --file=/etc/x", "x -C/etc",
    "x -C..", "x -o ../y", "scp a:/etc/x .", "docker run -v /etc:/x y", "dd if=/dev/sda",
    "X=/etc/x cat", "PATH=a:/b ls", "cd ..", "cd /", "cd", "cd && ls", "cd -", "cd $(pwd)",
    'cd "$X" # X', "pushd ..", "cd sub && cat ../../x", "cd sub; cat ../x", "cd sub || cat ../x",
    "true || cd sub && cat ../x", "a | cd sub && cat ../x", "cd sub | a && cat ../x",
    "(cd sub) && cat ../x", "! cd sub && cat ../x", "cd sub && ls; cat ../x",
    "cd sub && ls & cat ../x", "if x; then cd sub; fi; cat ../x", "cd sub/.. && cat ../x",
    "bash -c 'cat /etc/passwd'", "python -c \"open('/etc/passwd')\"", "python -c \"open('../x')\"",
    "cat $(echo /etc/passwd)", "cat `echo /etc/passwd`", 'echo "$(cat /etc/passwd)"',
    "cat {/etc,a}/passwd", "cat file:///etc/passwd", "curl file:///etc/passwd",
    "cat <<E\n/etc/passwd\nE", "ls # /etc", "cat .*/x", "cat .?/x", "ls .*", "cat .[.]/x",
    "d=/etc; cat $d/passwd", "d=..; cat $d/x", "d=; cat $d/etc/passwd", "/bin/ls",
    "cat $'\\x2fetc' 'unclosed", "rm -rf -- ../x", "tar -xf a -C ..", 'sh -c "cd .. ; ls"',
    "cat http://../../x", "echo x > http://../../x", "x --file=a://b/../../../x", "x -oa://../../x",
    "cat http://.?/.?/x", "cat 'x,http://../../x'", "curl FILE:///etc/x", "date -uf../x",
    "sort -uo../out f", "tar -czf../x.tgz f", "cp -vt.. f", "make -sC.. x", "x -v1o../x",
    "x -uuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuo../x", "x -uo~/x", "sed w../x f",
    "sed 's/a/b/w../x' f", "/bin/sed '$r../x' f",
    "cat ~+/../outside/x", "cat {.,.}./outside/x", "cat ${PWD%ws}outside/x",
    "cat ${HOME:0:1}etc/hostname", "cat $'\\x2fetc/hostname'",
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
    "cd li* && cat x", "CDPATH=..; cd outside && cat x", "for f in $(ls); do cat $f; done",
    "export x=$(cat {.,.}./outside/x)", "cat " + "{,}" * 2_000,
    # Expansions that run the code in a value.
    "echo '$(ls)' ${BASH_EXECUTION_STRING@P}", "echo '$(ls)' \"${BASH_COMMAND@P}\"",
    "x='a['; x+='$(ls)]'; echo ${!x}", "x='a['; x+='$(ls)]'; echo $((x))",
    "x='a['; y='$(ls)]'; echo $(( 1 + $x$y ))", "x='a['; x+='$(ls)]'; y=$((x))",
    "x='a['; x+='$(ls)]'; echo ${PWD:x}", "x='a['; x+='$(ls)]'; echo ${PWD[x]}",
    "x=$(cat f); echo $(echo $((x)))", "read x < f; [[ x -eq 1 ]]", "read x < f; (( x ))",
    "x=$(cat f); let y=x", "x=$(cat f); declare -i y; y=x", "x=$(cat f); y[x]=1",
    "for x in $(cat f); do echo $((x)); done", "x=$(cat f); export x; bash -c 'echo $((x))'",
    "x=$(cat f); eval 'echo $((x))'", "eval 'x=$(cat f)'; echo $((x))", "printf -v x %s a; (( x ))",
    ": ${x:=a[}; echo $((x))", "mapfile -t x < f; echo $((x))",
    "x=$(cat f); sleep 0 & wait -n -p \"$x\"", "x=$(cat f); v=-v; [ $v \"$x\" ]",
    "x=$(cat f); v=-v; test \"$v\" \"$x\"", "x=$(cat f); [ $x ]", "x=$(cat f); echo ${@:x}",
    "x=$(cat f); unset 'y[x]'", "set -- 'a[' '$(ls)]'; echo $(( $1$2 ))",
    ": a[${HOME:0:0}\"\\$\"${HOME:0:0}\"(ls)]\"; echo $((_))",
]  # fmt: skip
STAYING_INSIDE = [
    "ls", "cat a b/c", "cat ./a", "cat a/../b", "cd sub && cat ../x",
    "cd sub && make | tee ../x", "cd a && cd b && cat ../../x", "cd sub && ls && cat ../x",
    "cat a > b", "cat a 2>/dev/null", "cat a > /dev/null 2>&1", "curl https://example.org/a/b",
    "git clone https://example.org/x.git sub",
    "sed s/a/b/ x", "grep -r '.*foo' .", "echo $HOME_DIR", "X=1 make -j4",
    "cat $PWD/a", "pip install 'a>=1'", "git log HEAD~2..HEAD", "echo 50%", "cat a.b..c",
    "cat ...", "cat a && cat b || cat c; cat d", "git diff a..b", "make CFLAGS=-O2", "cat 'a b'",
    "curl 'https://x.org/?a=../b'", "git commit -m 'See http://x.org/../a and b'", "rm -rf a~",
    "git diff -Mmain..topic", "cat w../x", "sed s/a../b/ f",
    "git log -nHEAD~2", "seq -w1..5",
    'for f in *.py; do wc -l "$f"; done', "for f in a b; do cat $f/x; done", "cp x{,.bak}",
    "mkdir -p src/{a,b}/{1..3}", 'echo "$(date) $x $((1+2))"', "x=$(git rev-parse HEAD); echo $x",
    "find . -name '*.py' -exec wc -l {} \\;", "git show HEAD@{1}", "printf '%s\\n' \"$x\"",
    "bash -c 'cat x && ls sub'", "bash build.sh", "cat <<E\nit's text\nE", "grep $'\\t' x",
    'if [ -n "$x" ]; then echo yes; fi', "awk '{print $1}' x", "python - <<'E'\nprint(x[0])\nE",
    "cat $PWD/x", "ls sub/d*", "cat sub/*.md", "sleep 1 & wait $!",
    "cat AGENTS.md", "git diff .github", "ls .vscode | head -3", "export x=$(git rev-parse HEAD)",
    # Words with two meanings are no paths unless the disk confirms it.
    "gcc -Isub/etc -Lsub/lib a.c", "gcc -Inew/include a.c", "cmake -Bbuild/new", "rg -tpy/x",
    "sed -es/aa/b/ x", "sed s/foor/bin/ x", "curl https://x.org/.github/workflows/ci.yml",
    "i=0; while [ $i -lt 3 ]; do i=$((i+1)); echo $i; done", "x=$(ls); echo ${x:0:3} ${#x}",
    "for i in 1 2; do echo $((i * 2)); done", "x=$(ls); [ -n \"$x\" ] && [ \"$x\" = y ]",
    "x=$(ls); [[ a == b ]] && echo $((1 + 2))",
    "git clone https://x.org/.git", "curl -sL https://x.org/AGENTS.md", "tar -xzfsub/a.tgz",
    "git commit -m 'See https://x.org/AGENTS.md'", "curl https://x.org/A*", "ls -la.",
]  # fmt: skip
GUARDED = [
    "cat .gi?/config", "cat .ec*/config.json", "cat sub/.GI[T]/x", "tee .{git,x}/config",
    "rm -r .g''it", "echo x > AGENTS.md", "sed -i s/a/b/ AG*.md", "cp x .vscode/tasks.json",
    "mv x .github", "touch sub/.envrc", "cat > .nvim.lua <<E\nx\nE",
    "echo x >> sub/deep/Claude.md",
]  # fmt: skip


def test_a_command_that_may_lead_out_or_change_a_guarded_path_asks_and_no_other(house):
    assert [command for command in LEADING_OUT if not judged(house, command).outside] == []
    assert [command for command in GUARDED if not judged(house, command).guarded] == []
    assert [command for command in STAYING_INSIDE if judged(house, command) != NOTHING] == []


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
    max_examples=max(75, settings.default.max_examples),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.sampled_from(SHAPES),
    st.tuples(words, words, words),
    st.sampled_from([".", "sub", "sub/deep"]),
)
def test_nothing_judged_as_inside_leads_bash_outside(house, shape, given_words, start):
    command = shape.format(*given_words)
    folder = house / start
    if judged(house, command, folder=folder).outside:
        return
    for opened in opened_by_bash(house, command, folder):
        real = os.path.realpath(opened)
        assert f"{real}/".startswith(f"{house}/"), (command, opened)


# The files that a command would open, as bash names them: the folder, then the argument.
RECORDS = """() { local a; for a in "$@"; do
builtin printf '%s\\0%s\\0' "$(builtin pwd -P)" "$a" >> "$RECORD"; done; }"""


def opened_by_bash(root: Path, command: str, folder: Path) -> list[str]:
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
    (word,) = tokenize(text)
    real = subprocess.run(
        [BASH, "-c", f"set -f; printf '%s\\n' {text}"], capture_output=True, check=False, text=True
    )
    try:
        ours = [each.text for each in with_braces(word)]
    except Unsure:
        return
    assert set(real.stdout.split()) <= set(ours)


def test_a_glob_that_may_match_the_parent_folder_is_known():
    assert all(map(matches_parent, [".*", ".?", ".[.]", ".[!a]", ".[[:punct:]]"]))
    assert not any(map(matches_parent, [".[!.]*", ".x*", "*", ".."]))


def test_a_glob_matches_what_is_there_and_has_a_limit(tmp_path, monkeypatch):
    for name in ("a.py", "b.py", ".c.py"):
        (tmp_path / name).touch()
    assert sorted(glob_matches(f"{tmp_path}/*.py")) == [f"{tmp_path}/a.py", f"{tmp_path}/b.py"]
    assert glob_matches(f"{tmp_path}/.*.py") == [f"{tmp_path}/.c.py"]
    assert glob_matches(f"{tmp_path}/[[:alpha:]].py") == glob_matches(f"{tmp_path}/*")
    monkeypatch.setattr(shell_expansion, "_MOST_MATCHES", 1)
    with pytest.raises(Unsure):
        glob_matches(f"{tmp_path}/*")
