"""Skills: searched in the user's and the workspace's directories, listed, and loaded by a tool.

Rule: of two skills with one name the user's wins, and the user's are read first, so that a project
never replaces or crowds out a skill of the user.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, Final

import attrs

from eca_server.agent.context.block import SOURCE, Origin, Section, render, workspace_text
from eca_server.agent.context.definition_files import (
    DefinitionFiles,
    DefinitionPlaces,
    Definitions,
    InvalidDefinition,
)
from eca_server.agent.context.front_matter import split_front_matter
from eca_server.agent.tools.files import printable
from eca_server.agent.tools.schemas import object_schema, required, string
from eca_server.agent.tools.tool import Effect, PreparedCall, ToolError, ToolOutput
from eca_server.client.content_formatting import PREFIX
from eca_server.config.agent_settings import Behavior
from eca_server.config.matchers import matches_name
from eca_server.system.threads import run_on_disk
from eca_server.workspace.boundary import Place

SKILL_FILE: Final = "SKILL.md"
"""The name of the file that makes a directory a skill."""

_NAME = re.compile(r"[^\W_][\w.:-]{0,63}")
_MAX_DESCRIPTION = 1024  # the maximum of the public skill format

_MAX_FILES = 5000  # searched in one directory; skills may contain scripts and data
_MAX_SKILLS = 200  # skills
_OF_ROOTS = (".eca/skills", ".agents/skills")

SKILL_TOOL: Final = "skill"
"""The tool's name."""

_MAX_NAMES = 50  # listed in the error for an unknown name
_MAX_SHOWN = 64  # characters of a name in the summary

_MAX_BYTES = 32 * 1024  # bytes of names and descriptions
_INSTRUCTIONS = (
    "Available skills: instructions for one kind of task each. If a description matches your task, "
    f"load that skill with the tool `{PREFIX}{SKILL_TOOL}` before you start."
)


class InvalidSkill(InvalidDefinition):
    """An invalid SKILL.md; the message is the reason."""


@attrs.frozen(kw_only=True)
class Skill:
    """One skill.

    Attributes:
        description: one line: its purpose, and when to load it.
        text: its instructions, in Markdown.
        folder: the directory of its SKILL.md and of the files that the text names.
        is_of_project: true if it belongs to the workspace, not to the user.
    """

    name: str
    description: str
    text: str
    folder: Path
    is_of_project: bool = False

    @property
    def command(self) -> str:
        """The name of its slash command, in lower case."""
        return self.name.lower()

    def render(self, text: str) -> str:
        """Return instructions with the skill's name and directory, for the model."""
        rendered = (
            f"Skill: {self.name}\nRelative paths start from: {printable(self.folder)}\n\n{text}"
        )
        if not self.is_of_project:
            return rendered
        where = {"name": self.name, "path": str(self.folder / SKILL_FILE)}
        return workspace_text("loaded_skill", where, rendered)


def parse_skill(text: str, folder: Path) -> Skill:
    """Parse the text of a SKILL.md; a skill without a name has that of its directory.

    Raises:
        InvalidSkill: a part is missing, or the name is invalid.
    """
    fields, body = split_front_matter(text.replace("\r\n", "\n"))
    name = " ".join(fields.get("name", ())) or folder.name
    if not _NAME.fullmatch(name):
        raise InvalidSkill(
            "expected a name of at most 64 letters, digits and `-`, got " + repr(name[:80])
        )
    description = " ".join(" ".join(fields.get("description", ())).split())
    if not description:
        raise InvalidSkill("expected a `description` in the front matter, got none")
    if not body.strip():
        raise InvalidSkill("expected instructions below the front matter, got none")
    return Skill(
        name=name,
        description=printable(description[:_MAX_DESCRIPTION]),
        text=body.strip(),
        folder=folder,
    )


@attrs.frozen(kw_only=True)
class SkillFiles(DefinitionPlaces):
    """The places of skills; usual ones are `.eca/skills` and `.agents/skills` of each root."""

    async def read(self) -> Definitions[Skill]:
        """Search for skills in a worker thread."""
        return await run_on_disk(self.search)

    def search(self) -> Definitions[Skill]:
        """Search for skills: configured ones and the user's first, then the workspace's.

        Configured skills inside a root are the workspace's. Use `run_on_disk`.
        """
        reading = _Reading(workspace=self.workspace)
        own, of_workspace = reading.configured(self)
        for path in (*own, str(self.user_directory / "skills")):
            reading.add(path)
        for path in of_workspace:
            reading.add(path, from_workspace=True)
        for root in self.workspace.roots:
            for folder in _OF_ROOTS:
                reading.add(str(root.path / folder), from_workspace=True)
        return reading.result()


@attrs.define(kw_only=True, eq=False)
class _Reading(DefinitionFiles[Skill]):
    """A search, with the commands of the skills in the current directory."""

    in_folder: set[str] = attrs.field(init=False, factory=set)

    def names(self, folder: Place, *, from_workspace: bool) -> Iterator[str]:
        """Yield the SKILL.md files below a directory; a skill may be a link to its directory.

        For a project's link that leads out of the workspace, yield the link, which is then refused.
        Each directory is searched once, however many links lead to it.
        """
        self.in_folder.clear()
        yield from self._below(folder.real_path)
        visited = {folder.real_path}
        for inside in sorted(folder.real_path.iterdir()):
            if not (inside.is_symlink() and inside.is_dir()):
                continue
            if from_workspace and not self.workspace.locate(str(inside)).is_inside:
                yield inside.name
            elif (real := inside.resolve()) not in visited:
                visited.add(real)
                for name in self._below(real):
                    yield f"{inside.name}/{name}"

    def _below(self, folder: Path) -> Iterator[str]:
        paths = self.list_visible(folder, most=_MAX_FILES)
        return (path for path in paths if PurePosixPath(path).name == SKILL_FILE)

    def add_file(self, place: Place, *, from_workspace: bool) -> None:
        """Add a skill, unless its name is taken; a duplicate in the same directory is noted."""
        skill = attrs.evolve(
            parse_skill(self.text_of(place), place.path.parent), is_of_project=from_workspace
        )
        first = self.items.get(skill.command)
        if first is None:
            if len(self.items) >= _MAX_SKILLS:
                raise InvalidSkill(f"there are {_MAX_SKILLS} skills already")
            self.items[skill.command] = skill
            self.in_folder.add(skill.command)
        elif skill.command in self.in_folder and first != attrs.evolve(skill, folder=first.folder):
            raise InvalidSkill(
                f"ignored, {printable(first.folder)} already defines the skill {first.name}"
            )


def is_allowed(skill: Skill, only: Sequence[str] | None) -> bool:
    """Return whether an agent may load a skill.

    `only`: the agent's own list of skills; None: it may load all.
    """
    return only is None or any(matches_name(each, {skill.name}, if_late=False) for each in only)


@attrs.frozen(kw_only=True)
class LoadSkill:
    """The tool `skill`; it reads the file at each call.

    The name must match exactly, since approval rules deny a skill by its exact name.

    Attributes:
        agent: the agent that loads them, with its own list of skills; None: all skills.
    """

    files: SkillFiles
    agent: Behavior | None = None

    name: ClassVar = SKILL_TOOL
    effect: ClassVar[Effect] = "read"
    description: ClassVar = (
        "Load the instructions of one of the listed skills. Call this before you start a task that "
        "a skill's description matches."
    )
    parameters: ClassVar[Mapping[str, Any]] = object_schema(
        name=required(string("Name of the skill, exactly as listed."))
    )

    def summary(self, arguments: Mapping[str, Any]) -> str:
        """Return `Loading skill NAME`."""
        name = arguments.get("name")
        shown = printable(name[:_MAX_SHOWN]) if isinstance(name, str) else ""
        return f"Loading skill {shown}".rstrip()

    async def prepare(self, arguments: Mapping[str, Any]) -> PreparedCall:
        """Prepare the call; the file is read when it runs."""
        name: str = arguments["name"]

        async def run() -> ToolOutput:
            loaded = await self.files.read()
            only = None if self.agent is None else self.agent.skills
            allowed = [each for each in loaded.items if is_allowed(each, only)]
            skill = next((each for each in allowed if each.name == name), None)
            if skill is None:
                known = ", ".join(each.name for each in allowed[:_MAX_NAMES]) or "none"
                raise ToolError(
                    f"There is no skill {name[:_MAX_SHOWN]!r}. Available skills: {known}."
                )
            return ToolOutput.of(skill.render(skill.text))

        return PreparedCall(run=run, summary=self.summary(arguments))


def list_skills(skills: Sequence[Skill]) -> tuple[str, str]:
    """Return the section of the system prompt, empty without skills, and a note on omitted ones."""
    if not skills:
        return "", ""
    listed: list[Section] = []
    room = _MAX_BYTES
    for skill in skills:
        room -= len(f"{skill.name}{skill.description}".encode())
        if room >= 0:
            origin: Origin = "workspace" if skill.is_of_project else "user"
            attributes = {"name": skill.name, SOURCE: origin}
            listed.append(Section(name="skill", attributes=attributes, body=(skill.description,)))
    omitted = len(skills) - len(listed)
    note = (
        f"{omitted} of {len(skills)} skills are not announced to the model: the list is too long. "
        "Shorten descriptions or remove skills."
        if omitted
        else ""
    )
    return render([Section(name="skills", body=(_INSTRUCTIONS, *listed))]), note
