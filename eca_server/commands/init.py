"""`/init`: the model looks at the workspace and writes its AGENTS.md, with approvals as always."""

from __future__ import annotations

from eca_protocol.messages import CommandArgument
from eca_server.chat import Turn
from eca_server.commands.command import Command, Situation, arguments_of, let_answer
from eca_server.config import apply_behavior

__all__ = ["INIT"]

_INSTRUCTION = """\
Write the file {path}: what an agent who meets this repository for the first time must know to \
work in it well.

Look before you write: the tree, the README, the files that say how it is built, packaged and \
tested, some of the code and of its tests. If there is an AGENTS.md already, read it, keep what is \
right and mend the rest.

Say, as far as it is useful here:
- what the project is, and where its main parts lie;
- the commands that build it, check it, run all its tests and a single one, as they are typed;
- the conventions of its code, tests and commits that one file does not show;
- what is easily done wrong.

Write only what you have seen here, no advice that holds everywhere. Markdown, one page at most.\
"""


async def _run(turn: Turn, situation: Situation) -> None:
    roots = situation.workspace.roots
    if not roots:
        turn.fail("No folder is open, so there is no place for an AGENTS.md.")
        return
    own = apply_behavior(situation.loaded.config, situation.behavior).prompts.init
    text = own or _INSTRUCTION.format(path=roots[0].path / "AGENTS.md")
    wishes = arguments_of(situation.text)
    await let_answer(turn, situation, f"{text}\n\n{wishes}" if wishes else text)


INIT = Command(
    name="init",
    description="Let the model write an AGENTS.md for this workspace.",
    run=_run,
    asks_model=True,
    arguments=(CommandArgument(name="wishes", description="What it should look at or say."),),
)
