"""Cases of a chat's title: one more request during the first turn, or none."""

from __future__ import annotations

from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.cases import case
from eca_protocol.testing.conformance.chat_session import ChatSession
from eca_protocol.testing.conformance.harness import ClientSession
from eca_protocol.testing.conformance.server.reading import offered_tools
from eca_protocol.testing.provider import ReceivedRequest
from eca_protocol.testing.script import hang, reply, wait


async def title_request(chat: ChatSession) -> ReceivedRequest:
    """Wait for the request for the chat's title."""
    expected = "a request for a title; perhaps titles are off"
    await chat.model.until(lambda: bool(chat.model.title_requests), expected)
    return chat.model.title_requests[0]


async def _wait_for_end(chat: ChatSession, request: ReceivedRequest) -> None:
    await chat.model.until(
        lambda: request.closed_by_client or request.answered, "the end of the request for a title"
    )


@case("W-25a", "W-25b", "CHAT-21", since=Revision.R2025_10)
async def a_title_is_one_request_more_and_may_come_late(session: ClientSession) -> None:
    """Prompt twice; hold the title back until the first turn has ended."""
    chat = session.chat(reply("one"), reply("two"))
    chat.model.title = reply(wait("late"), "A fine name")
    await chat.take_turn("Hi.")
    request = await title_request(chat)
    chat.model.open("late")
    is_shown = await chat.comes("metadata", title="A fine name")
    session.check("CHAT-21", is_shown, "a metadata content with the title", chat.of("metadata"))
    await chat.take_turn("Hi again.")
    count, tools = len(chat.model.title_requests), offered_tools(request.body)
    expected = "exactly one request for a title, without tools"
    got = f"{count} requests, with the tools {tools}"
    session.check("W-25a", count == 1 and not tools, expected, got)
    mention_title = [request.is_title for request in chat.model.requests]
    expected = "two requests whose instructions do not mention a title"
    got = f"{len(mention_title)} requests, {sum(mention_title)} of which mention it"
    session.check("W-25b", mention_title == [False, False], expected, got)


@case("W-25d", needs="model", since=Revision.R2025_10)
async def no_title_follows_a_stop_or_a_delete(session: ClientSession) -> None:
    """Stop a turn, and delete a chat, while the title is being generated."""
    for end in ("stop", "delete"):
        chat = session.chat(reply("some", hang()))
        chat.model.title = reply(wait("late"), "Too late")
        await chat.prompt("Hi.")
        await chat.content("text", text="some")
        request = await title_request(chat)
        if end == "stop":
            await chat.stop()
            await chat.finished()
        else:
            await session.ask("chat/delete", {"chatId": chat.id})
        chat.model.open("late")
        await _wait_for_end(chat, request)
        await session.settle()
        late = chat.of("metadata")
        session.check("W-25d", not late, f"no title after the {end}", late)


@case("W-25c", needs="config", config={"chat": {"title": False}})
async def titles_can_be_turned_off(session: ClientSession) -> None:
    """Prompt twice with `chat.title: false`."""
    chat = await session.take_turn("Hi.", reply("one"), reply("two"))
    await chat.take_turn("Hi.")
    count = len(chat.model.title_requests)
    session.check("W-25c", count == 0, "no request for a title", f"{count} requests")
