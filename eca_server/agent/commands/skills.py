"""Skills as commands: `/NAME` runs one, `/skills` lists them, `/skill-create` writes one.

`/init` lets the model explore the workspace and write its AGENTS.md, with the usual approvals.
"""

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
        lines = [f"{each.name}: {each.description} ({each.folder})" for each in skills.skills]
        listed = "Skills:\n\n" + fenced("\n".join(lines)) if lines else "There are no skills."
        turn.report("\n\n".join([listed, *hidden_notes(skills.skills), *skills.notes]))

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


_AGENTS_MD = """\
Write the file {path}: instructions for coding agents that are new to this repository.

Explore before you write: read the directory tree, the README, the files that define how the \
project is built, packaged and tested, and some of its code and tests. If an AGENTS.md exists, \
read it, keep what is correct and fix the rest.

Include, where useful:
- the purpose of the project and the location of its main parts;
- the exact commands to build it, to lint it, to run all tests and to run a single test;
- conventions of code, tests and commits that a single file does not show;
- common mistakes.

Write only facts that you have verified in this repository, no general advice. Use Markdown; one \
page at most.\
"""


@command(
    "init",
    CommandArgument(name="wishes", description="Additional instructions for the model."),
    asks_model=True,
)
async def write_instructions(turn: Turn, context: CommandContext) -> None:
    """Let the model write an AGENTS.md for this workspace."""
    roots = context.workspace.roots
    if not roots:
        turn.fail("No folder is open. Open a folder, and send `/init` again.")
        return
    own = apply_behavior(context.loaded.config, context.behavior).prompts.init
    text = own or _AGENTS_MD.format(path=roots[0].path / "AGENTS.md")
    wishes = arguments_of(context.text)
    await ask_model(turn, context, f"{text}\n\n{wishes}" if wishes else text)
