r"""Custom commands: Markdown files whose text is sent to the model in place of `/name`.

They are searched in this order: `commands/` of the user's directory, paths of the setting
`commands` outside the workspace, `.eca/commands/` of each root, paths of the setting inside the
workspace. Of two commands with one name the first wins, so that a project never shadows the user's
own; native commands win over all. A file may begin with front matter that has a `description`, and
`arguments` with a `name`, `description` and `required`, which editors show.

In the text `$ARGS` and `$ARGUMENTS` are replaced by the whole argument text, `$1`, `$2` (also
`$ARG1`) by its words; `\$1` is not a placeholder. In a text without those, `{{city}}` is replaced
by the first word, the next such name by the second. A quoted word may contain spaces; a missing
word is empty. The arguments of a text without placeholders are appended to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

import attrs

from eca_protocol.messages import CommandArgument
from eca_server.agent.context.block import workspace_text
from eca_server.agent.context.definition_files import (
    DefinitionFiles,
    DefinitionPlaces,
    Definitions,
    InvalidDefinition,
)
from eca_server.agent.context.front_matter import mappings_in, split_front_matter
from eca_server.agent.tools.files import printable
from eca_server.system.threads import run_on_disk
from eca_server.workspace.boundary import Place

_MAX_FILES = 200  # in one directory
_MAX_CHARACTERS = 4 * 2**20  # characters of an expanded text
_MAX_DESCRIPTION = 200
_MAX_DESCRIBED = 100  # placeholders that are described as arguments

_PREAMBLE = "The user ran this command of the workspace. Follow its instructions:"

_PLACEHOLDER = re.compile(
    r"(?P<escape>\\?)\$(?:(?P<all>ARGUMENTS|ARGS)\b|(?:ARG)?(?P<number>[1-9][0-9]?)(?![0-9]))"
    r"|\{\{[ \t]*(?P<name>[A-Za-z_][\w-]*)[ \t]*\}\}"
)
_WORD = re.compile(r"""""(?=\S)([^"]*)(?<=\S)""(?!\S)|"([^"]*)"(?!\S)|'([^']*)'(?!\S)|(\S+)""")


class TooLong(Exception):
    """A command whose expanded text is too long."""


@attrs.frozen(kw_only=True)
class CustomCommand:
    """One command from a file.

    Attributes:
        description: one line.
        text: the prompt for the model, with placeholders.
        is_of_project: true if the file belongs to the workspace, not to the user.
        described: the file's own descriptions of its arguments.
    """

    name: str
    description: str
    text: str
    path: Path | None = None
    is_of_project: bool = False
    described: tuple[CommandArgument, ...] = ()

    @property
    def arguments(self) -> tuple[CommandArgument, ...]:
        """The arguments, one for each placeholder."""
        placeholders = self._placeholders(limit=_MAX_DESCRIBED)
        most = max((int(match["number"]) for match in placeholders if match["number"]), default=0)
        names = _names_of(placeholders)
        notes = {f"arg{n}": f"Replaces `${n}` in the command." for n in range(1, most + 1)}
        notes |= {name: f"Replaces `{{{{{name}}}}}` in the command." for name in names}
        if any(match["all"] for match in placeholders):
            notes["args"] = "The whole text after the command's name."
        described = {each.name: each for each in self.described}
        if not names:  # these are described in their order
            described = dict(zip(notes, self.described, strict=False))
        arguments = []
        for name, note in notes.items():
            own = described.get(name) or CommandArgument(name=name, required=name in names)
            own = attrs.evolve(own, name=own.name or name, description=own.description or note)
            arguments.append(own)
        return tuple(arguments)

    def expand(self, argument_text: str) -> str:
        """Return the text with its placeholders replaced; arguments are not expanded again.

        Raises:
            TooLong: the text would have millions of characters.
        """
        placeholders = self._placeholders()
        names, count = _names_of(placeholders), len(placeholders)
        words = words_of(argument_text, limit=len(names) or None)
        if len(self.text) + max(count, 1) * len(argument_text) > _MAX_CHARACTERS:
            raise TooLong(
                f"expected at most {_MAX_CHARACTERS:,} characters with its arguments, got more"
            )
        if not count and argument_text:
            return f"{self._replaced(names, words, argument_text)}\n\n{argument_text}"
        return self._replaced(names, words, argument_text)

    def for_model(self, text: str) -> str:
        """Return the prompt for the model; a workspace's text is marked as the workspace's."""
        if not self.is_of_project:
            return text
        where = {"name": self.name, "path": str(self.path)}
        return f"{_PREAMBLE}\n{workspace_text('command', where, text)}"

    def _placeholders(self, *, limit: int | None = None) -> list[re.Match[str]]:
        """Return the placeholders; names in braces count only if there are no others.

        Args:
            limit: the maximum number of placeholders to read; None: all.
        """
        matches = islice(_PLACEHOLDER.finditer(self.text), limit)
        placeholders = [match for match in matches if not match["escape"]]
        return [match for match in placeholders if not match["name"]] or placeholders

    def _replaced(self, names: Mapping[str, int], words: Sequence[str], argument_text: str) -> str:
        def put_in(match: re.Match[str]) -> str:
            if match["escape"]:
                return match[0][1:]
            if match["all"]:
                return argument_text
            name = match["name"]
            if name and name not in names:
                return match[0]
            number = names[name] if name else int(match["number"]) - 1
            return words[number] if number < len(words) else ""

        return _PLACEHOLDER.sub(put_in, self.text)


def _names_of(placeholders: Iterable[re.Match[str]]) -> Mapping[str, int]:
    """Return the names in braces with their numbers, in order."""
    names = dict.fromkeys(each["name"] for each in placeholders if each["name"])
    return {name: number for number, name in enumerate(names)}


def words_of(argument_text: str, *, limit: int | None = None) -> tuple[str, ...]:
    """Split arguments at spaces, but not inside quotes around a whole word.

    Double quotes may be doubled: editors quote a value with spaces, and so may the user.

    `limit`: the maximum number of words; the last one is then the whole rest as written.
    """
    matches = list(_WORD.finditer(argument_text))
    words = [next(group for group in match.groups() if group is not None) for match in matches]
    if limit is None or len(words) <= limit:
        return tuple(words)
    return (
        (*words[: limit - 1], argument_text[matches[limit - 1].start() :].rstrip()) if limit else ()
    )


def parse_command(name: str, text: str) -> CustomCommand | None:
    """Parse the text of a command's file; return None for an empty one."""
    fields, body = split_front_matter(text.replace("\r\n", "\n"))
    body = body.strip()
    if not body:
        return None
    configured_description = " ".join(fields.get("description", ()))
    description = configured_description or body.partition("\n")[0].strip("#* \t") or name
    return CustomCommand(
        name=name,
        description=printable(description[:_MAX_DESCRIPTION]),
        text=body,
        described=tuple(_described(mappings_in(text.replace("\r\n", "\n"), "arguments"))),
    )


def _described(arguments: Iterable[Mapping[str, str]]) -> Iterator[CommandArgument]:
    for each in islice(arguments, _MAX_DESCRIBED):
        yield CommandArgument(
            name=printable(each.get("name", "")[:_MAX_DESCRIPTION]),
            description=printable(each.get("description", "")[:_MAX_DESCRIPTION]),
            required=each.get("required", "true").lower() != "false",
        )


@attrs.frozen(kw_only=True)
class CommandFiles(DefinitionPlaces):
    """The places of custom commands; the usual one is `.eca/commands` of each root."""

    async def read(self, *, native: Iterable[str]) -> Definitions[CustomCommand]:
        """Search for commands; a file with the name of a `native` one gets a note."""

        def work() -> Definitions[CustomCommand]:
            reading = _Reading(workspace=self.workspace, native=frozenset(native))
            own, of_workspace = reading.configured(self)
            for path in (str(self.user_directory / "commands"), *own):
                reading.add(path)
            folders = [str(root.path / ".eca" / "commands") for root in self.workspace.roots]
            for path in (*folders, *of_workspace):
                reading.add(path, from_workspace=True)
            return reading.result()

        return await run_on_disk(work)


@attrs.define(kw_only=True, eq=False)
class _Reading(DefinitionFiles[CustomCommand]):
    native: frozenset[str]

    def names(self, folder: Place, *, from_workspace: bool) -> Iterator[str]:
        """Yield the Markdown files below a directory."""
        paths = self.list_visible(folder.real_path, most=_MAX_FILES)
        return (path for path in paths if path.endswith(".md"))

    def add_file(self, place: Place, *, from_workspace: bool) -> None:
        """Add a command, unless there is one of its name."""
        name = re.sub(r"\s+", "-", place.path.stem.strip()).lower()
        if name in self.native:
            raise InvalidDefinition(f"`/{name}` is a built-in command: rename the file to use it")
        if name in self.items:
            return
        command = parse_command(name, self.text_of(place))
        if command is None:
            raise InvalidDefinition("the file has no text")
        if printable(name) == name:
            self.items[name] = attrs.evolve(command, path=place.path, is_of_project=from_workspace)
