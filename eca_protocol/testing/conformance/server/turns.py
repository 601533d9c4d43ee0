"""Cases of a turn: its parts and their order, its model, and the chat's memory."""

from __future__ import annotations

import itertools
from typing import Final

from eca_protocol.testing.conformance.cases import case
from eca_protocol.testing.conformance.harness import ClientSession
from eca_protocol.testing.conformance.server.reading import conversation, result_of
from eca_protocol.testing.conformance.target import MODEL, OTHER_MODEL
from eca_protocol.testing.conformance.verdicts import Unmet
from eca_protocol.testing.script import Reply, reasoning, reply, text, wait

EMACS: Final = {"clientInfo": {"name": "emacs", "version": "30"}}
TEXT = '  Grüße, \U0001f600!\n\n"quoted" \\n and\ttabs  '


WATCHED: Final = (
    "W-20a", "W-20b", "W-20c", "W-20d", "W-21b", "W-22e", "W-26a", "W-27e", "CHAT-14",
)  # fmt: skip
"""Requirements that the watcher checks in every turn."""


@case("CHAT-7", "W-20e", *WATCHED)
async def a_turn_has_its_parts_in_order(session: ClientSession) -> None:
    """Prompt, and prompt again as soon as the turn has finished."""
    chat = session.chat(reply("Hel", "lo."), reply("Again."))
    answer = result_of(await chat.prompt(TEXT))
    models = session.config.get("models")
    is_announced = not models or answer.get("model") in (None, *models)
    is_right = answer.get("chatId") == chat.id and "" not in answer.values() and is_announced
    expected = f"the chatId {chat.id!r}, a status, and an announced model"
    session.check("CHAT-7", is_right, expected, answer)
    await chat.finished()
    await chat.prompt("And now?")
    expected = "a turn of the prompt that directly followed `finished`"
    session.check("W-20e", await chat.finishes(2, seconds=10), expected, chat.of("progress"))
    await session.settle()
    session.record_pass(*WATCHED)


@case("CHAT-3", "CHAT-8", "CHAT-12", "W-20a", needs="model")
async def the_models_text_is_passed_on_as_it_comes(session: ClientSession) -> None:
    """Stream an answer with a pause in the middle."""
    chat = session.chat(reply("Hel", "lo, ", wait("rest"), "wörld \U0001f600"))
    answer = result_of(await chat.prompt(TEXT))
    await chat.model.wait_for_gate("rest")
    session.check(
        "CHAT-8", answer.get("status") == "prompting", "the status prompting", answer.get("status")
    )
    sent = conversation(chat.model.first.body)
    session.check(
        "CHAT-3", chat.prompts[0] in sent, f"the prompt {chat.prompts[0]!r} in the request", sent
    )
    running = await chat.comes("progress", state="running")
    session.check("W-20a", running, "a progress with the state running", chat.of())
    await session.until_holds(
        lambda: chat.assistant_text == "Hello, ",
        shows="CHAT-12",
        expected="the streamed text so far, before the model's answer ends",
    )
    chat.model.open("rest")
    await chat.finished()
    whole = "Hello, wörld \U0001f600"
    session.check(
        "CHAT-12", chat.assistant_text == whole, f"the text {whole!r}", chat.assistant_text
    )


PIECES: Final = tuple(f"{number:04} " for number in range(800))


@case("CHAT-12", needs="model", seconds=40)
async def each_piece_of_a_long_answer_is_passed_on(session: ClientSession) -> None:
    """Stream an answer of 4,000 characters in 800 pieces."""
    chat = session.chat(reply(*PIECES))
    await chat.take_turn("Count.", seconds=30)
    text = chat.assistant_text
    lost = [piece for piece in PIECES if piece not in text]
    expected = f"all {len(PIECES)} pieces of the model's text, in order"
    got = f"{len(text)} characters, without {len(lost)} pieces, the first: {lost[:3]}"
    session.check("CHAT-12", text == "".join(PIECES), expected, got)


LONG = "Ein langer Satz über nichts, 😀. " * 500


@case("CHAT-12", "W-6a", needs="model")
async def a_long_text_comes_in_small_pieces(session: ClientSession) -> None:
    """Answer with 20 KiB in one piece, whose stream is cut within a character."""
    chat = await session.take_turn("Tell me much.", reply(text(LONG, torn=True)))
    received = chat.assistant_text
    pairs = zip(received, LONG, strict=False)
    start = max(0, next((at for at, (a, b) in enumerate(pairs) if a != b), 0) - 10)
    expected = f"{len(LONG)} characters, with {LONG[start : start + 30]!r} at {start}"
    got = f"{len(received)} characters, with {received[start : start + 30]!r} at {start}"
    session.check("CHAT-12", received == LONG, expected, got)
    session.record_pass("W-6a")


@case("W-6c", initialize=EMACS)
async def the_pieces_of_an_echo_join_to_the_text(session: ClientSession) -> None:
    """Prompt with 20 KiB as a client that takes no large frames."""
    chat = await session.take_turn(LONG, reply("I see."))
    echo = chat.text("user")
    if not echo:
        raise Unmet("an echo")
    got = f"{len(echo)} of {len(chat.prompts[0])} characters"
    session.check("W-6c", chat.prompts[0] in echo, "pieces that join to the prompt", got)


@case("CHAT-2", needs="model")
async def a_chat_continues_with_its_history(session: ClientSession) -> None:
    """Prompt one chat twice."""
    chat = session.chat(reply("Pleased to ", "meet you."), reply("Ann."))
    for prompt in ("My name is Ann.", "What is my name?"):
        await chat.take_turn(prompt)
    await chat.model.wait_for_requests(2)
    sent = conversation(chat.model.requests[1].body)
    expected_texts = [*chat.prompts, "Pleased to"]
    expected = f"{expected_texts} in the second request"
    session.check("CHAT-2", all(each in sent for each in expected_texts), expected, sent)


@case("CHAT-39", needs="model")
async def a_chat_knows_nothing_of_another(session: ClientSession) -> None:
    """Prompt one chat, then another one, then the first again."""
    texts = {"one": "It was the heron.", "other": "It was the otter."}
    answers = {"one": "A heron, noted.", "other": "An otter, noted."}
    one, other = (session.chat(reply(answers[name]), reply("Yes.")) for name in texts)
    for chat, name in ((one, "one"), (other, "other"), (one, "one")):
        await chat.take_turn(texts[name])
    await other.model.wait_for_requests()
    await one.model.wait_for_requests(2)
    foreign = [
        text
        for chat, name in ((one, "other"), (other, "one"))
        for text in (texts[name], answers[name])
        if any(text in conversation(request.body) for request in chat.model.requests)
    ]
    expected = "requests with the messages of their own chat only"
    session.check("CHAT-39", not foreign, expected, f"also messages of another chat: {foreign}")


@case("W-26b", "CHAT-15", "CHAT-16", needs="model")
async def a_thought_is_started_sent_and_finished(session: ClientSession) -> None:
    """Answer with reasoning before the text."""
    chat = await session.take_turn(
        "Think.", reply(reasoning("hm, "), reasoning("well"), "So be it.")
    )
    thoughts = [each for each in chat.of() if str(each.get("type")).startswith("reason")]
    if not thoughts:
        raise Unmet("a thought", "none: the server may not show reasoning of this model")
    session.record_pass("W-26b")
    whole = "".join(str(each.get("text", "")) for each in thoughts)
    is_right = len({str(each.get("id")) for each in thoughts}) == 1 and whole == "hm, well"
    expected = "the text 'hm, well' in reasoning contents with one id"
    session.check("CHAT-15", is_right, expected, thoughts)
    for ended in chat.of("reasonFinished"):
        milliseconds = ended.get("totalTimeMs")
        if type(milliseconds) is int:
            session.check("CHAT-16", milliseconds >= 0, "totalTimeMs of 0 or more", milliseconds)


@case("CHAT-1", "W-21c")
async def any_chat_may_be_named_or_none(session: ClientSession) -> None:
    """Prompt chats with unusual ids, a deleted chat, and none."""
    names = ("6f1c4c1e-0000-4000-8000-000000000000", "ünï / %20", "EMPTY", "0")
    refused = {}
    for name in names:
        chat = session.chat(reply("one"), reply("two"), id=name)
        for turn in (1, 2):
            answer = await chat.prompt("Hi.")
            if result_of(answer).get("chatId") != name or not await chat.finishes(turn):
                refused[name] = answer
                break
            await session.ask("chat/delete", {"chatId": name})
    session.check(
        "W-21c", not refused, "the chat's own id and a turn, before and after a delete", refused
    )

    nameless = session.chat(reply("Hi."), id=None)
    answer = await nameless.prompt("Hi.")
    expected = "a chat id from the server, and a turn in that chat"
    session.check("CHAT-1", nameless.id and await nameless.finishes(), expected, answer)


@case("CHAT-4", needs="config")
async def the_model_that_a_prompt_names_answers_it(session: ClientSession) -> None:
    """Prompt with either of two models, and without one."""
    chat = await session.take_turn("Hi.", *[reply("a")] * 3, model=OTHER_MODEL)
    await chat.take_turn("Hi.", model=MODEL)
    unsaid = await session.take_turn("Hi.", reply("a"))
    requests = (*chat.model.requests, *unsaid.model.requests)
    models = [each.body.get("model") for each in requests]
    expected_models = ["other", "scripted", "scripted"]
    session.check("CHAT-4", models == expected_models, f"the models {expected_models}", models)


@case("W-21a", "W-22a", "W-22b")
async def prompts_to_a_busy_chat_wait_for_their_turn(session: ClientSession) -> None:
    """Send three prompts before the model begins to answer the first."""
    first_reply = Reply(before_headers=[wait("go")], steps=reply("one").steps)
    chat = session.chat(first_reply, reply("two"), reply("three"))
    for row, prompt in (("W-21a", "First."), ("W-22a", "Second."), ("W-22a", "Third.")):
        try:
            answer = await chat.prompt(prompt, seconds=3)
        except Unmet as stuck:
            session.check(row, False, "an answer within 3 s", stuck.got)
            return
        if "result" not in answer:
            session.check(row, False, "a result", answer)
            return
    session.check("W-21a", True, "an answer within 3 s", "an answer")
    await chat.model.wait_for_gate("go")
    await session.settle()
    requests = len(chat.model.requests)
    session.check(
        "W-22a", requests == 1, "one request to the model until the first turn ends", requests
    )
    chat.model.open("go")
    await chat.finished(3, shows="W-22b")
    order = [
        "end" if received.content.get("state") == "finished" else "echo"
        for received in chat.messages
        if received.content.get("state") == "finished" or received.params.get("role") == "user"
    ]
    turns = [name for name, _ in itertools.groupby(order)]
    if "echo" not in turns:
        raise Unmet("echoes")
    expected = "each prompt's echo after the end of the previous turn"
    session.check("W-22b", turns == ["echo", "end"] * 3, expected, order)


@case("CHAT-11", "CLIENT-33", needs="model", seconds=30)
async def many_chats_at_once_are_never_mixed(session: ClientSession) -> None:
    """Run 32 chats whose models answer at the same time, piece by piece."""
    chats = [
        session.chat(reply(wait("all"), *[f"{number},"] * 20), id=f"one of many: {number}")
        for number in range(32)
    ]
    for chat in chats:
        await chat.prompt("Count.")
    for chat in chats:
        await chat.model.wait_for_gate("all")
    for chat in chats:
        chat.model.open("all")
    for chat in chats:
        await chat.finished()
    mixed = {
        chat.id: chat.assistant_text
        for number, chat in enumerate(chats)
        if set(chat.assistant_text.split(",")) - {str(number), ""}
    }
    session.check("CHAT-11", not mixed, "only the chat's own text in each chat", mixed)
    known = {chat.id for chat in chats}
    foreign = {
        received.chat_id
        for received in session.messages
        if received.method == "chat/contentReceived"
    } - {*known, ""}
    session.check("CLIENT-33", not foreign, "contents of known chats only", foreign)
