"""Cases of a chat's title: one more request beside the first turn, or none."""

from __future__ import annotations

from eca_protocol.errors import DeadlineExceeded
from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.bench import Bench
from eca_protocol.testing.conformance.cases import Stuck, case
from eca_protocol.testing.conformance.chat_seat import ChatSeat
from eca_protocol.testing.conformance.server.reading import comes, offered
from eca_protocol.testing.provider import ReceivedRequest
from eca_protocol.testing.script import hang, reply, wait


async def asked_for(chat: ChatSeat) -> ReceivedRequest:
    """The request for the chat's title.

    Raises:
        Stuck: there is none.
    """
    try:
        await chat.model.until(lambda: bool(chat.model.title_requests))
    except DeadlineExceeded as late:
        raise Stuck("a request for a title", "none: perhaps titles are off") from late
    return chat.model.title_requests[0]


async def _ended(chat: ChatSeat, request: ReceivedRequest) -> None:
    """Wait until the request is answered or given up."""
    await chat.model.until(lambda: request.closed_by_client or request.answered)


@case("W-25a", "W-25b", "CHAT-21", since=Revision.R2025_10)
async def a_title_is_one_request_more_and_may_come_late(bench: Bench) -> None:
    """Two turns; the title is held back until the first has finished."""
    async with bench.seat() as seat:
        chat = seat.chat(reply("one"), reply("two"))
        chat.model.title = reply(wait("late"), "A fine name")
        await chat.prompt("Hi.")
        await chat.finished()
        request = await asked_for(chat)
        chat.model.open("late")
        came = await comes(chat, "metadata", title="A fine name")
        bench.check("CHAT-21", came, expected="the title", got=chat.of("metadata"))
        await chat.prompt("Hi again.")
        await chat.finished(2)
        times, tools = len(chat.model.title_requests), offered(request.body)
        bench.check(
            "W-25a",
            times == 1 and not tools,
            expected="one request that says title, without tools",
            got=f"{times} requests, tools {tools}",
        )
        say_it = [request.is_title for request in chat.model.requests]
        bench.check(
            "W-25b",
            say_it == [False, False],
            expected="two requests whose instructions do not speak of a title",
            got=f"{len(say_it)} requests, {sum(say_it)} that do",
        )


@case("W-25d", since=Revision.R2025_10)
async def no_title_follows_a_stop_or_a_delete(bench: Bench) -> None:
    """The model is slow to find a title; the turn is stopped, the chat deleted meanwhile."""
    async with bench.seat() as seat:
        for end in ("stop", "delete"):
            chat = seat.chat(reply("some", hang()))
            chat.model.title = reply(wait("late"), "Too late")
            await chat.prompt("Hi.")
            await chat.content("text", text="some")
            request = await asked_for(chat)
            if end == "stop":
                await chat.stop()
                await chat.finished()
            else:
                await seat.ask("chat/delete", {"chatId": chat.id})
            chat.model.open("late")
            await _ended(chat, request)
            await seat.settle()
            late = chat.of("metadata")
            bench.check("W-25d", not late, expected=f"no title after the {end}", got=late)


@case("W-25c", needs="config")
async def titles_can_be_turned_off(bench: Bench) -> None:
    """One turn with `chat.title: false`."""
    async with bench.seat(config={"chat": {"title": False}}) as seat:
        chat = seat.chat(reply("one"), reply("two"))
        await chat.prompt("Hi.")
        await chat.finished()
        await chat.prompt("Hi.")
        await chat.finished(2)
        asked = len(chat.model.title_requests)
        bench.check("W-25c", asked == 0, expected="no request for a title", got=asked)
