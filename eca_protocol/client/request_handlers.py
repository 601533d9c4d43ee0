"""A client's handlers for the server's requests, and their capabilities."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any, TypeAlias, TypeVar

import attrs

from eca_protocol import messages as m
from eca_protocol import methods
from eca_protocol.errors import LocalProtocolError

_Params = TypeVar("_Params")
_Result = TypeVar("_Result")
_Handler: TypeAlias = "Callable[[_Params], _Result | Awaitable[_Result]]"

DiagnosticsHandler: TypeAlias = (
    "_Handler[m.EditorGetDiagnosticsParams, m.EditorGetDiagnosticsResponse]"
)
DefinitionHandler: TypeAlias = (
    "_Handler[m.EditorGetDefinitionParams, m.EditorGetDefinitionResponse]"
)
ReferencesHandler: TypeAlias = (
    "_Handler[m.EditorGetReferencesParams, m.EditorGetReferencesResponse]"
)
QuestionHandler: TypeAlias = "_Handler[m.ChatAskQuestionParams, str | None]"


@attrs.define(kw_only=True, slots=False, eq=False, repr=False)
class RequestHandlers:
    """A client's handlers; a request without one is refused, and its capability not announced."""

    diagnostics: DiagnosticsHandler | None = None
    definition: DefinitionHandler | None = None
    references: ReferencesHandler | None = None
    on_question: QuestionHandler | None = None

    def handlers(
        self, begin_question: Callable[[str], Callable[[], None]]
    ) -> Iterator[tuple[str, Callable[[Any], Any]]]:
        """Yield the handlers with their methods' names.

        `begin_question` is called with the chat's id of each question, and its result behind the
        answer.
        """
        if self.diagnostics is not None:
            yield methods.EDITOR_GET_DIAGNOSTICS.handled_by(self.diagnostics)
        if self.definition is not None:
            yield methods.EDITOR_GET_DEFINITION.handled_by(self.definition)
        if self.references is not None:
            yield methods.EDITOR_GET_REFERENCES.handled_by(self.references)
        if self.on_question is not None:
            yield methods.CHAT_ASK_QUESTION.handled_by(
                partial(_answer_question, self.on_question, begin_question)
            )

    def capabilities(self) -> m.ClientCapabilities:
        """Return the capabilities for `initialize`; an older server ignores unknown ones."""
        editor_handlers = {
            "diagnostics": self.diagnostics,
            "definition": self.definition,
            "references": self.references,
        }
        editor = m.EditorCapabilities(
            **{name: True for name, handler in editor_handlers.items() if handler is not None}
        )
        chat = m.ChatCapabilities(ask_question=self.on_question is not None)
        return m.ClientCapabilities(
            code_assistant=m.CodeAssistantCapabilities(
                chat=True,
                rewrite=True,
                editor=None if editor == m.EditorCapabilities() else editor,
                chat_capabilities=chat,
            )
        )


def _answer_question(
    on_question: QuestionHandler,
    begin_question: Callable[[str], Callable[[], None]],
    params: m.ChatAskQuestionParams,
) -> m.ChatAskQuestionResponse | Awaitable[m.ChatAskQuestionResponse]:
    with contextlib.ExitStack() as exits:
        exits.callback(begin_question(params.chat_id))
        answer = on_question(params)
        if isinstance(answer, Awaitable):
            return _later_response(answer, exits.pop_all())
        return _response(answer)


async def _later_response(
    answer: Awaitable[str | None], exits: contextlib.ExitStack
) -> m.ChatAskQuestionResponse:
    with exits:
        return _response(await answer)


def _response(answer: object) -> m.ChatAskQuestionResponse:
    if not isinstance(answer, str | None):
        raise LocalProtocolError(f"on_question: expected a text or None, got {answer!r}")
    return m.ChatAskQuestionResponse(answer=answer, cancelled=answer is None)
