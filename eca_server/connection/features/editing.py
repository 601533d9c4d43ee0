"""Completions and rewrites of the user's document (chapters "Completion", "Rewrite" of CURRENT).

The response to a rewrite precedes its model request; a rewrite that cannot start gets a JSON-RPC
error with a message for the user. Only a client that has requested a rewrite gets notifications of
it, because other clients take each content as text of a chat. A failed completion is no error: the
user keeps typing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from functools import partial
from typing import Final

import attrs
import trio

from eca_protocol import messages as m
from eca_protocol import methods
from eca_protocol.errors import INTERNAL_ERROR, INVALID_PARAMS, RPCError
from eca_protocol.peer import Handler
from eca_server.agent.editing.completing import Completions, Document, InvalidPosition, split_at
from eca_server.agent.editing.rewriting import (
    Rewrite,
    Rewrites,
    Surroundings,
    TooManyRewrites,
    read_surroundings,
)
from eca_server.client.session import Session
from eca_server.config.agent_settings import Behavior, Prompts
from eca_server.config.effective import apply_behavior
from eca_server.connection.features.current_models import CurrentModels
from eca_server.connection.features.selection import Selection
from eca_server.connection.features.settings import Settings
from eca_server.models.backend import BackendError
from eca_server.models.models import Model
from eca_server.models.simulator import Simulator

MOST_SELECTED: Final = 512 * 1024
"""Limit of a selection, in characters."""

_NO_MODEL: Final = "no model is configured; log in with /login, or set `{}`."

_NO_ITEMS: Final = m.CompletionInlineResponse(items=())


@attrs.define(eq=False)
class Editing:
    """The completions and rewrites of a connection."""

    session: Session
    settings: Settings
    models: CurrentModels
    selection: Selection
    nursery: trio.Nursery
    completions: Completions = attrs.field(init=False)
    rewrites: Rewrites = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.completions = Completions(partial(self.session.show, "warning"))
        self.rewrites = Rewrites(self.session, self.nursery)

    def handlers(self) -> Mapping[str, Handler]:
        """Return the handlers of completions and rewrites."""
        return methods.handlers(
            methods.COMPLETION_INLINE.handled_by(self._complete),
            methods.REWRITE_PROMPT.handled_by(self._rewrite),
        )

    def _complete(
        self, params: m.CompletionInlineParams
    ) -> Awaitable[m.CompletionInlineResponse] | m.CompletionInlineResponse:
        """Complete the text at the cursor; without a usable model, return no items."""
        place = params.position
        try:
            document = split_at(params.doc_text, line=place.line, character=place.character)
        except InvalidPosition as error:
            raise RPCError(INVALID_PARAMS, f"params.position: {error}") from None
        completions = self.completions
        completion = completions.begin()
        configured = self.settings.config.completion_model
        name, variant = self._chosen(configured)
        try:
            model = self.models.current.find(name, variant)
        except BackendError as error:
            completion.is_over = True
            completions.report_once(name, error.kind, f"{name} cannot be used: {error.message}.")
            return _NO_ITEMS
        if self._is_fallback(name, model, configured):
            completion.is_over = True
            completions.report_once(name, "configuration", _NO_MODEL.format("completion.model"))
            return _NO_ITEMS
        instruction = self._prompts().completion

        async def answer() -> m.CompletionInlineResponse:
            text = await completions.complete(completion, document, model, instruction)
            items = (_item(params, document, text),) if text else ()
            return m.CompletionInlineResponse(items=items)

        return answer()

    def _rewrite(self, params: m.RewritePromptParams) -> m.RewritePromptResponse:
        if len(params.text) > MOST_SELECTED:
            raise RPCError(
                INVALID_PARAMS,
                f"params.text: expected at most {MOST_SELECTED:,} characters, "
                f"got {len(params.text):,}",
            )
        try:
            name, model = self._model(self.settings.config.rewrite_model)
        except RPCError as error:
            # Clients that hide messages hide the refusal, too.
            if not self.session.profile.display.shows_messages:
                self.session.show("warning", error.message)
            raise
        instruction = self._prompts().rewrite
        rewrite = Rewrite(
            id=params.id,
            selected=params.text,
            prompt=params.prompt,
            path=params.path,
            model=model,
            instruction=instruction,
            surroundings=partial(_surroundings, self.settings.config.rewrite_file_lines, params),
        )
        try:
            self.rewrites.start(rewrite)
        except TooManyRewrites as error:
            raise RPCError(INTERNAL_ERROR, f"{error}; wait until one has ended.") from None
        return m.RewritePromptResponse(status="prompting", model=name)

    def _prompts(self) -> Prompts:
        return apply_behavior(self.settings.config, self.selection.choose().behavior).prompts

    def _chosen(self, configured: str | None) -> tuple[str, str | None]:
        """Return the configured model and variant, else those the user selected."""
        chosen = self.selection.choose()
        name = configured or chosen.model
        return name, chosen.variant if name == chosen.model else None

    def _is_fallback(self, name: str, model: Model, configured: str | None) -> bool:
        """Return whether a model is the simulator and the user did not choose it."""
        config = self.settings.config
        own = config.behaviors.get(self.selection.choose().behavior, Behavior())
        named = (configured, self.selection.model, config.default_model, own.default_model)
        return isinstance(model.backend, Simulator) and name not in named

    def _model(self, configured: str | None) -> tuple[str, Model]:
        name, variant = self._chosen(configured)
        try:
            model = self.models.current.find(name, variant)
        except BackendError as error:
            raise RPCError(INTERNAL_ERROR, f"{name} cannot be used: {error.message}.") from None
        if self._is_fallback(name, model, configured):
            raise RPCError(INTERNAL_ERROR, f"Rewrite: {_NO_MODEL.format('rewrite.model')}")
        return name, model


def _item(
    params: m.CompletionInlineParams, document: Document, text: str
) -> m.CompletionInlineItem:
    """Return the item that inserts a text at the cursor.

    If the cursor's line begins like the text, the item contains the line from its beginning:
    some clients drop the common prefix of an item and its line.
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
