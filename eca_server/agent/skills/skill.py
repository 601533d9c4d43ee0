"""One skill, parsed from its SKILL.md: a name, a description and instructions."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import attrs

from eca_server.agent.context.definition_files import InvalidDefinition
from eca_server.agent.context.front_matter import split_front_matter
from eca_server.agent.context.provenance import workspace_text
from eca_server.agent.tools.files import printable

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
