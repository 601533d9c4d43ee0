"""Cases of `chat/delete`: idle, running and unknown chats, and reuse of an id."""

from __future__ import annotations

from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.cases import case
from eca_protocol.testing.conformance.chat_session import Content
from eca_protocol.testing.conformance.harness import ClientSession
from eca_protocol.testing.conformance.server.reading import conversation
from eca_protocol.testing.conformance.server.stops import closes_connection
from eca_protocol.testing.conformance.server.turns import EMACS
from eca_protocol.testing.script import hang, reply, wait


@case("CHAT-36", "W-24a", "W-24b", needs="model")
async def a_chat_that_runs_is_deleted(session: ClientSession) -> None:
    """Delete a chat during the model's answer, which then continues."""
    chat = session.chat(reply("some", wait("deleted"), "more"))
    await chat.prompt("Hi.")
    await chat.content("text", text="some")
    before = len(chat.contents)
    answer = await session.ask("chat/delete", {"chatId": chat.id})
    session.check("CHAT-36", answer.get("result") == {}, "the result {}", answer)
    closed = await closes_connection(chat)
    got = "a closed connection" if closed else "an open connection"
    session.check("W-24b", closed, "a closed connection to the model", got)
    chat.model.open("deleted")
    await session.settle()
    name = session.initialize_params()["clientInfo"]["name"]
    late = [each for each in chat.of()[before:] if not _may_come(each, name)]
    session.check("W-24a", not late, "no further content of the chat", late)


def _may_come(content: Content, client: str) -> bool:
    """Return whether a content may follow: a title, and the end of the turn for Emacs."""
    is_end = content.get("state") == "finished"
    return content.get("type") == "metadata" or (client == "emacs" and is_end)


@case("W-24d", since=Revision.CURRENT)
async def a_delete_is_announced_in_current(session: ClientSession) -> None:
    """Delete an idle chat."""
    chat = await session.take_turn("Hi.", reply("Hi."))
    await session.ask("chat/delete", {"chatId": chat.id})
    await session.wait_for("chat/deleted", shows="W-24d", expected="chat/deleted")
    session.record_pass("W-24d")


@case("W-24c", needs="model", initialize=EMACS)
async def a_client_that_waits_for_it_is_sent_finished_before_the_answer(
    session: ClientSession,
) -> None:
    """Delete a running chat as Emacs, which shows the chat until its end."""
    chat = session.chat(reply("some", hang()))
    await chat.prompt("Hi.")
    await chat.content("text", text="some")
    await session.ask("chat/delete", {"chatId": chat.id})
    ends = chat.ends
    session.check(
        "W-24c", ends == 1, "exactly one `finished` before the answer", f"{ends} `finished`"
    )


@case("W-24e")
async def a_chat_that_there_is_not_is_deleted_alike(session: ClientSession) -> None:
    """Delete without an id, with null, and with an unknown id."""
    for params in ({}, {"chatId": None}, {"chatId": "no-such-chat"}):
        answer = await session.ask("chat/delete", params)
        session.check("W-24e", "result" in answer, f"a result for a delete with {params}", answer)


@case("W-24f", needs="model")
async def a_deleted_id_starts_anew(session: ClientSession) -> None:
    """Delete a chat, and prompt its id again with the same text."""
    chat = session.chat(reply("My name is Ann."), reply("My name is Bob."))
    for _ in range(2):
        await chat.take_turn("Who are you?")
        await session.ask("chat/delete", {"chatId": chat.id})
    await chat.model.wait_for_requests(2)
    sent = conversation(chat.model.requests[1].body)
    expected = "the new prompt once, and no text of the deleted chat, in the request"
    session.check("W-24f", "Ann" not in sent and sent.count(chat.prompts[0]) == 1, expected, sent)
    usage_of_turns = [str(each.get("sessionTokens")) for each in chat.of("usage")]
    expected = "the same usage for both turns: counting restarts"
    session.check("W-24f", len(set(usage_of_turns)) <= 1, expected, usage_of_turns)
