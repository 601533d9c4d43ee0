"""The list of skills in the system prompt, and `skill`, which loads the instructions of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import attrs

from eca_server.agent.context.block import SOURCE, Origin, Section, render
from eca_server.agent.skills.files import Skill, SkillFiles
from eca_server.agent.tools.files import printable
from eca_server.agent.tools.schemas import object_schema, string
from eca_server.agent.tools.tool import Effect, PreparedCall, ToolError, ToolOutput
from eca_server.client.content_formatting import PREFIX
from eca_server.config.matchers import matches_name
from eca_server.config.tool_settings import Behavior

SKILL_TOOL: Final = "skill"
"""The tool's name."""

_MAX_NAMES = 50  # listed in the error for an unknown name
_MAX_SHOWN = 64  # characters of a name in the summary


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
        "name", name=string("Name of the skill, exactly as listed.")
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
            allowed = [each for each in loaded.skills if is_allowed(each, only)]
            skill = loaded.find(name)
            if skill is None or skill not in allowed:
                known = ", ".join(each.name for each in allowed[:_MAX_NAMES]) or "none"
                raise ToolError(
                    f"There is no skill {name[:_MAX_SHOWN]!r}. Available skills: {known}."
                )
            return ToolOutput.of(skill.render(skill.text))

        return PreparedCall(run=run, summary=self.summary(arguments))


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
