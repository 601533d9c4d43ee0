from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_protocol.server.roots import Root
from eca_server.agent.tools.shell_words import NamedPaths, TouchedPaths, paths_in, touched_paths
from eca_server.workspace.boundary import Workspace

ENVIRON = {"HOME": "/home/me", "SECRETS": "/var/secrets"}


def named(command: str, folder: str = "/ws") -> NamedPaths:
    return paths_in(command, folder=folder, variables=ENVIRON)


def lexically_outside(command: str, folder: str = "/ws") -> bool:
    """Return True if a path leads out of /ws, by its text alone."""
    found = named(command, folder)
    paths = [os.path.normpath(path) for path in found.paths]
    return bool(found.unknown) or any(not f"{path}/".startswith("/ws/") for path in paths)


OUTSIDE = [
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
]  # fmt: skip

INSIDE = [
    "ls", "cat a b/c", "cat ./a", "cat a/../b", "cat /ws/a", "ls /ws", "cd sub && cat ../x",
    "cd sub && make | tee ../x", "cd a && cd b && cat ../../x", "cd sub && ls && cat ../x",
    "cat a > b", "cat a 2>/dev/null", "cat a > /dev/null 2>&1", "curl https://example.org/a/b",
    "git clone https://example.org/x.git sub", 'for f in *.py; do wc -l "$f"; done',
    "sed s/a/b/ x", "grep -r '.*foo' .", "ls .[!.]*", "echo $HOME_DIR", "X=1 make -j4",
    "cat $PWD/a", "pip install 'a>=1'", "git log HEAD~2..HEAD", "echo 50%", "cat a.b..c",
    "cat ...", "cat a && cat b || cat c; cat d", "git diff a..b", "make CFLAGS=-O2", "cat 'a b'",
    "curl 'https://x.org/?a=../b'", "git commit -m 'See http://x.org/../a and b'", "rm -rf a~",
    "gcc -Isrc/include -Lbuild/lib a.c", "git diff -Mmain..topic", "cat w../x", "sed s/a../b/ f",
    "git log -nHEAD~2", "seq -w1..5",
]  # fmt: skip


@pytest.mark.parametrize("command", OUTSIDE)
def test_a_path_that_leads_out_is_found(command):
    assert lexically_outside(command)


@pytest.mark.parametrize("command", INSIDE)
def test_what_stays_inside_is_not_taken_for_more(command):
    assert not lexically_outside(command)


def test_a_relative_word_counts_from_where_the_command_starts():
    assert not lexically_outside("cat ../x", "/ws/sub")
    assert lexically_outside("cat ../../x", "/ws/sub")
    assert "/ws/sub/a" in named("cat a", "/ws/sub").paths


def test_what_cannot_be_cut_or_is_too_much_is_reported():
    assert "quote" in named("cat 'a").unknown[0]
    assert named(" ".join(f"a{n}" for n in range(2_000))).unknown
    assert named("cd $X; X=1").unknown


@pytest.mark.parametrize(
    "part",
    [
        *["a.", "$a ", "'a' ", "cd a;", "a=", "[", "(", "a://", "-", "$'", "../", "#", "~", ".*"],
        *["-a", "-aa ", "sed w/", "http://a,", "-aa/,"],
    ],
)
def test_a_long_command_costs_no_more_than_its_length(part):
    started = time.monotonic()
    named(part * (30_000 // len(part)))
    assert time.monotonic() - started < 3  # minutes, if each part were compared with the others


places = st.sampled_from(["/etc/passwd", "../x", "~/x", "$HOME/x", "a/../../x", "'/etc'/x"])
innocent = st.sampled_from(["ls", "cat a", "echo 'x y'", "git log", "make -j2", "X=1 y", "cd sub"])
joins = st.sampled_from([";", " && ", " || ", " | ", "\n", " & "])
shapes = st.sampled_from(
    ["cat {}", "x > {}", "x --f={}", "(cat {})", "echo $(cat {})", "x <{}", 'sh -c "cat {}"']
)


@given(st.lists(innocent, max_size=3), st.lists(innocent, max_size=3), shapes, places, st.data())
def test_one_path_outside_is_found_in_any_place(before, after, shape, place, data):
    commands = [*before, shape.format(place), *after]
    text = commands[0]
    for command in commands[1:]:
        text += data.draw(joins) + command
    if place.endswith("../x") and "cd sub" in before:
        text = text.replace("../x", "../../../../x")
    assert lexically_outside(text)


@given(st.text(st.sampled_from(" ab/.~$'\"\\;|&<>(){}*\n=-"), max_size=40))
def test_no_text_makes_it_fail(command):
    found = named(command)
    assert all(path.startswith(("/", "~")) for path in found.paths)


@pytest.fixture
def house(tmp_path: Path) -> Path:
    root = tmp_path / "ws"
    (root / "sub").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    (root / "link").symlink_to(tmp_path / "other")
    return root


def judged(root: Path, *paths: str, command: str | None = None) -> TouchedPaths:
    workspace = Workspace([Root(name="ws", uri="", path=root, real_path=root.resolve())])
    return touched_paths(
        workspace,
        [workspace.locate(path) for path in paths],
        command=command,
        folder=str(root),
        variables={"HOME": str(root.parent)},
    )


def outside(root: Path, *paths: str, command: str | None = None) -> tuple[str, ...]:
    return judged(root, *paths, command=command).outside


def test_the_paths_of_a_call_are_judged_by_where_they_lead(house):
    assert outside(house, "sub/a", "new", str(house / "x")) == ()
    assert outside(house, "sub/a", "../x", "link/x", "/etc", "../x") == ("../x", "link/x", "/etc")


def test_a_path_that_leads_nowhere_counts_as_outside(house):
    (house / "circle").symlink_to("circle")
    command = f"cat circle {'a' * 5_000}"
    assert outside(house, command=command) == (f"{house}/circle", f"{house}/{'a' * 5_000}")


def test_a_place_is_judged_as_it_was_found(house):
    """The call opens the judged path, even if the path has changed."""
    workspace = Workspace([Root(name="ws", uri="", path=house, real_path=house.resolve())])
    places = [workspace.locate("link/x"), workspace.locate("sub/x")]
    (house / "link").unlink()
    (house / "link").mkdir()
    (house / "sub").rmdir()
    (house / "sub").symlink_to(house.parent / "other")
    found = touched_paths(workspace, places, folder=str(house), variables={})
    assert found.outside == ("link/x",)


def test_the_words_of_a_command_are_judged_by_where_they_lead(house):
    assert outside(house, command="cat sub/a && make > log 2>&1") == ()
    assert outside(house, command="cat link") == (f"{house}/link",)
    assert outside(house, command="cd sub && cat ../link/x") == (f"{house}/sub/../link/x",)
    assert outside(house, command="cat ~/x") == ("~/x",)
    assert "cd to an unknown folder" in outside(house, "sub", command="cd $(pwd)")


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
def test_the_disk_decides_on_a_word_with_two_meanings(house, command, path):
    for scheme in ("https:", "file:"):
        (house / scheme).symlink_to(house.parent / "other")
    names = {"other": house.parent / "other", "root": house}
    assert path.format(**names) in outside(house, command=command.format(**names))


@pytest.mark.parametrize(
    "command",
    [
        *["gcc -Isub/etc -Lsub/lib a.c", "gcc -Inew/include a.c", "cmake -Bbuild/new", "rg -tpy/x"],
        *["sed -es/aa/b/ x", "sed s/foor/bin/ x", "curl https://x.org/.github/workflows/ci.yml"],
        *["git clone https://x.org/.git", "curl -sL https://x.org/AGENTS.md", "tar -xzfsub/a.tgz"],
        *["git commit -m 'See https://x.org/AGENTS.md'", "curl https://x.org/A*", "ls -la."],
    ],
)
def test_a_word_with_two_meanings_is_no_path_unless_the_disk_confirms_it(house, command):
    assert judged(house, command=command) == TouchedPaths(outside=(), guarded=())


def test_a_guarded_path_behind_options_or_a_url_is_found(house):
    (house / "http:").mkdir()
    commands = ["sort -uo.git/hooks/x f", "sort -uoAGENTS.md f", "cp f http://.git/hooks/x"]
    assert all(judged(house, command=command).guarded for command in commands)
    assert judged(house, command="echo x > https://../.git/hooks/x").guarded


def test_a_workspace_without_roots_has_nothing_inside():
    workspace = Workspace([])
    places = [workspace.locate("/a")]
    found = touched_paths(workspace, places, command="ls", folder="/home", variables={}).outside
    assert found == ("/a", "/home/ls")


def test_what_decides_on_calls_is_distinguished_however_it_is_named(house):
    (house / ".eca").mkdir()
    (house / "settings").symlink_to(".eca")
    paths = (".eca/config.json", "settings/x", "sub/.GIT/hooks/a", "a.git", "sub/.ecarc")
    assert judged(house, *paths) == TouchedPaths(outside=(), guarded=paths[:3])
    command = "echo '{}' > .eca/config.json; git commit"
    assert judged(house, command=command).guarded == (f"{house}/.eca/config.json",)
