"""The search for skills in the user's and the workspace's directories.

Rule: of two skills with one name the user's wins, and the user's are read first, so that a project
never replaces or crowds out a skill of the user.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

import attrs
import trio

from eca_server.agent.context.block import workspace_text
from eca_server.agent.context.definition_files import (
    DefinitionFiles,
    DefinitionPlaces,
    InvalidDefinition,
)
from eca_server.agent.context.front_matter import split_front_matter
from eca_server.agent.context.limits import limit_notes
from eca_server.agent.tools.files import printable
from eca_server.system.threads import run_on_disk
from eca_server.workspace.boundary import Place

SKILL_FILE: Final = "SKILL.md"
"""The name of the file that makes a directory a skill."""

_NAME = re.compile(r"[^\W_][\w.:-]{0,63}")
_MAX_DESCRIPTION = 1024  # the maximum of the public skill format


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


_MAX_FILES = 5000  # searched in one directory; skills may contain scripts and data
_MAX_SKILLS = 200  # skills
_OF_ROOTS = (".eca/skills", ".agents/skills")


@attrs.frozen(kw_only=True)
class SkillList:
    """The valid skills, and the problems of the others.

    Attributes:
        skills: the skills; their names differ in more than case.
        notes: sentences about invalid files.
    """

    skills: tuple[Skill, ...] = ()
    notes: tuple[str, ...] = ()

    def find(self, name: str) -> Skill | None:
        """Return the skill of exactly this name, or None."""
        return next((each for each in self.skills if each.name == name), None)


@attrs.frozen(kw_only=True)
class SkillFiles(DefinitionPlaces):
    """The places of skills; usual ones are `.eca/skills` and `.agents/skills` of each root."""

    async def read(self) -> SkillList:
        """Search for skills in a worker thread."""
        return await run_on_disk(self.search)

    def search(self) -> SkillList:
        """Search for skills: configured ones and the user's first, then the workspace's.

        Configured skills inside a root are the workspace's. Use `run_on_disk`.
        """
        reading = _Reading(workspace=self.workspace, checkpoint=trio.from_thread.check_cancelled)
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
class _Reading(DefinitionFiles):
    """A search: the skills so far, and the commands of those in the current directory."""

    skills: dict[str, Skill] = attrs.field(init=False, factory=dict)
    in_folder: set[str] = attrs.field(init=False, factory=set)

    def result(self) -> SkillList:
        return SkillList(skills=tuple(self.skills.values()), notes=limit_notes(self.notes))

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
        first = self.skills.get(skill.command)
        if first is None:
            if len(self.skills) >= _MAX_SKILLS:
                raise InvalidSkill(f"there are {_MAX_SKILLS} skills already")
            self.skills[skill.command] = skill
            self.in_folder.add(skill.command)
        elif skill.command in self.in_folder and first != attrs.evolve(skill, folder=first.folder):
            raise InvalidSkill(
                f"ignored, {printable(first.folder)} already defines the skill {first.name}"
            )
