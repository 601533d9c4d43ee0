"""What a client answers its server: one handler for each question, and how it is announced."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias, TypeVar

import attrs

from eca_protocol import messages as m

__all__ = [
    "AskQuestionHandler",
    "DefinitionHandler",
    "DiagnosticsHandler",
    "ReferencesHandler",
    "RequestHandlers",
]

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
AskQuestionHandler: TypeAlias = "_Handler[m.ChatAskQuestionParams, m.ChatAskQuestionResponse]"


@attrs.frozen(kw_only=True)
class RequestHandlers:
    """The handlers of a client's; a question without one is refused, and not announced."""

    diagnostics: DiagnosticsHandler | None = None
    definition: DefinitionHandler | None = None
    references: ReferencesHandler | None = None
    ask_question: AskQuestionHandler | None = None

    def handlers(self) -> Mapping[str, Callable[[Any], Any]]:
        """The handlers there are, by the method's name."""
        all_handlers: dict[str, Callable[[Any], Any] | None] = {
            "editor/getDiagnostics": self.diagnostics,
            "editor/getDefinition": self.definition,
            "editor/getReferences": self.references,
            "chat/askQuestion": self.ask_question,
        }
        return {name: handler for name, handler in all_handlers.items() if handler is not None}

    def capabilities(self) -> m.ClientCapabilities:
        """What `initialize` says of them; an older server passes over what it does not know."""
        there_are = {
            "diagnostics": self.diagnostics,
            "definition": self.definition,
            "references": self.references,
        }
        editor = m.EditorCapabilities(
            **{name: True for name, handler in there_are.items() if handler is not None}
        )
        asking = m.ChatCapabilities(ask_question=self.ask_question is not None)
        return m.ClientCapabilities(
            code_assistant=m.CodeAssistantCapabilities(
                chat=True,
                rewrite=True,
                editor=None if editor == m.EditorCapabilities() else editor,
                chat_capabilities=asking,
            )
        )
