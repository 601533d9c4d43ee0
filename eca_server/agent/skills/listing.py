"""The list of skills in the system prompt: names and descriptions, never their instructions."""

from __future__ import annotations

from collections.abc import Sequence

from eca_server.agent.context.block import Section, render
from eca_server.agent.context.provenance import SOURCE, Origin
from eca_server.agent.skills.skill import Skill
from eca_server.agent.skills.tool import SKILL_TOOL
from eca_server.client.content_formatting import PREFIX

_MAX_BYTES = 32 * 1024  # bytes of names and descriptions
_INSTRUCTIONS = (
    "Available skills: instructions for one kind of task each. If a description matches your task, "
    f"load that skill with the tool `{PREFIX}{SKILL_TOOL}` before you start."
)


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
