"""Cases of `chat/delete`: an idle chat, one that runs, one that there is not, and its id again."""

from __future__ import annotations

from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.bench import Bench
from eca_protocol.testing.conformance.cases import case
from eca_protocol.testing.conformance.server.reading import (
    Content,
    asked,
    contents,
    conversation,
)
from eca_protocol.testing.conformance.server.stops import hung_up
from eca_protocol.testing.conformance.server.turns import EMACS
from eca_protocol.testing.script import hang, reply, wait


@case("CHAT-36", "W-24a", "W-24b")
async def a_chat_that_runs_is_deleted(bench: Bench) -> None:
    """The model is in the midst of its answer, and speaks on after the delete."""
    async with bench.seat() as seat:
        chat = seat.chat(reply("some", wait("deleted"), "more"))
        await chat.prompt("Hi.")
        await chat.content("text", text="some")
        before = len(chat.contents)
        answer = await seat.ask("chat/delete", {"chatId": chat.id})
        bench.check("CHAT-36", answer.get("result") == {}, expected="{}", got=answer)
        closed = await hung_up(chat)
        bench.check("W-24b", closed, expected="the connection closed", got="it is open")
        chat.model.open("deleted")
        await seat.settle()
        name = bench.initialize_params(seat.root)["clientInfo"]["name"]
        late = [each for each in contents(chat)[before:] if not _may_come(each, name)]
        bench.check("W-24a", not late, expected="nothing of the chat", got=late)


def _may_come(content: Content, client: str) -> bool:
    """A title may be on its way; Emacs is told of the end."""
    is_end = content.get("state") == "finished"
    return content.get("type") == "metadata" or (client == "emacs" and is_end)


@case("W-24d", since=Revision.CURRENT)
async def a_delete_is_told_of_in_current(bench: Bench) -> None:
    """An idle chat is deleted."""
    async with bench.seat() as seat:
        chat = seat.chat(reply("Hi."))
        await chat.prompt("Hi.")
        await chat.finished()
        await seat.ask("chat/delete", {"chatId": chat.id})
        await seat.until(
            lambda message: message.get("method") == "chat/deleted",
            shows="W-24d",
            expected="chat/deleted",
        )
        bench.saw("W-24d")


@case("W-24c")
async def a_client_that_waits_for_it_is_told_finished_before_the_answer(bench: Bench) -> None:
    """The same delete as a client that keeps a deleted chat on its screen until then."""
    async with bench.seat(initialize=EMACS) as seat:
        chat = seat.chat(reply("some", hang()))
        await chat.prompt("Hi.")
        await chat.content("text", text="some")
        await seat.ask("chat/delete", {"chatId": chat.id})
        ends = chat.ends
        bench.check("W-24c", ends == 1, expected="one `finished` before the answer", got=ends)


@case("W-24e")
async def a_chat_that_there_is_not_is_deleted_alike(bench: Bench) -> None:
    """Deletes without an id, with null, and of an unknown chat."""
    async with bench.seat() as seat:
        for params in ({}, {"chatId": None}, {"chatId": "nobody's own"}):
            answer = await seat.ask("chat/delete", params)
            bench.check("W-24e", "result" in answer, expected="a result", got=answer)


@case("W-24f")
async def a_deleted_id_starts_anew(bench: Bench) -> None:
    """A chat is deleted, and its id used again with the same words."""
    async with bench.seat() as seat:
        chat = seat.chat(reply("My name is Ann."), reply("My name is Bob."))
        for turn in (1, 2):
            await chat.prompt("Who are you?")
            await chat.finished(turn)
            await seat.ask("chat/delete", {"chatId": chat.id})
        await asked(chat, 2)
        sent = conversation(chat.model.requests[1].body)
        bench.check(
            "W-24f",
            "Ann" not in sent and sent.count(chat.prompted[0]) == 1,
            expected="no word of the deleted chat",
            got=sent,
        )
        used = [str(each.get("sessionTokens")) for each in chat.of("usage")]
        bench.check("W-24f", len(set(used)) <= 1, expected="usage from zero on", got=used)
