"""What a model writes into the user's document (chapters "Rewrite" and "Completion", of CURRENT).

The rules it keeps: a rewrite is answered before the model is asked; what cannot be begun is a
JSON-RPC error, in words for the user. Only who asks for a rewrite is told of one: to some clients
each notification with a content is text of a chat.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from functools import partial
from typing import Final

from eca_protocol import messages as m
from eca_protocol.errors import INTERNAL_ERROR, INVALID_PARAMS, RPCError
from eca_protocol.peer import Handler
from eca_server.config import Behavior
from eca_server.editing.rewriting import Rewrite, TooManyRewrites
from eca_server.editing.surroundings import Surroundings, surroundings_in
from eca_server.features.connection import Connection
from eca_server.features.selection import choose
from eca_server.llm.backend import BackendError
from eca_server.llm.models import Model

__all__ = ["handlers_of"]

MOST_SELECTED: Final = 512 * 1024
"""Characters of a selection; more is no piece of a document that a model rewrites."""


def handlers_of(connection: Connection) -> Mapping[str, Handler]:
    """The handlers of rewrites."""

    def rewrite_prompt(params: m.RewritePromptParams) -> m.RewritePromptResponse:
        if len(params.text) > MOST_SELECTED:
            raise RPCError(
                INVALID_PARAMS,
                f"params.text: expected at most {MOST_SELECTED:,} characters, "
                f"got {len(params.text):,}",
            )
        name, model = _model(connection, connection.config.rewrite_model)
        own, common = _behavior(connection).rewrite_prompt, connection.config.prompts.rewrite
        rewrite = Rewrite(
            id=params.id,
            selected=params.text,
            wanted=params.prompt,
            path=params.path,
            model=model,
            instruction=own or common,
            surroundings=partial(_surroundings, connection.config.rewrite_file_lines, params),
        )
        try:
            connection.rewrites.start(rewrite)
        except TooManyRewrites as fault:
            raise RPCError(INTERNAL_ERROR, f"{fault}; wait until one has ended.") from None
        return m.RewritePromptResponse(status="prompting", model=name)

    return {"rewrite/prompt": rewrite_prompt}


def _surroundings(most_lines: int, params: m.RewritePromptParams) -> Awaitable[Surroundings]:
    line = params.range.start.line
    return surroundings_in(params.path, params.text, line=line, most_lines=most_lines)


def _behavior(connection: Connection) -> Behavior:
    return connection.config.behaviors.get(choose(connection).behavior, Behavior())


def _model(connection: Connection, configured: str | None) -> tuple[str, Model]:
    """The model that is configured for this, else the one the user selected."""
    chosen = choose(connection)
    name = configured or chosen.model
    try:
        variant = chosen.variant if name == chosen.model else None
        return name, connection.models.find(name, variant)
    except BackendError as error:
        raise RPCError(INTERNAL_ERROR, f"{name} cannot be asked: {error.message}.") from None
