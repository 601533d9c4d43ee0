"""Messages to a running turn: texts, commands, side questions."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping

import attrs

from eca_protocol import messages as m
from eca_protocol import methods
from eca_protocol.peer import Handler
from eca_protocol.server.texts import arguments_of, named_command
from eca_server.agent.chat import Chat, Turn
from eca_server.agent.chat.subagents import SubagentChat
from eca_server.agent.chat.turn import Steer, SteeredCommand
from eca_server.agent.commands import run_command, steering_of
from eca_server.agent.commands.chats import ask_aside
from eca_server.connection.features.prompts import Prompts

_MAY_BE_KEY = (
    "This message was not sent to the model, because it may be the key that `/login` asks for."
)

_AGAIN = "Send it again once this turn has ended."

_log = logging.getLogger("eca_server.agent.chat")


def make_handlers(prompts: Prompts) -> Mapping[str, Handler]:
    """Return the handlers of steering."""
    chats, nursery = prompts.chats, prompts.host.nursery

    def prompt_steer(params: m.ChatPromptSteerParams) -> None:
        chat = chats.at(params.chat_id)
        if chat is None:
            # A client whose server was restarted waits for the end of a lost turn. Freed by this
            # message, it sends the text as a prompt.
            idle = m.ChatStatusChangedParams(chat_id=params.chat_id, status="idle")
            prompts.session.notify("chat/statusChanged", idle)
            return
        turn = chat.turn
        if turn is None:
            return
        prompts.session.note_text()
        if isinstance(chat, SubagentChat):
            text = prompts.shown_text(params.message)
            turn.steers.append(Steer(text=text, is_resent=turn.session.profile.resends_steers))
            return
        name = named_command(params.message)
        steering, is_resent = steering_of(name), turn.session.profile.resends_steers
        if steering == "at once":
            _echo(turn, prompts.shown_text(params.message))
            nursery.start_soon(_ask_aside, prompts, chat, turn, params.message)
        elif steering == "refused":
            why = "because it changes the chat or starts a turn of its own."
            if is_resent:
                turn.report(f"`/{name}` runs once this turn has ended, {why}")
            else:
                turn.report(f"`/{name}` cannot run during a turn, {why} {_AGAIN}")
        elif prompts.may_be_key(chat, params.message):
            turn.report(_MAY_BE_KEY if is_resent else f"{_MAY_BE_KEY} {_AGAIN}")
        else:
            is_command = steering == "between requests"
            command = _command(prompts, chat, params.message) if is_command else None
            turn.steers.append(Steer(text=params.message, command=command, is_resent=is_resent))

    def prompt_steer_remove(params: m.ChatPromptSteerRemoveParams) -> None:
        chat = chats.at(params.chat_id)
        if chat is not None and chat.turn is not None:
            chat.turn.steers.clear()

    return methods.handlers(
        methods.CHAT_PROMPT_STEER.handled_by(prompt_steer),
        methods.CHAT_PROMPT_STEER_REMOVE.handled_by(prompt_steer_remove),
    )


def _echo(turn: Turn, text: str) -> None:
    """Show a side question, so that the client does not send it again after the turn.

    The client then also forgets the messages that still wait.
    """
    steer, history = Steer(text=text), turn.outlet.history
    history.unrecorded_prompts[steer.content_id] = len(history) + len(turn.messages)
    turn.emit("user", m.ChatTextContent(text=steer.text, content_id=steer.content_id))
    turn.steers[:] = [attrs.evolve(each, is_resent=False) for each in turn.steers]


def _command(prompts: Prompts, chat: Chat, text: str) -> SteeredCommand:
    name = named_command(text) or ""

    async def run(turn: Turn, compact: Callable[[str], Awaitable[None]]) -> None:
        if name == "compact":
            await compact(arguments_of(text))
        else:
            await run_command(name, turn, prompts.command_context(chat, text))

    return run


async def _ask_aside(prompts: Prompts, chat: Chat, turn: Turn, text: str) -> None:
    try:
        await ask_aside.run(turn, prompts.command_context(chat, text))
    except Exception:  # noqa: BLE001 - a bug must not end the server
        _log.exception("a side question of chat %s failed", chat.id)
        turn.report("The side question failed; see the server's log.")
