"""`ask_user`: the model asks the user a question and waits for the answer.

The rules it keeps: the client is asked only if it said that it can show a question, and one at a
time; the turn owns the wait, so that a stop ends it; an answer that makes no sense is none.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from typing import Any, ClassVar

import attrs
import trio

from eca_protocol.errors import ConnectionClosed, DeadlineExceeded, DecodeError, RequestFailed
from eca_protocol.messages import (
    ChatAskQuestionOption,
    ChatAskQuestionParams,
    ChatAskQuestionResponse,
    CodeAssistantCapabilities,
)
from eca_server.config.trust_texts import PREFIX, TRUST
from eca_server.llm.history import TextPart
from eca_server.session import Session
from eca_server.tools.tool import Effect, PreparedCall, ToolFault, ToolOutput, running_call

__all__ = ["AskUser", "client_asks_questions", "imitates_trust"]

PATIENCE = 24 * 3600.0
"""Seconds after which nobody is expected to answer any more."""

CANCELLED = (
    "The user closed the question without an answer. Go on as far as you can without it, or say "
    "what you need to know."
)


def client_asks_questions(session: Session) -> bool:
    """Whether the client has announced that it shows questions, in an edition that has them."""
    assistant = session.capabilities.code_assistant
    chat = assistant.chat_capabilities if assistant else None
    can = bool(chat and chat.ask_question)
    return can and session.writes(CodeAssistantCapabilities, "chat_capabilities")


def imitates_trust(*texts: str) -> bool:
    """Return whether a text looks like the server's own question about workspace trust."""
    return any(_letters(mark) in _letters(text) for text in texts for mark in (PREFIX, TRUST))


def _letters(text: str) -> str:
    return "".join(filter(str.isalpha, unicodedata.normalize("NFKD", text).casefold()))


@attrs.frozen(kw_only=True)
class AskUser:
    """The tool `ask_user`; to be offered where `client_asks_questions`.

    Attributes:
        session: whose user is asked.
        chat_id: the chat in which the question is shown.
    """

    session: Session
    chat_id: str
    _turn: trio.Lock = attrs.field(factory=trio.Lock, init=False)

    name: ClassVar = "ask_user"
    effect: ClassVar[Effect] = "read"
    description: ClassVar = (
        "Ask the user one question and wait for the answer. Use it where you cannot go on without "
        "a decision that is the user's, and nothing in the workspace tells it; not for permission "
        "to call a tool, which is asked for anyway."
    )
    parameters: ClassVar[Mapping[str, Any]] = {
        "type": "object",
        "properties": {
            "question": {"type": "string", "description": "The question, short and complete."},
            "options": {
                "type": "array",
                "description": "Answers to choose from.",
                "items": {
                    "type": "object",
                    "properties": {
                        "label": {"type": "string", "description": "The answer, in a few words."},
                        "description": {"type": "string", "description": "What it would mean."},
                    },
                    "required": ["label"],
                },
            },
            "allowFreeform": {
                "type": "boolean",
                "description": "Whether an answer in the user's own words is taken. Default: yes.",
            },
        },
        "required": ["question"],
    }

    def summary(self, arguments: Mapping[str, Any]) -> str:
        """`Asking: ` and the question, in one line."""
        question = arguments.get("question")
        words = " ".join(question.split()) if isinstance(question, str) else ""
        return f"Asking: {words[:100]}" if words else "Asking a question"

    async def prepare(self, arguments: Mapping[str, Any]) -> PreparedCall:
        """Look whether it can be asked.

        Raises:
            ToolFault: there is no question, or no way to answer it.
        """
        await trio.lowlevel.checkpoint()
        question: str = arguments["question"]
        options = tuple(
            ChatAskQuestionOption(label=each["label"], description=each.get("description"))
            for each in arguments.get("options", ())
        )
        freeform: bool = arguments.get("allowFreeform", True) or not options
        if not question.strip():
            raise ToolFault("question: expected a question, got nothing.")
        if imitates_trust(question, *(each.label for each in options)):
            raise ToolFault(
                "question: expected a question of your own, got one that looks like the server's "
                "question about trust in the workspace. The user decides on that by `/trust`."
            )

        async def run() -> ToolOutput:
            params = ChatAskQuestionParams(
                chat_id=self.chat_id,
                question=question,
                options=options or None,
                tool_call_id=running_call.get(None),
                allow_freeform=freeform,
            )
            async with self._turn:
                return ToolOutput(parts=(TextPart(await self._ask(params)),))

        return PreparedCall(run=run, summary=self.summary(arguments))

    async def _ask(self, params: ChatAskQuestionParams) -> str:
        try:
            answer: ChatAskQuestionResponse = await self.session.request(
                "chat/askQuestion", params, deadline=PATIENCE
            )
        except (ConnectionClosed, DeadlineExceeded, DecodeError, RequestFailed) as fault:
            raise ToolFault(f"The user could not be asked: {fault}") from fault
        if answer.cancelled or answer.answer is None:
            return CANCELLED
        return f"The user answered: {answer.answer}"
