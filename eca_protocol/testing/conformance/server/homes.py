"""Cases of several servers in one home: at once, beside a broken file, and one after another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.cases import case
from eca_protocol.testing.conformance.chat_session import ChatSession
from eca_protocol.testing.conformance.harness import ClientSession, Harness
from eca_protocol.testing.conformance.server.configuration import BROKEN_FILE, write_configuration
from eca_protocol.testing.conformance.server.reading import conversation, result_of
from eca_protocol.testing.conformance.verdicts import NotApplicable, Unmet
from eca_protocol.testing.script import reply, wait

NAME: Final = "My name is Ann."
QUESTION: Final = "What is my name?"


@case("LIFE-3", "W-21a", seconds=40)
async def two_servers_share_a_home(harness: Harness) -> None:
    """Start a second server in the home of the first, as a second window of an editor does."""
    home = harness.directories()
    async with (
        harness.session(directories=home) as first,
        harness.session(directories=home, handshake=False) as second,
    ):
        alone = first.chat(reply("Hello."))
        await alone.prompt("Hi.")
        ends_alone = await alone.finishes()
        await _check_start(second, "beside another server of the same home")
        if not ends_alone:
            raise Unmet("a turn of the first server that ends without the user")
        for session in (second, first):
            chat = session.chat(reply("Hello."))
            answer = await chat.prompt("Hi.")
            expected = "an answer and a turn at each of two servers in one home"
            harness.check("W-21a", result_of(answer) and await chat.finishes(), expected, answer)


@case("LIFE-3", needs="config", seconds=40)
async def a_broken_file_does_not_prevent_the_start(harness: Harness) -> None:
    """Start a server whose user and workspace have half of a configuration file."""
    home = harness.directories()
    write_configuration(home, BROKEN_FILE)
    async with harness.session(directories=home, handshake=False) as session:
        await _check_start(session, "with a broken configuration file")


async def _check_start(session: ClientSession, where: str) -> None:
    expected = f"an object as the answer to `initialize` {where}"
    try:
        await session.handshake()
    except Unmet as stuck:
        session.check("LIFE-3", False, expected, stuck.got)
        raise
    answer = session.initialized
    session.check("LIFE-3", isinstance(answer.get("result"), Mapping), expected, answer)


@case("CHAT-2", "W-24f", needs="model", seconds=60)
async def chats_continue_in_the_next_server(harness: Harness) -> None:
    """Continue a chat and a deleted one after a shutdown, and a chat whose server was killed.

    A server need not store chats: then the first chat does not continue.
    """
    home = harness.directories()
    async with harness.session(directories=home) as session:
        stored = await session.take_turn(NAME, reply("Hello."))
        deleted = await session.take_turn(NAME, reply("Hello."))
        await session.ask("chat/delete", {"chatId": deleted.id})
        await session.ask("shutdown")
        await session.notify("exit")
        if await session.exit_code() is None:
            raise Unmet("the end of the process after `shutdown`", "a running process")
    async with harness.session(directories=home) as session:
        await _check_deleted(session, deleted)
        if NAME not in await _continue(session, stored):
            raise NotApplicable("it stores no chats")
        killed = session.chat(reply("Hello."), reply("Some", wait("for ever")))
        await killed.take_turn(NAME)
        await killed.prompt("Continue.")
        await killed.content("text", text="Some")
        await session.kill()
    async with harness.session(directories=home) as session:
        sent = await _continue(session, killed)
    harness.check(
        "CHAT-2", NAME in sent, f"{NAME!r} in the request of a chat whose server was killed", sent
    )


async def _continue(session: ClientSession, earlier: ChatSession) -> str:
    """Prompt a chat of an earlier server; return the conversation that the model gets."""
    chat = session.chat(reply("I see."), id=earlier.id)
    await chat.take_turn(QUESTION)
    return conversation(chat.model.first.body)


async def _check_deleted(session: ClientSession, deleted: ChatSession) -> None:
    if session.edition is Revision.CURRENT:
        listed = str(await session.ask("chat/list", {"limit": 500}))
        is_listed = f"'{deleted.id}'" in listed
        session.check("W-24f", not is_listed, "a list of chats without the deleted one", listed)
    sent = await _continue(session, deleted)
    expected = "no text of the chat that an earlier server deleted, in the request"
    session.check("W-24f", NAME not in sent, expected, sent)
