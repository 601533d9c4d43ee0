"""Where skills lie, and which there are now.

The rules it keeps: of two with one name the user's own counts, so that a project never changes
what the user has taught; a file of a project counts only where it really lies in the project.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import attrs
import trio

from eca_server.context.limits import readable
from eca_server.skills.skill import NotASkill, Skill, parse_skill
from eca_server.tools.files import printable
from eca_server.workspace import (
    Checkpoint,
    FileFault,
    LeadsOut,
    Place,
    Workspace,
    decode,
    list_files,
    read_file,
)

__all__ = ["FoundSkills", "SkillFiles"]

_NAME = "SKILL.md"
_LARGEST = 64 * 1024  # bytes of one SKILL.md
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
        user_folder: the user's own configuration, `~/.config/eca`, with `skills` in it.
        configured: paths of files and folders; relative ones start in each root.
    """

    workspace: Workspace
    user_folder: Path
    configured: tuple[str, ...] = ()

    async def read(self) -> FoundSkills:
        """Every skill there is now: the configured ones, the user's, those of the roots."""

        def work() -> FoundSkills:
            reading = _Reading(
                workspace=self.workspace, checkpoint=trio.from_thread.check_cancelled
            )
            bases = [root.path for root in self.workspace.roots] or [self.user_folder]
            for path in self.configured:
                was_found = [reading.add(path, base=base) for base in bases]
                if not any(was_found):
                    reading.notes.append(f"{printable(path)}: there is no such file.")
            reading.add(str(self.user_folder / "skills"))
            for root in self.workspace.roots:
                for folder in _OF_ROOTS:
                    reading.add(str(root.path / folder), is_the_projects=True)
            return reading.found()

        return await trio.to_thread.run_sync(work)


@attrs.define(kw_only=True, eq=False)
class _Reading:
    """What was found so far, in a worker thread."""

    workspace: Workspace
    checkpoint: Checkpoint
    skills: dict[str, Skill] = attrs.field(init=False, factory=dict)
    notes: list[str] = attrs.field(init=False, factory=list)

    def found(self) -> FoundSkills:
        """All of them."""
        return FoundSkills(skills=tuple(self.skills.values()), notes=readable(self.notes))

    def add(self, path: str, *, base: Path | None = None, is_the_projects: bool = False) -> bool:
        """A file, or those of a folder; whether there is one."""
        try:
            place = self.workspace.locate(path, base=base)
            if not place.real_path.exists():
                return False
            if is_the_projects and not place.inside:
                raise LeadsOut("a link leads out of the workspace")
            if place.real_path.is_dir():
                for file in self._files(place, links=not is_the_projects):
                    self.add(str(place.path / file), is_the_projects=is_the_projects)
            else:
                self._add_file(place)
        except (FileFault, NotASkill, OSError) as fault:
            reason = (fault.strerror if isinstance(fault, OSError) else None) or str(fault)
            self.notes.append(f"{printable(path)}: {reason}.")
        return True

    def _files(self, place: Place, *, links: bool) -> Iterator[str]:
        """The SKILL.md files below a folder; in the user's a skill may be a link to a folder."""
        yield from self._listed(place.real_path, "", links=links)
        for folder in sorted(place.real_path.iterdir()) if links else ():
            if folder.is_symlink() and folder.is_dir():
                yield from self._listed(folder.resolve(), f"{folder.name}/", links=links)

    def _listed(self, folder: Path, above: str, *, links: bool) -> Iterator[str]:
        paths = list_files(
            folder, limit=_MOST_FILES, gitignore=False, links=links, checkpoint=self.checkpoint
        )
        for path in sorted(paths):
            parts = PurePosixPath(path).parts
            if parts[-1] == _NAME and not any(name.startswith(".") for name in parts):
                yield above + path

    def _add_file(self, place: Place) -> None:
        snapshot = read_file(place, limit=_LARGEST, checkpoint=self.checkpoint)
        skill = parse_skill(decode(snapshot.data).text, place.path.parent)
        if len(self.skills) < _MOST:
            self.skills.setdefault(skill.command, skill)
        elif skill.command not in self.skills:
            raise NotASkill(f"there are {_MOST} skills already")
