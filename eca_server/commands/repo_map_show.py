"""`/repo-map-show`: the workspace as the context `repoMap` gives it to the model."""

from __future__ import annotations

import trio

from eca_server.chat import Turn
from eca_server.commands.command import Command, Situation, fenced
from eca_server.context import draw_roots

__all__ = ["REPO_MAP_SHOW"]


async def _run(turn: Turn, situation: Situation) -> None:
    workspace = situation.workspace
    if not workspace.roots:
        turn.fail("No folder is open.")
        return

    def draw() -> str:
        return draw_roots(
            workspace, gitignore=situation.gitignore, checkpoint=trio.from_thread.check_cancelled
        )

    turn.say(fenced(await trio.to_thread.run_sync(draw)), role="system")


REPO_MAP_SHOW = Command(
    name="repo-map-show",
    description="The files of the workspace, as the repository map shows them to the model.",
    run=_run,
    steering="between requests",
)
