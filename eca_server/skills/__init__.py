"""Skills: folders with a SKILL.md that teaches the model one kind of task, loaded when needed."""

from __future__ import annotations

from eca_server.skills.files import FoundSkills, SkillFiles
from eca_server.skills.listed import list_skills
from eca_server.skills.skill import NotASkill, Skill, parse_skill
from eca_server.skills.tool import SKILL_TOOL, LoadSkill, is_allowed

__all__ = [
    "SKILL_TOOL",
    "FoundSkills",
    "LoadSkill",
    "NotASkill",
    "Skill",
    "SkillFiles",
    "is_allowed",
    "list_skills",
    "parse_skill",
]
