"""Skills: directories whose SKILL.md instructs the model for one kind of task, loaded on demand."""

from __future__ import annotations

from eca_server.agent.skills.files import SkillFiles, SkillList
from eca_server.agent.skills.listing import list_skills
from eca_server.agent.skills.skill import InvalidSkill, Skill, parse_skill
from eca_server.agent.skills.tool import SKILL_TOOL, LoadSkill, is_allowed

__all__ = [
    "SKILL_TOOL",
    "InvalidSkill",
    "LoadSkill",
    "Skill",
    "SkillFiles",
    "SkillList",
    "is_allowed",
    "list_skills",
    "parse_skill",
]
