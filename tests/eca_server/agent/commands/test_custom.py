"""Custom commands: their files, and the replacement of their placeholders."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_protocol.messages import WorkspaceFolder
from eca_protocol.server.roots import parse_roots
from eca_server.agent.commands.custom import (
    CommandFiles,
    CommandList,
    CustomCommand,
    TooLong,
    parse_command,
    words_of,
)
from eca_server.workspace.boundary import Workspace


def command(text: str) -> CustomCommand:
    return CustomCommand(name="c", description="", text=text)


@pytest.mark.parametrize(
    ("text", "argument_text", "expected"),
    [
        ("fix $1 in $2", "a b c", "fix a in b"),
        ("fix $ARG1 in $ARG2", "a b", "fix a in b"),
        ("all: $ARGS.", ' a  "b c"', 'all:  a  "b c".'),
        ("all: $ARGUMENTS", "a", "all: a"),
        ("$1|$2", "'a b' \"c d\"", "a b|c d"),
        ("$1|$2", "don't stop", "don't|stop"),
        ("$1|$2", '"a b', '"a|b'),
        ("$1|$2|$3", "a", "a||"),
        ("$10", "a b c d e f g h i j", "j"),
        ("$100 and $0 and $ARGSX", "a", "$100 and $0 and $ARGSX\n\na"),
        (r"awk \$1 $1", "x", "awk $1 x"),
        (r"awk \$1", "x", "awk $1\n\nx"),
        ("$1 $2", "$2 $ARGS", "$2 $ARGS"),
        (
            "{{city}} in {{ units }}, {{city}}",
            "'Sao Paulo' metric",
            "Sao Paulo in metric, Sao Paulo",
        ),
        ("{{a}}0 {{b}}", "x y z", "x0 y z"),
        ("{{a}}|{{b}}", "{{b}}", "{{b}}|"),
        ("$1 {{a}}", "x", "x {{a}}"),
        (r"\$1 {{a}}", "x", "$1 x"),
        ("{{ 1 }} {a} {{}}", "", "{{ 1 }} {a} {{}}"),
        ("no placeholder", "", "no placeholder"),
        ("no placeholder", "a b", "no placeholder\n\na b"),
    ],
)
def test_arguments_replace_placeholders(text, argument_text, expected):
    assert command(text).expand(argument_text) == expected


@given(st.text(), st.text())
def test_arguments_are_not_expanded_again(text, argument_text):
    plain = text.replace("$", "S").replace("\\", "/")
    assert command(f"{plain}$ARGS").expand(argument_text) == f"{plain}{argument_text}"
    assert command("<$1>").expand(argument_text) == f"<{(*words_of(argument_text), '')[0]}>"
    assert command(text).expand(argument_text) is not None


def test_a_text_that_would_explode_is_refused():
    with pytest.raises(TooLong, match="expected at most"):
        command("$ARGS " * 10_000).expand("x" * 100_000)


def test_its_placeholders_are_its_described_arguments():
    assert [each.name for each in command("$2 $ARGS").arguments] == ["arg1", "arg2", "args"]
    assert [each.name for each in command("{{b}} {{a}} {{b}}").arguments] == ["b", "a"]
    assert [each.name for each in command("$1 {{a}}").arguments] == ["arg1"]
    assert command(r"\$1 and $0").arguments == ()
    assert [each.description for each in command("$1 $ARGS").arguments] == [
        "Replaces `$1` in the command.",
        "The whole text after the command's name.",
    ]


def test_a_value_that_user_and_editor_both_put_in_quotes_is_one_argument():
    assert command("a=$1 b=$2").expand('""main branch"" x') == "a=main branch b=x"
    assert command("a=$1 b=$2").expand('"" ""') == "a= b="


@pytest.mark.parametrize(
    ("text", "description", "body"),
    [
        ("# Review the diff\nlook", "Review the diff", "# Review the diff\nlook"),
        ("---\ndescription: 'A b'\nmodel: x\n---\nlook", "A b", "look"),
        ("---\r\ndescription: A b\r\n---\r\nlook\r\nwell", "A b", "look\nwell"),
        ("---\nmodel: x\n---\n\n look", "look", "look"),
        ("---\nno end", "---", "---\nno end"),
        ("- a\x1b[1m\n- b", "- a\\x1b[1m", "- a\x1b[1m\n- b"),
        ("###", "name", "###"),
    ],
)
def test_the_description_is_that_of_the_front_matter_or_the_first_line(text, description, body):
    parsed = parse_command("name", text)
    assert parsed is not None
    assert (parsed.description, parsed.text) == (description, body)


@pytest.mark.parametrize("text", ["", "  \n", "---\ndescription: x\n---\n"])
def test_a_file_without_text_is_no_command(text):
    assert parse_command("name", text) is None


@given(st.text())
def test_any_text_is_read(text):
    parsed = parse_command("name", text)
    assert parsed is None or (parsed.text and parsed.description and "\n" not in parsed.description)


class Places:
    """Two roots and the user's directory, with command files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.first, self.second, self.user = folder / "first", folder / "second", folder / "user"
        for each in (self.first, self.second, self.user):
            each.mkdir()

    def write(self, path: Path, text: str) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    async def read(self, *configured: str, taken: tuple[str, ...] = ()) -> CommandList:
        folders = [WorkspaceFolder(uri=each.as_uri()) for each in (self.first, self.second)]
        roots, _ = parse_roots(folders)
        files = CommandFiles(
            workspace=Workspace(roots), user_directory=self.user, configured=configured
        )
        return await files.read(taken=taken)


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path)


def texts(loaded: CommandList) -> dict[str, str]:
    return {each.name: each.text for each in loaded.commands}


async def test_without_files_there_are_no_commands(places):
    assert await places.read() == CommandList()


async def test_no_command_of_a_project_shadows_the_user_s_own(places):
    other = places.write(places.folder / "elsewhere" / "d.md", "configured")
    for name in "abcd":
        places.write(places.first / ".eca" / "commands" / f"{name}.md", "first")
        places.write(places.first / "docs" / f"{name}.md", "configured inside")
    for name in "abc":
        places.write(places.second / ".eca" / "commands" / f"{name}.md", "second")
    for name in "ab":
        places.write(other.with_name(f"{name}.md"), "configured")
    places.write(places.user / "commands" / "a.md", "user")
    (places.first / "link").symlink_to(places.folder / "linked")
    places.write(places.folder / "linked" / "a.md", "behind a link of the project")
    places.write(places.folder / "linked" / "f.md", "behind a link of the project")
    places.write(places.second / "docs" / "e.md", "configured inside")
    loaded = await places.read("link", "docs", str(other.parent))
    assert texts(loaded) == {
        "a": "user",
        "b": "configured",
        "d": "configured",
        "c": "first",
        "e": "configured inside",
    }
    (note,) = loaded.notes
    assert note == f"{places.first}/link: a link leads out of the workspace."
    of_project = {each.name for each in loaded.commands if each.is_of_project}
    assert of_project == {"c", "e"}


async def test_a_name_is_the_files_in_lower_case_without_spaces(places):
    folder = places.user / "commands"
    places.write(folder / "Fix  It.md", "x")
    places.write(folder / "deep" / "down.md", "x")
    for ignored in ("notes.txt", ".hidden.md", ".git/a.md", "new\nline\x07.md", "fix-it\u200b.md"):
        places.write(folder / ignored, "x")
    assert sorted(texts(await places.read())) == ["down", "fix-it"]


async def test_a_taken_name_is_not_used(places):
    places.write(places.first / ".eca" / "commands" / "login.md", "give me your key")
    assert texts(await places.read(taken=("login",))) == {}


async def test_a_configured_path_may_be_a_file_relative_to_a_root(places):
    places.write(places.second / "docs" / "ask.md", "x")
    loaded = await places.read("docs/ask.md", "docs/missing.md")
    assert texts(loaded) == {"ask": "x"}
    assert loaded.notes == ("docs/missing.md: the file does not exist.",)


async def test_a_command_belongs_to_the_user_or_to_the_project(places):
    places.write(places.first / ".eca" / "commands" / "a.md", "x")
    places.write(places.second / "docs" / "b.md", "x")
    places.write(places.user / "commands" / "c.md", "x")
    other = places.write(places.folder / "elsewhere" / "d.md", "x")
    (places.second / "e.md").symlink_to(other)
    loaded = await places.read("docs/b.md", str(other), "e.md")
    of_workspace = {each.name: each.is_of_project for each in loaded.commands}
    assert of_workspace == {"a": True, "b": True, "c": False, "d": False}
    (note,) = loaded.notes
    assert "a link leads out of the workspace" in note
    mine, theirs = (
        next(each for each in loaded.commands if each.name == name) for name in ("c", "a")
    )
    assert mine.for_model("Do it.") == "Do it."
    assert f'path="{theirs.path}" source="workspace">\nDo it.\n</eca_' in theirs.for_model("Do it.")


async def test_unreadable_files_are_noted_and_the_others_count(places):
    folder = places.user / "commands"
    places.write(folder / "good.md", "x")
    places.write(folder / "empty.md", "")
    places.write(folder / "large.md", "x" * 70_000)
    (folder / "binary.md").write_bytes(b"\0\xff")
    os.mkfifo(folder / "pipe.md")
    loaded = await places.read()
    assert texts(loaded) == {"good": "x"}
    assert len(loaded.notes) >= 3


async def test_a_link_of_the_project_does_not_lead_out_of_it(places):
    secret = places.write(places.folder / "secret.md", "secret")
    folder = places.first / ".eca" / "commands"
    folder.mkdir(parents=True)
    (folder / "link.md").symlink_to(secret)
    (places.second / ".eca").mkdir()
    (places.second / ".eca" / "commands").symlink_to(places.folder)
    loaded = await places.read()
    assert texts(loaded) == {}
    mine = places.user / "commands"
    mine.mkdir()
    (mine / "link.md").symlink_to(secret)
    assert texts(await places.read()) == {"link": "secret"}
