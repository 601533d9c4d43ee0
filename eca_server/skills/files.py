"""Where skills lie, and which there are now.

The rule it keeps: of two with one name the user's own counts, and the user's have room first, so
that a project never changes what the user has taught.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import attrs
import trio

from eca_server.context.definition_files import DefinitionFiles
from eca_server.context.limits import limit_notes
from eca_server.skills.skill import SKILL_FILE, NotASkill, Skill, parse_skill
from eca_server.tools.files import printable
from eca_server.workspace import Place, Workspace

__all__ = ["FoundSkills", "SkillFiles"]

_MOST_FILES = 5000  # looked through in one folder; skills bring scripts and data with them
_MOST = 200  # skills
_OF_ROOTS = (".eca/skills", ".agents/skills")


@attrs.frozen(kw_only=True)
class FoundSkills:
    """The skills there are.

    Attributes:
        skills: each name once, whatever its capitals.
        notes: sentences about files that are none.
    """

    skills: tuple[Skill, ...] = ()
    notes: tuple[str, ...] = ()

    def find(self, name: str) -> Skill | None:
        """The skill of exactly that name."""
        return next((each for each in self.skills if each.name == name), None)


@attrs.frozen(kw_only=True)
class SkillFiles:
    """Where skills lie.

    Attributes:
        workspace: its roots, each with `.eca/skills` and `.agents/skills`.
        user_directory: the user's own configuration, `~/.config/eca`, with `skills` in it.
        configured: paths of files and folders; relative ones start in each root.
    """

    workspace: Workspace
    user_directory: Path
    configured: tuple[str, ...] = ()

    async def read(self) -> FoundSkills:
        """Return every skill there is now: configured ones and the user's, then the workspace's.

        The configured ones that are files of a root are the workspace's.
        """

        def work() -> FoundSkills:
            reading = _Reading(
                workspace=self.workspace, checkpoint=trio.from_thread.check_cancelled
            )
            own, of_workspace = reading.configured(self.configured, self.user_directory)
            for path in (*own, str(self.user_directory / "skills")):
                reading.add(path)
            for path in of_workspace:
                reading.add(path, from_workspace=True)
            for root in self.workspace.roots:
                for folder in _OF_ROOTS:
                    reading.add(str(root.path / folder), from_workspace=True)
            return reading.found()

        return await trio.to_thread.run_sync(work)


@attrs.define(kw_only=True, eq=False)
class _Reading(DefinitionFiles):
    """What was found so far, and what of it in the folder that is looked through."""

    skills: dict[str, Skill] = attrs.field(init=False, factory=dict)
    in_folder: set[str] = attrs.field(init=False, factory=set)

    def found(self) -> FoundSkills:
        """All of them."""
        return FoundSkills(skills=tuple(self.skills.values()), notes=limit_notes(self.notes))

    def names(self, folder: Place, *, from_workspace: bool) -> Iterator[str]:
        """The SKILL.md files below a folder; a skill may be a link to its folder.

        One of the project's that leads out of it is named by its folder, to be refused. However
        many links lead to a folder, it is looked through once.
        """
        self.in_folder.clear()
        yield from self._below(folder.real_path)
        seen = {folder.real_path}
        for inside in sorted(folder.real_path.iterdir()):
            if not (inside.is_symlink() and inside.is_dir()):
                continue
            if from_workspace and not self.workspace.locate(str(inside)).is_inside:
                yield inside.name
            elif (real := inside.resolve()) not in seen:
                seen.add(real)
                for name in self._below(real):
                    yield f"{inside.name}/{name}"

    def _below(self, folder: Path) -> Iterator[str]:
        paths = self.list_visible(folder, most=_MOST_FILES)
        return (path for path in paths if PurePosixPath(path).name == SKILL_FILE)

    def add_file(self, place: Place, *, from_workspace: bool) -> None:
        """Of two with one name the first counts; that is told where both lie in one folder."""
        skill = attrs.evolve(
            parse_skill(self.text_of(place), place.path.parent), is_of_project=from_workspace
        )
        first = self.skills.get(skill.command)
        if first is None:
            if len(self.skills) >= _MOST:
                raise NotASkill(f"there are {_MOST} skills already")
            self.skills[skill.command] = skill
            self.in_folder.add(skill.command)
        elif skill.command in self.in_folder and first != attrs.evolve(skill, folder=first.folder):
            raise NotASkill(f"the skill {first.name} of {printable(first.folder)} counts instead")
