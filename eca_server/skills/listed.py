"""The skills as the system prompt lists them: names and descriptions, never what they teach."""

from __future__ import annotations

from collections.abc import Sequence

from eca_server.content_formatting import PREFIX
from eca_server.context.block import Section, render
from eca_server.context.provenance import SOURCE, Origin
from eca_server.skills.skill import Skill
from eca_server.skills.tool import SKILL_TOOL

__all__ = ["list_skills"]

_MOST = 32 * 1024  # bytes of names and descriptions
_HOW = (
    f"What you can learn for a task. Where one's description fits what is to be done, load it "
    f"with the tool `{PREFIX}{SKILL_TOOL}` before you begin."
)


def list_skills(skills: Sequence[Skill]) -> tuple[str, str]:
    """A part of the system prompt, empty without skills; and a note on those without room."""
    if not skills:
        return "", ""
    listed: list[Section] = []
    room = _MOST
    for skill in skills:
        room -= len(f"{skill.name}{skill.description}".encode())
        if room >= 0:
            origin: Origin = "workspace" if skill.is_of_project else "user"
            attributes = {"name": skill.name, SOURCE: origin}
            listed.append(Section(name="skill", attributes=attributes, body=(skill.description,)))
    left = len(skills) - len(listed)
    note = f"{left} of {len(skills)} skills are not listed to the model: too long." if left else ""
    return render([Section(name="skills", body=(_HOW, *listed))]), note
