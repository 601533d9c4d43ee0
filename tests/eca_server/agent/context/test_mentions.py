import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_protocol.messages import LinesRange
from eca_server.agent.context.mentions import (
    ResolvedMention,
    find_mentions,
    mention_of,
    resolve_mention,
    typed_mention,
)
from eca_server.workspace.boundary import Workspace
from tests.eca_server.agent.context.conftest import root_of


def followed(message: str, workspace: Workspace) -> list[ResolvedMention | str | None]:
    return [resolve_mention(each, workspace) for each in find_mentions(message, most=100)]


def paths(message: str, workspace: Workspace) -> list[str]:
    """Return the files read for a message, relative to the first root; expect no notes."""
    mention = [each for each in followed(message, workspace) if each is not None]
    assert all(isinstance(each, ResolvedMention) for each in mention), mention
    root = workspace.roots[0].real_path
    return [each.place.real_path.relative_to(root).as_posix() for each in mention]


@pytest.fixture
def files(project: Path) -> Path:
    (project / "src").mkdir()
    for name in ("a.py", "src/b.py", "src/with space.md", "src/c.py.", "資料.md"):
        (project / name).write_text("x\n")
    return project


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("look at @a.py", ["a.py"]),
        ("@./a.py and @src/b.py", ["a.py", "src/b.py"]),
        ("(see @src/b.py).", ["src/b.py"]),
        ("@a.py's end, **@src/b.py**", ["a.py", "src/b.py"]),
        ("@a.py,@src/b.py;", ["a.py", "src/b.py"]),
        ("what is in @src/?", ["src"]),
        ("@./src", ["src"]),
        ('@"src/with space.md"', ["src/with space.md"]),
        ("@src/c.py.", ["src/c.py."]),
        ("@src/../a.py", ["a.py"]),
        ("```\n@src/b.py\n```\n@a.py", ["a.py"]),
        ("请看@src/b.py。", ["src/b.py"]),
        ("「@a.py」と@src/b.pyを読んで、@資料.mdも", ["a.py", "src/b.py", "資料.md"]),
        ("“@a.py”，@src/b.py（…）", ["a.py", "src/b.py"]),
        ("@資料.md（@資料）\u3000@src/b.pyと", ["資料.md", "src/b.py"]),
    ],
)
def test_a_path_after_an_at_sign_is_found(files, workspace, message, expected):
    assert paths(message, workspace) == expected


def test_absolute_paths_those_from_the_home_and_those_of_other_roots_are_found(
    files, workspace, tmp_path, monkeypatch
):
    monkeypatch.setenv("HOME", str(files.parent))
    assert paths(f"@{files}/a.py @~/project/src/b.py", workspace) == ["a.py", "src/b.py"]
    other = tmp_path / "other"
    other.mkdir()
    (mention,) = followed("@src/b.py", Workspace([root_of(other), root_of(files)]))
    assert mention.place.path == files / "src/b.py"


@pytest.mark.parametrize(
    ("mention", "lines"),
    [
        ("@src/b.py:L3-L9", (3, 9)),
        ("@src/b.py:L3-9", (3, 9)),
        ("@src/b.py:L3", (3, 3)),
        ("@src/b.py:L3-L9.", (3, 9)),
        ("@src/b.py:L3-L9を", (3, 9)),
        ('@"src/with space.md":L2', (2, 2)),
    ],
)
def test_lines_may_follow_a_path(files, workspace, mention, lines):
    (resolved,) = followed(mention, workspace)
    assert resolved.lines == LinesRange(start=lines[0], end=lines[1])


@pytest.mark.parametrize(
    "message",
    [
        "write to me@a.py or git@src/b.py",
        "@property and @dataclass(frozen=True)",
        "npm i @types/node @angular/core",
        "import B from '@/components/Button'",
        "@src is a word",
        "```python\n@a.py\n```\n",
        "~~~\n@src/b.py",
        "a @ b @@ c @",
        "@",
        "@pipe",
        f'@"nul\0" @{"x" * 5_000} @{"x" * 300}/y @\udcff/x',
    ],
    ids=range(11),
)
def test_an_at_sign_that_means_no_file_is_left_alone(files, workspace, message):
    os.mkfifo(files / "pipe")
    assert [each for each in followed(message, workspace) if each is not None] == []


@pytest.mark.parametrize(
    "mention",
    ["@./missing.py", "@src/missing.py", "@missing/../missing.py", "@src/b.py:3", "@src/資料.py"],
)
def test_a_missing_file_is_reported_where_its_folder_is_there(files, workspace, mention):
    assert followed(mention, workspace) == [f"{mention} was not read: the file does not exist"]


@pytest.mark.parametrize(
    "mention",
    ["@OUTSIDE/secret", "@../outside/secret", "@./link", "@folder/secret", "@link", "what in @~ ?"],
)
def test_a_mention_outside_the_roots_is_not_read(project, outside, workspace, monkeypatch, mention):
    monkeypatch.setenv("HOME", str(outside))
    (project / "link").symlink_to(outside / "secret")
    (project / "folder").symlink_to(outside)
    mention = mention.replace("OUTSIDE", str(outside))
    (note,) = followed(mention, workspace)
    assert "was not read: it is outside the workspace" in note
    assert followed("@secret", Workspace([])) == [None]
    (note,) = followed(f"@{outside}/secret", Workspace([]))
    assert "outside the workspace" in note


def test_a_completed_mention_is_read_as_the_whole_path():
    paths = ["a.py", "a b", "資料　最終.md", "a,b", "it's", "a`b", "資@料", "a\xa0b", "src/資料.md"]
    for path in paths:
        (mention,) = find_mentions(f"look at {mention_of(path)} and", most=2)
        assert mention.targets[0].path == path
    assert [mention_of("資料.md"), mention_of("a b")] == ["@資料.md", '@"a b"']


def test_a_mention_can_be_completed_while_it_is_typed():
    texts = ["@", "see @sr", "a\n@", "请看@sr", "見て　@資料", "@a.pyと@b", "(@a", "me@a", "@a b"]
    mentions = ["@", "@sr", "@", "@sr", "@資料", "@b", "@a", "", "", "", ""]
    assert [typed_mention(each) for each in [*texts, "@a,", ""]] == mentions


def test_each_mention_counts_once_and_no_more_are_followed_than_asked_for():
    assert [each.text for each in find_mentions("@a @b @a. @a", most=100)] == ["@a", "@b"]
    assert [each.text for each in find_mentions("@a @b @c", most=2)] == ["@a", "@b"]
    for piece in ("@", "@a", "@ ", "```\n", '@"', "~~~\n```\n", "@a:L1-", " @/"):
        started = time.process_time()
        find_mentions(piece * 30_000, most=30_000)
        assert time.process_time() - started < 0.6, piece


@given(
    pieces=st.lists(st.sampled_from(["@", "a", "/", ".", "..", "~", " ", '"', ":L1", "é", "\n"]))
)
def test_whatever_is_written_only_what_lies_in_a_root_is_found(pieces, tmp_path_factory):
    folder = tmp_path_factory.getbasetemp() / "mentions"
    (folder / "a" / "a").mkdir(parents=True, exist_ok=True)
    workspace = Workspace([root_of(folder / "a")])
    for each in followed("".join(pieces), workspace):
        if isinstance(each, ResolvedMention):
            assert each.place.is_inside
            assert each.place.real_path.is_relative_to(workspace.roots[0].real_path)
