"""`/init`: lets the model explore the workspace and write its AGENTS.md, with usual approvals."""

from __future__ import annotations

from eca_protocol.messages import CommandArgument
from eca_protocol.server.texts import arguments_of
from eca_server.agent.chat import Turn
from eca_server.agent.commands.command import CommandContext, ask_model, command
from eca_server.config.effective import apply_behavior

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
