"""One skill, from the text of its SKILL.md: a name, when it is of use, and what it teaches."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import attrs

from eca_server.context.definition_files import InvalidDefinition
from eca_server.context.front_matter import split_front_matter
from eca_server.context.provenance import workspace_text
from eca_server.tools.files import printable

__all__ = ["SKILL_FILE", "NotASkill", "Skill", "parse_skill"]

SKILL_FILE: Final = "SKILL.md"
"""The name of the file that makes a directory a skill."""

_NAME = re.compile(r"[^\W_][\w.:-]{0,63}")
_LONGEST_DESCRIPTION = 1024  # what the public format of skills allows


class NotASkill(InvalidDefinition):
    """A SKILL.md without what makes a skill; the message says what is missing."""


@attrs.frozen(kw_only=True)
class Skill:
    """One skill.

    Attributes:
        name: how the model and the user call it.
        description: one line: what it is for, and when.
        text: what it teaches, in Markdown.
        folder: where its SKILL.md lies, and the files that the text names.
        is_of_project: whether it belongs to the workspace, not to the user.
    """

    name: str
    description: str
    text: str
    folder: Path
    is_of_project: bool = False

    @property
    def command(self) -> str:
        """What stands behind the slash: commands know no capitals."""
        return self.name.lower()

    def introduced(self, text: str) -> str:
        """Return what it teaches, in these words, with where it lies, for the model.

        Args:
            text: its text, with or without arguments put in.
        """
        told = f"Skill: {self.name}\nPaths in it start from: {printable(self.folder)}\n\n{text}"
        if not self.is_of_project:
            return told
        where = {"name": self.name, "path": str(self.folder / SKILL_FILE)}
        return workspace_text("loaded_skill", where, told)


def parse_skill(text: str, folder: Path) -> Skill:
    """A skill from its file's text; one without a name has that of its folder.

    Raises:
        NotASkill: something is missing, or the name cannot be called.
    """
    fields, body = split_front_matter(text.replace("\r\n", "\n"))
    name = " ".join(fields.get("name", ())) or folder.name
    if not _NAME.fullmatch(name):
        raise NotASkill(
            "expected a name of at most 64 letters, digits and `-`, got " + repr(name[:80])
        )
    description = " ".join(" ".join(fields.get("description", ())).split())
    if not description:
        raise NotASkill("expected a `description` above the text, got none")
    if not body.strip():
        raise NotASkill("expected a text behind the front matter, got none")
    return Skill(
        name=name,
        description=printable(description[:_LONGEST_DESCRIPTION]),
        text=body.strip(),
        folder=folder,
    )
