"""`/repo-map-show`: shows the context `repoMap` of the workspace."""

import trio

from eca_server.agent.chat import Turn
from eca_server.agent.commands.command import CommandContext, command, fenced
from eca_server.agent.context.disk import draw_roots


@command("repo-map-show", steering="between requests")
async def show_repo_map(turn: Turn, context: CommandContext) -> None:
    """Show the repository map that the model receives."""
    workspace = context.workspace
    if not workspace.roots:
        turn.fail("No folder is open.")
        return

    def draw() -> str:
        return draw_roots(
            workspace, gitignore=context.gitignore, checkpoint=trio.from_thread.check_cancelled
        )

    turn.say(fenced(await trio.to_thread.run_sync(draw)), role="system")
