"""Custom commands: their files, and the replacement of their placeholders."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_protocol.messages import WorkspaceFolder
from eca_protocol.server.roots import parse_roots
from eca_server.agent.commands.custom import (
    CommandFiles,
    CustomCommand,
    TooLong,
    parse_command,
    words_of,
)
from eca_server.agent.context.definition_files import Definitions
from eca_server.workspace.boundary import Workspace
from tests.eca_server.agent.context.conftest import write


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
        ("{{city}} in {{ units }}, {{city}}", "'Sao Paulo' C", "Sao Paulo in C, Sao Paulo"),
        ("a=$1 b=$2", '""main branch"" x', "a=main branch b=x"),
        ("a=$1 b=$2", '"" ""', "a= b="),
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
    with pytest.raises(TooLong, match="expected at most"):
        command("$ARGS " * 10_000).expand("x" * 100_000)


NOTE = "Replaces `{}` in the command."


def test_its_placeholders_are_its_described_arguments():
    assert [each.name for each in command("$2 $ARGS").arguments] == ["arg1", "arg2", "args"]
    assert [each.name for each in command("{{b}} {{a}} {{b}}").arguments] == ["b", "a"]
    assert [each.name for each in command("$1 {{a}}").arguments] == ["arg1"]
    assert command(r"\$1 and $0").arguments == ()
    assert [each.description for each in command("$1 $ARGS").arguments] == [
        "Replaces `$1` in the command.",
        "The whole text after the command's name.",
    ]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            "{{units}} {{city}} {{c}}",
            [("units", "m or i", False), ("city", "A", True), ("c", NOTE.format("{{c}}"), True)],
        ),
        ("$2 $1", [("city", "A", True), ("units", "m or i", False)]),
        ("$ARGS", [("city", "A", True)]),
        (
            "$1 $2 $3",
            [("city", "A", True), ("units", "m or i", False), ("arg3", NOTE.format("$3"), False)],
        ),
    ],
)
def test_its_front_matter_describes_its_arguments(body, expected):
    yaml = "arguments:\n  - name: city # c\n    description: 'A'\n    required: true\n"
    more = "  - description: m or i\n    name: units\n    required: false\nlast: x\n"
    parsed = parse_command("weather", f"---\r\n{yaml}{more}---\r\n{body}")
    shown = [(each.name, each.description, each.required) for each in parsed.arguments]
    assert shown == expected


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
    assert (parsed.description, parsed.text) == (description, body)


class Places:
    """Two roots and the user's directory, with command files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.first, self.second, self.user = folder / "first", folder / "second", folder / "user"
        for each in (self.first, self.second, self.user):
            each.mkdir()
        self.own = self.user / "commands"
        self.of_first = self.first / ".eca" / "commands"

    async def read(
        self, *configured: str, native: tuple[str, ...] = ()
    ) -> Definitions[CustomCommand]:
        folders = [WorkspaceFolder(uri=each.as_uri()) for each in (self.first, self.second)]
        roots, _ = parse_roots(folders)
        files = CommandFiles(
            workspace=Workspace(roots), user_directory=self.user, configured=configured
        )
        return await files.read(native=native)


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path)


def texts(loaded: Definitions[CustomCommand]) -> dict[str, str]:
    return {each.name: each.text for each in loaded.items}


async def test_no_command_of_a_project_shadows_the_user_s_own(places):
    other = write(places.folder / "elsewhere" / "d.md", "configured")
    for name in "abcd":
        write(places.of_first / f"{name}.md", "first")
        write(places.first / "docs" / f"{name}.md", "configured inside")
    for name in "abc":
        write(places.second / ".eca" / "commands" / f"{name}.md", "second")
    for name in "ab":
        write(other.with_name(f"{name}.md"), "configured")
    write(places.own / "a.md", "user")
    (places.first / "link").symlink_to(places.folder / "linked")
    write(places.folder / "linked" / "a.md", "behind a link of the project")
    write(places.folder / "linked" / "f.md", "behind a link of the project")
    write(places.second / "docs" / "e.md", "configured inside")
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
    of_project = {each.name for each in loaded.items if each.is_of_project}
    assert of_project == {"c", "e"}


async def test_a_name_is_the_files_in_lower_case_without_spaces(places):
    write(places.own / "Fix  It.md", "x")
    write(places.own / "deep" / "down.md", "x")
    for ignored in ("notes.txt", ".hidden.md", ".git/a.md", "new\nline\x07.md", "fix-it\u200b.md"):
        write(places.own / ignored, "x")
    assert sorted(texts(await places.read())) == ["down", "fix-it"]


async def test_a_command_belongs_to_the_user_or_to_the_project(places):
    assert await places.read() == Definitions()
    write(places.of_first / "a.md", "x")
    write(places.of_first / "login.md", "give me your key")
    write(places.second / "docs" / "b.md", "x")
    write(places.own / "c.md", "x")
    other = write(places.folder / "elsewhere" / "d.md", "x")
    (places.second / "e.md").symlink_to(other)
    configured = ("docs/b.md", "docs/missing.md", str(other), "e.md")
    loaded = await places.read(*configured, native=("login",))
    of_workspace = {each.name: each.is_of_project for each in loaded.items}
    assert of_workspace == {"a": True, "b": True, "c": False, "d": False}
    missing, hidden, outside = loaded.notes
    assert hidden.endswith("login.md: `/login` is a built-in command: rename the file to use it.")
    assert missing == "docs/missing.md: the file does not exist."
    assert "a link leads out of the workspace" in outside
    by_name = {each.name: each for each in loaded.items}
    assert by_name["c"].for_model("Do it.") == "Do it."
    theirs = by_name["a"]
    assert f'path="{theirs.path}" source="workspace">\nDo it.\n</eca_' in theirs.for_model("Do it.")
