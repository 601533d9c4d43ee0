"""`ask_user`: the model asks the user a question and waits for the answer.

The rules of this module: the request is sent only to a client with the capability, one at a time.
The turn owns the wait, so that a stop ends it. An invalid answer counts as no answer.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from typing import Any, ClassVar

import attrs
import trio

from eca_protocol.messages import ChatAskQuestionOption, ChatAskQuestionParams
from eca_protocol.server.connected_client import asks_questions
from eca_server.agent.tools.schemas import boolean, object_schema, required, string
from eca_server.agent.tools.tool import Effect, PreparedCall, ToolError, ToolOutput, running_call
from eca_server.client.session import REQUEST_ERRORS, Session
from eca_server.config.trust_texts import PREFIX, TRUST

PATIENCE = 24 * 3600.0
"""Seconds after which the question is abandoned."""

ACTIVITY = "Waiting for your answer"

CANCELLED = (
    "The user dismissed the question without an answer. Continue as far as possible without it, "
    "or state what you need to know."
)


def client_asks_questions(session: Session) -> bool:
    """Return True if the client can show questions, in an edition that has them."""
    return asks_questions(session.capabilities, session.revision)


def imitates_trust(*texts: str) -> bool:
    """Return True if a text looks like the server's own question about workspace trust."""
    return any(_letters(mark) in _letters(text) for text in texts for mark in (PREFIX, TRUST))


def _letters(text: str) -> str:
    return "".join(filter(str.isalpha, unicodedata.normalize("NFKD", text).casefold()))


@attrs.frozen(kw_only=True)
class AskUser:
    """The tool `ask_user`; offered only if `client_asks_questions`."""

    session: Session
    chat_id: str
    _turn: trio.Lock = attrs.field(factory=trio.Lock, init=False)

    name: ClassVar = "ask_user"
    effect: ClassVar[Effect] = "read"
    description: ClassVar = (
        "Ask the user one question and wait for the answer. Use it only if you cannot continue "
        "without a decision of the user that the workspace does not answer. Do not ask for "
        "permission to call a tool: approval is requested automatically."
    )
    parameters: ClassVar[Mapping[str, Any]] = object_schema(
        question=required(string("The question to ask: short and complete.")),
        options={
            "type": "array",
            "description": "Answers that the user can choose from.",
            "items": object_schema(
                label=required(string("The answer in a few words.")),
                description=string("The consequence of the answer."),
            ),
        },
        allowFreeform=boolean("Allow an answer that is not among the options. Default: true."),
    )

    def summary(self, arguments: Mapping[str, Any]) -> str:
        """Return `Asking: QUESTION`, on one line."""
        question = arguments.get("question")
        text = " ".join(question.split()) if isinstance(question, str) else ""
        return f"Asking: {text[:100]}" if text else "Asking a question"

    async def prepare(self, arguments: Mapping[str, Any]) -> PreparedCall:
        """Validate the question.

        Raises:
            ToolError: the question is blank, or imitates the server's question about trust.
        """
        await trio.lowlevel.checkpoint()
        question: str = arguments["question"]
        options = tuple(
            ChatAskQuestionOption(label=each["label"], description=each.get("description"))
            for each in arguments.get("options", ())
        )
        freeform: bool = arguments.get("allowFreeform", True) or not options
        if not question.strip():
            raise ToolError("question: expected a question, got a blank text.")
        if imitates_trust(question, *(each.label for each in options)):
            raise ToolError(
                "question: expected a question of your own, got one that looks like the server's "
                "question about trust in the workspace. The user decides that with `/trust`."
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
                return ToolOutput.of(await self._ask(params))

        return PreparedCall(run=run, summary=self.summary(arguments), activity=ACTIVITY)

    async def _ask(self, params: ChatAskQuestionParams) -> str:
        try:
            answer = await self.session.ask(params, deadline=PATIENCE)
        except REQUEST_ERRORS as error:
            raise ToolError(f"Could not ask the user: {error}") from error
        if answer.cancelled or answer.answer is None:
            return CANCELLED
        return f"The user answered: {answer.answer}"
