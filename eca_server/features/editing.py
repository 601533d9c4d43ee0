"""What a model writes into the user's document (chapters "Completion" and "Rewrite", of CURRENT).

The rules it keeps: a rewrite is answered before the model is asked; what cannot be begun is a
JSON-RPC error, in words for the user. Only who asks for a rewrite is told of one: to some clients
each notification with a content is text of a chat. A completion that there is not is no error,
since its user types on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from functools import partial
from typing import Final

from eca_protocol import messages as m
from eca_protocol.errors import INTERNAL_ERROR, INVALID_PARAMS, RPCError
from eca_protocol.peer import Handler
from eca_server.config import Behavior, Prompts, in_behavior
from eca_server.editing.document import Document, InvalidPosition, split_at
from eca_server.editing.rewriting import Rewrite, TooManyRewrites
from eca_server.editing.surroundings import Surroundings, read_surroundings
from eca_server.features.connection import Connection
from eca_server.features.selection import choose
from eca_server.llm.backend import BackendError
from eca_server.llm.models import Model
from eca_server.llm.simulator import Simulator

__all__ = ["handlers_of"]

MOST_SELECTED: Final = 512 * 1024
"""Characters of a selection; more is no piece of a document that a model rewrites."""

_NO_MODEL: Final = "there is no model to ask; log in with /login, or set `{}`."

_NONE: Final = m.CompletionInlineResponse(items=())


def handlers_of(connection: Connection) -> Mapping[str, Handler]:
    """The handlers of completions and rewrites."""

    def completion_inline(
        params: m.CompletionInlineParams,
    ) -> Awaitable[m.CompletionInlineResponse] | m.CompletionInlineResponse:
        place = params.position
        try:
            document = split_at(params.doc_text, line=place.line, character=place.character)
        except InvalidPosition as fault:
            raise RPCError(INVALID_PARAMS, f"params.position: {fault}") from None
        completions = connection.completions
        wanted = completions.begin()
        configured = connection.config.completion_model
        name, variant = _chosen(connection, configured)
        try:
            model = connection.models.find(name, variant)
        except BackendError as error:
            wanted.is_over = True
            completions.report_once(name, error.kind, f"{name} cannot be asked: {error.message}.")
            return _NONE
        if _stands_in(connection, name, model, configured):
            wanted.is_over = True
            completions.report_once(name, "configuration", _NO_MODEL.format("completion.model"))
            return _NONE
        instruction = _prompts(connection).completion

        async def answer() -> m.CompletionInlineResponse:
            text = await completions.complete(wanted, document, model, instruction)
            return (
                m.CompletionInlineResponse(items=(_item(params, document, text),))
                if text
                else _NONE
            )

        return answer()

    def rewrite_prompt(params: m.RewritePromptParams) -> m.RewritePromptResponse:
        if len(params.text) > MOST_SELECTED:
            raise RPCError(
                INVALID_PARAMS,
                f"params.text: expected at most {MOST_SELECTED:,} characters, "
                f"got {len(params.text):,}",
            )
        name, model = _model(connection, connection.config.rewrite_model)
        instruction = _prompts(connection).rewrite
        rewrite = Rewrite(
            id=params.id,
            selected=params.text,
            prompt=params.prompt,
            path=params.path,
            model=model,
            instruction=instruction,
            surroundings=partial(_surroundings, connection.config.rewrite_file_lines, params),
        )
        try:
            connection.rewrites.start(rewrite)
        except TooManyRewrites as fault:
            raise RPCError(INTERNAL_ERROR, f"{fault}; wait until one has ended.") from None
        return m.RewritePromptResponse(status="prompting", model=name)

    return {"completion/inline": completion_inline, "rewrite/prompt": rewrite_prompt}


def _item(
    params: m.CompletionInlineParams, document: Document, text: str
) -> m.CompletionInlineItem:
    """The item that puts a text at the cursor.

    Where the cursor's line begins as the text does, the item has the line from its beginning: some
    clients drop what an item and the line have in common.
    """
    start = end = params.position
    before = document.line_before
    if text[0] == (before + document.line_after)[:1] and len(before) == end.character - 1:
        start, text = m.Position(line=end.line, character=1), before + text
    return m.CompletionInlineItem(
        text=text.replace("\n", document.line_end),
        doc_version=params.doc_version,
        range=m.Range(start=start, end=end),
    )


def _surroundings(most_lines: int, params: m.RewritePromptParams) -> Awaitable[Surroundings]:
    line = params.range.start.line
    return read_surroundings(params.path, params.text, line=line, most_lines=most_lines)


def _prompts(connection: Connection) -> Prompts:
    return in_behavior(connection.config, choose(connection).behavior).prompts


def _chosen(connection: Connection, configured: str | None) -> tuple[str, str | None]:
    """The model and variant configured for this, else those the user selected."""
    chosen = choose(connection)
    name = configured or chosen.model
    return name, chosen.variant if name == chosen.model else None


def _stands_in(connection: Connection, name: str, model: Model, configured: str | None) -> bool:
    """Whether a model is the simulator, for want of another: the user has named it nowhere."""
    config = connection.config
    own = config.behaviors.get(choose(connection).behavior, Behavior())
    named = (configured, connection.model, config.default_model, own.default_model)
    return isinstance(model.backend, Simulator) and name not in named


def _model(connection: Connection, configured: str | None) -> tuple[str, Model]:
    name, variant = _chosen(connection, configured)
    try:
        model = connection.models.find(name, variant)
    except BackendError as error:
        raise RPCError(INTERNAL_ERROR, f"{name} cannot be asked: {error.message}.") from None
    if _stands_in(connection, name, model, configured):
        raise RPCError(INTERNAL_ERROR, f"Rewrite: {_NO_MODEL.format('rewrite.model')}")
    return name, model
