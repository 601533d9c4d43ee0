r"""Custom commands: Markdown files whose text the model is asked in place of `/name`.

They are in `commands/` of the user's folder, where `commands` of the configuration says outside the
workspace, in `.eca/commands/` of each root, and where the configuration says inside the workspace.
Of two with one name the first in this order counts, so that a project never shadows the user's own;
none takes the name of a native command. A file may begin with front matter that holds a
`description`.

In the text `$ARGS` and `$ARGUMENTS` stand for all that follows the name, `$1`, `$2` (also `$ARG1`)
for its words; `\$1` is no placeholder. In a text without those, `{{city}}` stands for the first
word, the next such name for the second. A word in quotes may hold blanks; one that is missing is
empty. Where a text has no placeholder, what follows the name is put behind it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

import attrs
import trio

from eca_protocol.messages import CommandArgument
from eca_server.context.definition_files import DefinitionFiles, InvalidDefinition
from eca_server.context.front_matter import split_front_matter
from eca_server.context.limits import limit_notes
from eca_server.context.provenance import workspace_text
from eca_server.tools.files import printable
from eca_server.workspace import Place, Workspace

__all__ = ["CommandFiles", "CustomCommand", "FoundCommands", "TooLong", "parse_command", "words_of"]

_MOST = 200  # files of one folder
_LONGEST = 4 * 2**20  # characters of a text with its arguments put in
_LONGEST_DESCRIPTION = 200
_MOST_DESCRIBED = 100  # placeholders that make the described arguments

_RAN = "The user ran this command of the workspace. Do what it asks:"

_PLACEHOLDER = re.compile(
    r"(?P<escape>\\?)\$(?:(?P<all>ARGUMENTS|ARGS)\b|(?:ARG)?(?P<number>[1-9][0-9]?)(?![0-9]))"
    r"|\{\{[ \t]*(?P<name>[A-Za-z_][\w-]*)[ \t]*\}\}"
)
_WORD = re.compile(r"""""(?=\S)([^"]*)(?<=\S)""(?!\S)|"([^"]*)"(?!\S)|'([^']*)'(?!\S)|(\S+)""")


class TooLong(Exception):
    """A command's text is too long with its arguments put in."""


@attrs.frozen(kw_only=True)
class CustomCommand:
    """One command from a file.

    Attributes:
        name: what stands behind the slash.
        description: one line.
        text: what the model is asked, with placeholders.
        path: its file.
        is_of_project: whether the file belongs to the workspace, not to the user.
    """

    name: str
    description: str
    text: str
    path: Path | None = None
    is_of_project: bool = False

    @property
    def arguments(self) -> tuple[CommandArgument, ...]:
        """What its placeholders stand for."""
        found = self._placeholders(most=_MOST_DESCRIBED)
        most = max((int(match["number"]) for match in found if match["number"]), default=0)
        shown = {f"arg{n}": f"${n}" for n in range(1, most + 1)}
        shown |= {name: f"{{{{{name}}}}}" for name in _names_of(found)}
        arguments = [
            CommandArgument(name=name, description=f"Replaces `{written}` in the command.")
            for name, written in shown.items()
        ]
        if any(match["all"] for match in found):
            all_of_it = "All that follows the name, as it is written."
            arguments.append(CommandArgument(name="args", description=all_of_it))
        return tuple(arguments)

    def expand(self, given: str) -> str:
        """The text with the arguments put in; nothing that is put in is looked at again.

        Raises:
            TooLong: it would have millions of characters.
        """
        found = self._placeholders()
        names, count = _names_of(found), len(found)
        words = words_of(given, most=len(names) or None)
        if len(self.text) + max(count, 1) * len(given) > _LONGEST:
            raise TooLong(f"expected at most {_LONGEST:,} characters with its arguments, got more")
        if not count and given:
            return f"{self._replaced(names, words, given)}\n\n{given}"
        return self._replaced(names, words, given)

    def framed(self, text: str) -> str:
        """Return the expanded text as the model is asked it: a workspace's says whose it is."""
        if not self.is_of_project:
            return text
        where = {"name": self.name, "path": str(self.path)}
        return f"{_RAN}\n{workspace_text('command', where, text)}"

    def _placeholders(self, *, most: int | None = None) -> list[re.Match[str]]:
        """Return those that count: a name in braces is the text's own where there are others.

        Args:
            most: how many of the text's placeholders are looked at; None: all.
        """
        matches = islice(_PLACEHOLDER.finditer(self.text), most)
        found = [match for match in matches if not match["escape"]]
        return [match for match in found if not match["name"]] or found

    def _replaced(self, names: Mapping[str, int], words: Sequence[str], given: str) -> str:
        def put_in(match: re.Match[str]) -> str:
            if match["escape"]:
                return match[0][1:]
            if match["all"]:
                return given
            name = match["name"]
            if name and name not in names:
                return match[0]
            number = names[name] if name else int(match["number"]) - 1
            return words[number] if number < len(words) else ""

        return _PLACEHOLDER.sub(put_in, self.text)


def _names_of(placeholders: Iterable[re.Match[str]]) -> Mapping[str, int]:
    """Return the names in braces, in the order in which they come, each with its number."""
    names = dict.fromkeys(each["name"] for each in placeholders if each["name"])
    return {name: number for number, name in enumerate(names)}


def words_of(given: str, *, most: int | None = None) -> tuple[str, ...]:
    """The arguments in a text: cut at blanks, but not inside quotes around a whole word.

    Double quotes may be doubled: editors put a value with blanks in quotes, and so may the user.

    Args:
        given: the text.
        most: so many at most; the last of them is then all that is left, as it is written.
    """
    found = list(_WORD.finditer(given))
    words = [next(group for group in match.groups() if group is not None) for match in found]
    if most is None or len(words) <= most:
        return tuple(words)
    return (*words[: most - 1], given[found[most - 1].start() :].rstrip()) if most else ()


def parse_command(name: str, text: str) -> CustomCommand | None:
    """A command from its file's text; None if the model would be asked nothing."""
    fields, body = split_front_matter(text.replace("\r\n", "\n"))
    body = body.strip()
    if not body:
        return None
    told = " ".join(fields.get("description", ()))
    description = told or body.partition("\n")[0].strip("#* \t") or name
    return CustomCommand(
        name=name,
        description=printable(description[:_LONGEST_DESCRIPTION]),
        text=body,
    )


@attrs.frozen(kw_only=True)
class FoundCommands:
    """The custom commands there are.

    Attributes:
        commands: each name once.
        notes: sentences about files that are none.
    """

    commands: tuple[CustomCommand, ...] = ()
    notes: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class CommandFiles:
    """Where custom commands lie.

    Attributes:
        workspace: its roots.
        user_directory: the user's own configuration, `~/.config/eca`.
        configured: paths of files and folders; relative ones start in each root.
    """

    workspace: Workspace
    user_directory: Path
    configured: tuple[str, ...] = ()

    async def read(self, *, taken: Iterable[str]) -> FoundCommands:
        """Every command there is now, but for names that are `taken`."""

        def work() -> FoundCommands:
            reading = _Reading(
                workspace=self.workspace,
                taken=frozenset(taken),
                checkpoint=trio.from_thread.check_cancelled,
            )
            own, of_workspace = reading.configured(self.configured, self.user_directory)
            for path in (str(self.user_directory / "commands"), *own):
                reading.add(path)
            folders = [str(root.path / ".eca" / "commands") for root in self.workspace.roots]
            for path in (*folders, *of_workspace):
                reading.add(path, from_workspace=True)
            return FoundCommands(
                commands=tuple(reading.found.values()), notes=limit_notes(reading.notes)
            )

        return await trio.to_thread.run_sync(work)


@attrs.define(kw_only=True, eq=False)
class _Reading(DefinitionFiles):
    """What was found so far."""

    taken: frozenset[str]
    found: dict[str, CustomCommand] = attrs.field(init=False, factory=dict)

    def names(self, folder: Place, *, from_workspace: bool) -> Iterator[str]:
        """The Markdown files below a folder."""
        paths = self.list_visible(folder.real_path, most=_MOST)
        return (path for path in paths if path.endswith(".md"))

    def add_file(self, place: Place, *, from_workspace: bool) -> None:
        """Of two with one name the first counts."""
        name = re.sub(r"\s+", "-", place.path.stem.strip()).lower()
        if name in self.found or name in self.taken:
            return
        command = parse_command(name, self.text_of(place))
        if command is None:
            raise InvalidDefinition("there is no text in it")
        if printable(name) == name:
            self.found[name] = attrs.evolve(command, path=place.path, is_of_project=from_workspace)
