"""A chat as the handler of a prompt sees it, for one turn."""

from __future__ import annotations

import functools
import logging
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
import anyio.lowlevel
import attrs

from eca_protocol import json
from eca_protocol import messages as m
from eca_protocol.codec import MessageCodec
from eca_protocol.draft import codec_for
from eca_protocol.errors import (
    ConnectionClosed,
    DeadlineExceeded,
    DecodeError,
    LocalProtocolError,
    RequestFailed,
)
from eca_protocol.methods import CHAT_CONTENT_RECEIVED
from eca_protocol.peer import Peer
from eca_protocol.revisions import Revision
from eca_protocol.server.calls import Call, CallInput, CallState, Naming
from eca_protocol.server.connected_client import ConnectedClient, asks_questions
from eca_protocol.server.conversation import Conversation
from eca_protocol.server.texts import Role
from eca_protocol.server.turn import Turn
from eca_protocol.server.values import ChatMessage, Tool, ToolResult, Work, check_list

__all__ = ["ServerChat"]

_log = logging.getLogger("eca_protocol.server")

PATIENCE: Final = 24 * 3600.0
"""The limit of the wait for an answer of the user, in seconds."""

WAITING: Final = "Waiting for tool call approval"  # Neovim asks when it reads this text


@attrs.define(slots=False, eq=False, repr=False)
class ServerChat:
    """A chat, for the handler of one prompt.

    A stop by the user cancels the handler at its next `await`; whatever is open is closed then. A
    method raises LocalProtocolError after the turn has ended.

    Attributes:
        id: the id of the chat.
        client: the connected client: its name, capabilities, edition and workspace.
        memory: values of your own, which the chat keeps for its later turns.
    """

    _turn: Turn
    _conversation: Conversation
    client: ConnectedClient
    _peer: Peer
    _tools: Mapping[str, Tool]
    _allowed: set[str]
    id: str = attrs.field(init=False)
    memory: dict[str, Any] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.id, self.memory = self._conversation.id, self._conversation.memory

    @property
    def history(self) -> Sequence[ChatMessage]:
        """The messages of the user and of the assistant so far, this prompt included.

        Tool calls, reasoning and the server's own texts are not among them.
        """
        return self._conversation.history

    async def say(self, text: str, *, role: Role = "assistant") -> None:
        """Write a piece of text; the client joins the pieces of the assistant's text.

        Args:
            text: the text, of any length; Markdown.
            role: `assistant` for the answer; `system` for a note of the server, which becomes a
                paragraph of its own and is not part of the history.
        """
        self._turn.emit(role, m.ChatTextContent(text=text))
        await self._drain()

    async def send(self, content: m.ChatContent, *, role: Role = "assistant") -> None:
        """Write any content (chapter "Chat Content Received"), such as a link or an image.

        The contents that begin and end turns, reasonings and tool calls are written for you.

        Raises:
            LocalProtocolError: the turn has ended; or the content has a wrong value, or is the end
                of the turn.
        """
        if isinstance(content, m.ChatProgressContent) and content.state == "finished":
            raise LocalProtocolError("send: the end of a turn is written when the handler returns")
        _check_content(content)
        self._turn.emit(role, content)
        await self._drain()

    async def progress(self, text: str) -> None:
        """Show the current activity in the client's status line."""
        self._turn.progress(text)
        await self._drain()

    async def reason(self, text: str) -> None:
        """Write a whole block of reasoning."""
        async with self.reasoning() as write:
            await write(text)

    @asynccontextmanager
    async def reasoning(self) -> AsyncIterator[Callable[[str], Awaitable[None]]]:
        """Open a block of reasoning; the block gets a function that writes a piece of it."""
        key = str(uuid.uuid4())
        self._turn.reasonings.start(key)

        async def write(text: str) -> None:
            if key in self._turn.reasonings.finished and not self._turn.is_stopped:
                raise LocalProtocolError("the block of reasoning has ended: write within its block")
            self._turn.reasonings.write(key, text)
            await self._drain()

        try:
            yield write
        finally:
            if not self._turn.is_stopped:
                self._turn.reasonings.finish(key)

    async def tool_call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        run: Work | None = None,
        approval: bool | None = None,
        summary: str | None = None,
        details: m.ToolCallDetails | None = None,
    ) -> ToolResult:
        """Call a tool, with all of its contents in the order of ruling W-30.

        Args:
            name: the name of a tool that `Server.tool` has declared, or any name with `run`.
            arguments: its arguments, JSON.
            run: the work, in place of the declared tool's: takes the arguments and returns the
                output. Its exception fails the call, with the exception's text as the output.
            approval: ask the user before the work; None: as the tool is declared, or True. A tool
                that the user has allowed for the session, or in a trusted chat, is not asked for.
            summary: one line that describes the call.
            details: what the client shows in place of the arguments, such as a diff.

        Returns:
            The verdict, and the output.

        Raises:
            LocalProtocolError: the turn has ended, or the arguments are no JSON object.
        """
        if not isinstance(arguments, Mapping):
            raise LocalProtocolError(f"{name}: expected arguments as a mapping, got {arguments!r}")
        await anyio.lowlevel.checkpoint()
        if self._turn.is_stopped:
            return ToolResult("rejected")
        tool = self._tools.get(name)
        work = run or (tool.work if tool else None)
        text = json.dumps(arguments).decode()
        call = self._new_call(name, summary)
        asks = approval if approval is not None else tool is None or tool.needs_approval
        is_allowed = self._conversation.trust or call.naming.name in self._allowed
        try:
            call.prepare(text)
            asks = asks and not is_allowed and work is not None
            call.announce(arguments, manual_approval=asks, details=details)
            if work is None:
                call.move(CallInput.FAULT)
                unknown = f"There is no tool {name!r}. Tools: {', '.join(self._tools) or 'none'}."
                call.write_called([unknown], is_error=True)
                return ToolResult("failed", unknown)
            if asks and not await self._is_approved(call):
                return ToolResult("rejected")
            return await self._run(call, work)
        except BaseException:
            call.stop()
            raise

    def _new_call(self, name: str, summary: str | None) -> Call:
        naming = Naming(
            id=str(uuid.uuid4()),
            name=self.client.tool_name(name),
            server="eca",
            origin="native",
            summary=summary,
        )
        call = Call(lambda content: self._turn.emit("assistant", content), naming)
        self._turn.calls[naming.id] = call
        return call

    async def _is_approved(self, call: Call) -> bool:
        """Wait for the user's decision, or for a limited time if the edition has none (W-52)."""
        call.wait_for_user()
        self._turn.progress(WAITING)
        with anyio.move_on_after(self.client.approval_seconds):
            await call.decided.wait()
        if call.state is CallState.WAITING:
            call.reject()
        await anyio.lowlevel.checkpoint()
        is_approved = call.state is CallState.RUN
        self._turn.progress("Running a tool" if is_approved else "Working")
        return is_approved

    async def _run(self, call: Call, work: Work) -> ToolResult:
        call.start()
        is_error = False
        try:
            output = _text_of(call.naming.name, await work(dict(call.arguments)))
        except Exception as error:  # noqa: BLE001 - it is the result of the call
            _log.warning("the tool %s failed", call.naming.name, exc_info=True)
            output, is_error = str(error) or type(error).__name__, True
        await anyio.lowlevel.checkpoint()  # a stopped turn has closed the call
        if call.is_open:
            call.move(CallInput.DONE)
            call.write_called([output], is_error=is_error)
        await self._drain()
        return ToolResult("failed" if is_error else "called", output)

    async def ask(
        self,
        question: str,
        options: Sequence[str | m.ChatAskQuestionOption] = (),
        *,
        allow_freeform: bool = True,
        deadline: float = PATIENCE,
    ) -> str | None:
        """Ask the user a question (chapter "Chat ask question", of CURRENT).

        Args:
            question: the question.
            options: answers to choose from.
            allow_freeform: allow an answer that is not among the options.
            deadline: the limit of the wait, in seconds.

        Returns:
            The answer. None: the client cannot show questions, the user gave no answer in time, or
            the answer is invalid.

        Raises:
            LocalProtocolError: the options are a text.
        """
        check_list("options", options)
        if not asks_questions(self.client.capabilities, self.client.revision):
            await anyio.lowlevel.checkpoint()
            return None
        params = m.ChatAskQuestionParams(
            chat_id=self.id,
            question=question,
            options=tuple(map(_option, options)) or None,
            allow_freeform=allow_freeform or not options,
        )
        try:
            answer: m.ChatAskQuestionResponse = await self._peer.call(
                "chat/askQuestion", params, deadline=deadline
            )
        except (ConnectionClosed, DeadlineExceeded, DecodeError, RequestFailed) as error:
            _log.warning("a question was not answered: %s", error)
            return None
        return None if answer.cancelled else answer.answer

    def take_steers(self) -> Sequence[str]:
        """Return the messages that the user has sent to the running turn since the last call.

        Messages that were not taken are shown to the user at the end of the turn.
        """
        steers, self._turn.steers = self._turn.steers, []
        return steers

    def set_title(self, title: str) -> None:
        """Set the title of the chat.

        Raises:
            LocalProtocolError: the title is no text.
        """
        _check_content(m.ChatMetadataContent(title=title))
        self._conversation.rename(title)

    def set_usage(self, session_tokens: int, **more: Any) -> None:
        """Set the usage that is written at the end of this turn, and of later ones.

        Args:
            session_tokens: the tokens of the chat (ruling W-27).
            more: other fields of `ChatUsageContent`; costs are texts.

        Raises:
            LocalProtocolError: a value has a wrong type.
        """
        usage = m.ChatUsageContent(session_tokens=session_tokens, **more)
        _check_content(usage)
        self._conversation.usage = usage

    async def _drain(self) -> None:
        """Wait until the client has read most of the output; a stop takes effect here."""
        await self._peer.transport.drain()
        await anyio.lowlevel.checkpoint()


@functools.cache
def _codec() -> MessageCodec:
    return codec_for(Revision.CURRENT)


def _check_content(content: m.ChatContent) -> None:
    """Refuse a content that a client could not read."""
    name = CHAT_CONTENT_RECEIVED.name
    params = m.ChatContentReceivedParams(chat_id="", role="system", content=content)
    raw = json.loads(json.dumps(_codec().encode_params(name, params)))
    try:
        _codec().decode_params(name, raw)
    except DecodeError as error:
        raise LocalProtocolError(f"{content.type}: {error}") from None


def _text_of(name: str, output: object) -> str:
    if not isinstance(output, str):
        raise LocalProtocolError(f"the tool {name}: expected a text as its output, got {output!r}")
    return output


def _option(option: str | m.ChatAskQuestionOption) -> m.ChatAskQuestionOption:
    return m.ChatAskQuestionOption(label=option) if isinstance(option, str) else option
