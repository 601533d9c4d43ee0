"""Skills as commands: `/NAME` runs one, `/skills` lists them, `/skill-create` writes one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import attrs

from eca_protocol.messages import CommandArgument
from eca_protocol.server.texts import arguments_of
from eca_server.agent.chat import Turn
from eca_server.agent.commands.command import Command, CommandContext, ask_model, command, fenced
from eca_server.agent.commands.custom import CustomCommand
from eca_server.agent.skills.skills import Skill
from eca_server.config.effective import apply_behavior

_INSTRUCTION = """\
Write the skill {{skillName}} in the file {{skillFilePath}}. A skill contains instructions that a \
model loads before it does one kind of task.

Start the file with the front matter below. Then write concise instructions in Markdown: the steps \
of the task, what to check first, and common mistakes. Put scripts and long references into \
separate files in the same directory, and refer to them by relative paths.

---
name: {{skillName}}
description: one line: the purpose of the skill, and when to load it
---

The user's request for the skill: {{userPrompt}}\
"""
_PLACEHOLDERS = re.compile(r"\{\{(skillName|skillFilePath|userPrompt)\}\}")


@attrs.frozen(kw_only=True)
class SkillCommand(CustomCommand):
    """A skill as a command."""

    skill: Skill

    @classmethod
    def of(cls, skill: Skill) -> SkillCommand:
        """Return the command of a skill."""
        return cls(
            name=skill.command,
            description=skill.description,
            text=skill.text,
            is_of_project=skill.is_of_project,
            skill=skill,
        )

    def expand(self, argument_text: str) -> str:
        """Return the text with its placeholders replaced; without arguments, return it unchanged.

        Raises:
            TooLong: the text would have millions of characters.
        """
        return super().expand(argument_text) if argument_text else self.text

    def for_model(self, text: str) -> str:
        """Return the prompt for the model, with the skill's directory."""
        return self.skill.render(text)


def skills_command(hidden_notes: Callable[[Iterable[Skill]], Iterable[str]]) -> Command:
    """Return the command that lists the skills; `hidden_notes` names those that are no command."""

    async def run(turn: Turn, context: CommandContext) -> None:
        skills = await context.skill_files.read()
        lines = [f"{each.name}: {each.description} ({each.folder})" for each in skills.items]
        listed = "Skills:\n\n" + fenced("\n".join(lines)) if lines else "There are no skills."
        turn.report("\n\n".join([listed, *hidden_notes(skills.items), *skills.notes]))

    return Command(
        name="skills",
        description="List the available skills.",
        run=run,
        steering="between requests",
    )


@command(
    "skill-create",
    CommandArgument(name="name", description="Name of the skill: letters, digits and `-`."),
    CommandArgument(name="wishes", description="Purpose of the skill, and when to load it."),
    asks_model=True,
)
async def create_skill(turn: Turn, context: CommandContext) -> None:
    """Let the model write a new skill."""
    name, _, purpose = arguments_of(context.text).partition(" ")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9-]{0,63}", name) or not purpose.strip():
        turn.fail("Send `/skill-create NAME DESCRIPTION`, with a name of letters, digits and `-`.")
        return
    values = {
        "skillName": name,
        "skillFilePath": str(context.skill_files.user_directory / "skills" / name / "SKILL.md"),
        "userPrompt": purpose.strip(),
    }
    prompts = apply_behavior(context.loaded.config, context.behavior).prompts
    text = prompts.skill_create or _INSTRUCTION
    await ask_model(turn, context, _PLACEHOLDERS.sub(lambda match: values[match[1]], text))
