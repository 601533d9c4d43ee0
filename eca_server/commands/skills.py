"""Skills as commands: each by its name, `/skills` which lists them, `/skill-create`.

Whoever calls a skill by its name gives the model what it teaches, without a word to load it first.
"""

from __future__ import annotations

import re
from pathlib import Path

import attrs

from eca_protocol.messages import CommandArgument
from eca_server.chat import Turn
from eca_server.commands.command import Command, Situation, arguments_of, fenced, let_answer
from eca_server.commands.custom import CustomCommand
from eca_server.config import apply_behavior
from eca_server.skills import Skill

__all__ = ["SKILLS", "SKILL_CREATE", "SkillCommand"]

_INSTRUCTION = """\
Write the skill {{skillName}}: the file {{skillFilePath}}, from which a model learns one kind of \
task before it does it.

It begins with these lines, and then says in Markdown, as short as it can be and still serve, how \
the task is done, what to look at first, and what is easily done wrong. Scripts and long \
references are files of their own in the same folder, named relative to it.

---
name: {{skillName}}
description: one line on what the skill teaches and when it is to be loaded
---

What the user wants of it: {{userPrompt}}\
"""
_NAMED = re.compile(r"\{\{(skillName|skillFilePath|userPrompt)\}\}")


@attrs.frozen
class SkillCommand:
    """A skill as a command."""

    skill: Skill

    @property
    def name(self) -> str:
        """What stands behind the slash."""
        return self.skill.command

    @property
    def description(self) -> str:
        """What the skill is for."""
        return self.skill.description

    @property
    def is_of_project(self) -> bool:
        """Whether the skill belongs to the workspace, not to the user."""
        return self.skill.is_of_project

    @property
    def arguments(self) -> tuple[CommandArgument, ...]:
        """What the placeholders in its text stand for."""
        return self._as_command.arguments

    def expand(self, given: str) -> str:
        """What the model is asked; without arguments every `$1` is the text's own.

        Raises:
            TooLong: it would have millions of characters.
        """
        return self._as_command.expand(given) if given else self.skill.text

    def framed(self, text: str) -> str:
        """Return the expanded text as the model is asked it, with where the skill lies."""
        return self.skill.introduced(text)

    @property
    def _as_command(self) -> CustomCommand:
        return CustomCommand(name=self.name, description=self.description, text=self.skill.text)


async def _list(turn: Turn, situation: Situation) -> None:
    from eca_server.commands import told_of_hidden  # noqa: PLC0415 - it imports this module

    found = await situation.skill_files.read()
    lines = [f"{each.name}: {each.description} ({each.folder})" for each in found.skills]
    listed = "Skills:\n\n" + fenced("\n".join(lines)) if lines else "There are no skills."
    turn.say("\n\n".join([listed, *told_of_hidden(found.skills), *found.notes]), role="system")


async def _create(turn: Turn, situation: Situation) -> None:
    name, _, wishes = arguments_of(situation.text).partition(" ")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9-]{0,63}", name) or not wishes.strip():
        turn.fail("Expected `/skill-create NAME WHAT IT TEACHES`, the name of letters and `-`.")
        return
    values = {
        "skillName": name,
        "skillFilePath": str(_place(situation, name)),
        "userPrompt": wishes.strip(),
    }
    prompts = apply_behavior(situation.loaded.config, situation.behavior).prompts
    text = prompts.skill_create or _INSTRUCTION
    await let_answer(turn, situation, _NAMED.sub(lambda found: values[found[1]], text))


def _place(situation: Situation, name: str) -> Path:
    return situation.skill_files.user_directory / "skills" / name / "SKILL.md"


SKILLS = Command(
    name="skills", description="List the skills there are.", run=_list, steering="between requests"
)
SKILL_CREATE = Command(
    name="skill-create",
    description="Let the model write a skill of yours.",
    run=_create,
    asks_model=True,
    arguments=(
        CommandArgument(name="name", description="How it is called: letters and `-`."),
        CommandArgument(name="wishes", description="What it teaches, and when it is of use."),
    ),
)
