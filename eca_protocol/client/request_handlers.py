"""A client's handlers for the server's requests, and their capabilities."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeAlias, TypeVar

import attrs

from eca_protocol import messages as m
from eca_protocol.errors import LocalProtocolError
from eca_protocol.methods import (
    CHAT_ASK_QUESTION,
    EDITOR_GET_DEFINITION,
    EDITOR_GET_DIAGNOSTICS,
    EDITOR_GET_REFERENCES,
)

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


@attrs.frozen(kw_only=True)
class RequestHandlers:
    """A client's handlers; a request without one is refused, and its capability not announced."""

    diagnostics: DiagnosticsHandler | None = None
    definition: DefinitionHandler | None = None
    references: ReferencesHandler | None = None
    on_question: QuestionHandler | None = None

    def handlers(self) -> Iterator[tuple[str, Callable[[Any], Any]]]:
        """Yield the handlers with their methods' names."""
        if self.diagnostics is not None:
            yield EDITOR_GET_DIAGNOSTICS.handled_by(self.diagnostics)
        if self.definition is not None:
            yield EDITOR_GET_DEFINITION.handled_by(self.definition)
        if self.references is not None:
            yield EDITOR_GET_REFERENCES.handled_by(self.references)
        if self.on_question is not None:
            yield CHAT_ASK_QUESTION.handled_by(self._answer_question)

    def _answer_question(
        self, params: m.ChatAskQuestionParams
    ) -> m.ChatAskQuestionResponse | Awaitable[m.ChatAskQuestionResponse]:
        assert self.on_question is not None
        answer = self.on_question(params)
        if isinstance(answer, Awaitable):
            return _later_response(answer)
        return _response(answer)

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


async def _later_response(answer: Awaitable[str | None]) -> m.ChatAskQuestionResponse:
    return _response(await answer)


def _response(answer: object) -> m.ChatAskQuestionResponse:
    if not isinstance(answer, str | None):
        raise LocalProtocolError(f"on_question: expected a text or None, got {answer!r}")
    return m.ChatAskQuestionResponse(answer=answer, cancelled=answer is None)
