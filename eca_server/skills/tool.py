"""`skill`: what one skill teaches, for the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import attrs

from eca_server.config import Behavior
from eca_server.config.matchers import matches_name
from eca_server.llm.history import TextPart
from eca_server.skills.files import SkillFiles
from eca_server.skills.skill import Skill
from eca_server.tools.files import printable
from eca_server.tools.tool import Effect, PreparedCall, ToolError, ToolOutput

__all__ = ["SKILL_TOOL", "LoadSkill", "is_allowed"]

SKILL_TOOL: Final = "skill"
"""The tool's name."""

_MOST_NAMES = 50  # told to who named none
_SHOWN = 64  # characters of a name in the summary


def is_allowed(skill: Skill, only: Sequence[str] | None) -> bool:
    """Return whether an agent's own list of skills, if it has one, names a skill."""
    return only is None or any(matches_name(each, {skill.name}, if_late=False) for each in only)


@attrs.frozen(kw_only=True)
class LoadSkill:
    """The tool `skill`; it reads the file as it is now.

    The name is taken exactly as it is listed: rules that deny a skill by its name know no other.

    Attributes:
        files: where skills are.
        agent: the agent that loads them, and which of them it may; None: all.
    """

    files: SkillFiles
    agent: Behavior | None = None

    name: ClassVar = SKILL_TOOL
    effect: ClassVar[Effect] = "read"
    description: ClassVar = (
        "Load one of the listed skills: instructions for one kind of task. Do so when a skill's "
        "description fits the task, before you begin it."
    )
    parameters: ClassVar[Mapping[str, Any]] = {
        "type": "object",
        "properties": {"name": {"type": "string", "description": "The skill, as it is listed."}},
        "required": ["name"],
    }

    def summary(self, arguments: Mapping[str, Any]) -> str:
        """`Loading skill NAME`."""
        name = arguments.get("name")
        shown = printable(name[:_SHOWN]) if isinstance(name, str) else ""
        return f"Loading skill {shown}".rstrip()

    async def prepare(self, arguments: Mapping[str, Any]) -> PreparedCall:
        """Nothing is read before it may be."""
        name: str = arguments["name"]

        async def run() -> ToolOutput:
            found = await self.files.read()
            only = None if self.agent is None else self.agent.skills
            allowed = [each for each in found.skills if is_allowed(each, only)]
            skill = found.find(name)
            if skill is None or skill not in allowed:
                known = ", ".join(each.name for each in allowed[:_MOST_NAMES]) or "none"
                raise ToolError(f"There is no skill {name[:_SHOWN]!r}. Skills: {known}.")
            return ToolOutput(parts=(TextPart(skill.introduced(skill.text)),))

        return PreparedCall(run=run, summary=self.summary(arguments))
