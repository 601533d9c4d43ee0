"""Cases of a turn: its parts and their order, whose model answers it, what its chat remembers."""

from __future__ import annotations

import itertools
from typing import Final

from eca_protocol.testing.conformance.bench import Bench
from eca_protocol.testing.conformance.cases import Stuck, case
from eca_protocol.testing.conformance.server.reading import (
    asked,
    at_gate,
    comes,
    contents,
    conversation,
    finishes,
    result_of,
    said,
)
from eca_protocol.testing.conformance.target import MODEL, OTHER_MODEL
from eca_protocol.testing.script import Reply, reasoning, reply, wait

EMACS: Final = {"clientInfo": {"name": "emacs", "version": "30"}}
TEXT = '  Grüße, \U0001f600!\n\n"quoted" \\n and\ttabs  '


WATCHED: Final = (
    "W-20a", "W-20b", "W-20c", "W-20d", "W-21b", "W-22e", "W-26a", "W-27e", "CHAT-14",
)  # fmt: skip
"""What is watched in every turn."""


@case("CHAT-7", "W-20e", *WATCHED)
async def a_turn_has_its_parts_in_order(bench: Bench) -> None:
    """One prompt, and another one as soon as its turn has finished."""
    async with bench.seat() as seat:
        chat = seat.chat(reply("Hel", "lo."), reply("Again."))
        answer = result_of(await chat.prompt(TEXT))
        models = seat.config.get("models")
        bench.check(
            "CHAT-7",
            answer.get("chatId") == chat.id
            and "" not in answer.values()
            and (not models or answer.get("model") in (None, *models)),
            expected=f"chatId {chat.id!r}, a status, and a model that it has told of",
            got=answer,
        )
        await chat.finished()
        await chat.prompt("And now?")
        bench.check(
            "W-20e",
            await finishes(chat, 2),
            expected="a turn of the prompt that came right behind `finished`",
            got=chat.of("progress"),
        )
        await seat.settle()
    bench.saw(*WATCHED)


@case("CHAT-3", "CHAT-8", "CHAT-12", "W-20a")
async def the_models_words_are_passed_on_as_they_come(bench: Bench) -> None:
    """The model says some words, waits, and says the rest."""
    async with bench.seat() as seat:
        chat = seat.chat(reply("Hel", "lo, ", wait("rest"), "wörld \U0001f600"))
        answer = result_of(await chat.prompt(TEXT))
        await at_gate(chat, "rest")
        bench.check(
            "CHAT-8",
            answer.get("status") == "prompting",
            expected="prompting, as the model is asked",
            got=answer.get("status"),
        )
        sent = conversation(chat.model.first.body)
        bench.check("CHAT-3", chat.prompted[0] in sent, expected=chat.prompted[0], got=sent)
        running = await comes(chat, "progress", state="running")
        bench.check("W-20a", running, expected="a running progress", got=contents(chat))
        await seat.until(
            lambda _: chat.said == "Hello, ",
            shows="CHAT-12",
            expected="the pieces so far, while the model still speaks",
        )
        chat.model.open("rest")
        await chat.finished()
        whole = "Hello, wörld \U0001f600"
        bench.check("CHAT-12", chat.said == whole, expected=whole, got=chat.said)


LONG = "Ein langer Satz über nichts, 😀. " * 500


@case("W-6a")
async def a_long_text_comes_in_small_pieces(bench: Bench) -> None:
    """The model says some 20 KiB in one piece."""
    async with bench.seat() as seat:
        chat = seat.chat(reply(LONG))
        await chat.prompt("Tell me much.")
        await chat.finished()
        if chat.said != LONG:
            raise Stuck("the whole of a long text", f"{len(chat.said)} of {len(LONG)} characters")
    bench.saw("W-6a")


@case("W-6c")
async def the_pieces_of_an_echo_join_to_the_text(bench: Bench) -> None:
    """A prompt of some 20 KiB, from a client that takes no large frames."""
    async with bench.seat(initialize=EMACS) as seat:
        chat = seat.chat(reply("I see."))
        await chat.prompt(LONG)
        await chat.finished()
        echo = said(chat, "user")
        if not echo:
            raise Stuck("an echo")
        bench.check(
            "W-6c",
            chat.prompted[0] in echo,
            expected="pieces that join to the text",
            got=f"{len(echo)} of {len(chat.prompted[0])} characters",
        )


@case("CHAT-2")
async def a_chat_goes_on_with_what_was_said(bench: Bench) -> None:
    """Two prompts to one chat."""
    async with bench.seat() as seat:
        chat = seat.chat(reply("Pleased to ", "meet you."), reply("Ann."))
        for prompt in ("My name is Ann.", "What is my name?"):
            await chat.prompt(prompt)
            await chat.finished(len(chat.prompted))
        await asked(chat, 2)
        told = conversation(chat.model.requests[1].body)
        wanted = [*chat.prompted, "Pleased to"]
        bench.check(
            "CHAT-2",
            all(each in told for each in wanted),
            expected=f"a second request with {wanted}",
            got=told,
        )


@case("W-26b", "CHAT-15", "CHAT-16")
async def a_thought_is_started_told_and_finished(bench: Bench) -> None:
    """The model thinks before it speaks."""
    async with bench.seat() as seat:
        chat = seat.chat(reply(reasoning("hm, "), reasoning("well"), "So be it."))
        await chat.prompt("Think.")
        await chat.finished()
        thoughts = [each for each in contents(chat) if str(each.get("type")).startswith("reason")]
        if not thoughts:
            raise Stuck("a thought", "none: perhaps the server shows none of such a model")
        bench.saw("W-26b")
        whole = "".join(str(each.get("text", "")) for each in thoughts)
        bench.check(
            "CHAT-15",
            len({str(each.get("id")) for each in thoughts}) == 1 and whole == "hm, well",
            expected="a start, 'hm, well' and an end with one id",
            got=thoughts,
        )
        for ended in chat.of("reasonFinished"):
            took = ended.get("totalTimeMs")
            if type(took) is int:
                bench.check("CHAT-16", took >= 0, expected="milliseconds", got=took)


@case("CHAT-1", "W-21c")
async def any_chat_may_be_named_or_none(bench: Bench) -> None:
    """Prompts to chats of odd names, to one just deleted, and without a chat."""
    names = ("6f1c4c1e-0000-4000-8000-000000000000", "ünï / %20", "EMPTY", "0")
    refused = {}
    async with bench.seat() as seat:
        for name in names:
            chat = seat.chat(reply("one"), reply("two"), id=name)
            for turn in (1, 2):
                answer = await chat.prompt("Hi.")
                if result_of(answer).get("chatId") != name or not await finishes(chat, turn):
                    refused[name] = answer
                    break
                await seat.ask("chat/delete", {"chatId": name})
        bench.check("W-21c", not refused, expected="each chat id, before and after", got=refused)

        nameless = seat.chat(reply("Hi."), id=None)
        answer = await nameless.prompt("Hi.")
        bench.check(
            "CHAT-1",
            nameless.id and await finishes(nameless),
            expected="an id of the server's, and a turn in that chat",
            got=answer,
        )


@case("CHAT-4", needs="config")
async def the_model_that_a_prompt_names_answers_it(bench: Bench) -> None:
    """Prompts with either of two models, and without one."""
    async with bench.seat() as seat:
        chat = seat.chat(*[reply("a")] * 3)
        await chat.prompt("Hi.", model=OTHER_MODEL)
        await chat.finished()
        await chat.prompt("Hi.", model=MODEL)
        await chat.finished(2)
        unsaid = seat.chat(reply("a"))
        await unsaid.prompt("Hi.")
        await unsaid.finished()
        requests = (*chat.model.requests, *unsaid.model.requests)
        models = [each.body.get("model") for each in requests]
        wanted = ["other", "scripted", "scripted"]
        bench.check("CHAT-4", models == wanted, expected=str(wanted), got=models)


@case("W-21a", "W-22a", "W-22b")
async def prompts_to_a_busy_chat_wait_for_their_turn(bench: Bench) -> None:
    """Three prompts, while the model has not even begun to answer the first."""
    held = Reply(before_headers=[wait("go")], steps=reply("one").steps)
    async with bench.seat() as seat:
        chat = seat.chat(held, reply("two"), reply("three"))
        for row, prompt in (("W-21a", "First."), ("W-22a", "Second."), ("W-22a", "Third.")):
            try:
                answer = await chat.prompt(prompt, seconds=3)
            except Stuck as stuck:
                bench.check(row, False, expected="an answer at once", got=stuck.got)
                return
            if "result" not in answer:
                bench.check(row, False, expected="a result at once", got=answer)
                return
        bench.check("W-21a", True, expected="an answer at once", got="it")
        await at_gate(chat, "go")
        await seat.settle()
        requests = len(chat.model.requests)
        bench.check("W-22a", requests == 1, expected="one request till then", got=requests)
        chat.model.open("go")
        await chat.finished(3, shows="W-22b")
        order = [
            "end" if heard.content.get("state") == "finished" else "echo"
            for heard in chat.heard
            if heard.content.get("state") == "finished" or heard.params.get("role") == "user"
        ]
        turns = [name for name, _ in itertools.groupby(order)]
        if "echo" not in turns:
            raise Stuck("echoes")
        bench.check(
            "W-22b",
            turns == ["echo", "end"] * 3,
            expected="each prompt's echo behind the end of the turn before",
            got=order,
        )


@case("CHAT-11", "CLIENT-33", seconds=30)
async def many_chats_at_once_are_never_mixed(bench: Bench) -> None:
    """32 chats, whose models all answer at the same time, piece by piece."""
    async with bench.seat() as seat:
        chats = [
            seat.chat(reply(wait("all"), *[f"{number},"] * 20), id=f"one of many: {number}")
            for number in range(32)
        ]
        for chat in chats:
            await chat.prompt("Count.")
        for chat in chats:
            await at_gate(chat, "all")
        for chat in chats:
            chat.model.open("all")
        for chat in chats:
            await chat.finished()
        strange = {
            chat.id: chat.said
            for number, chat in enumerate(chats)
            if set(chat.said.split(",")) - {str(number), ""}
        }
        bench.check("CHAT-11", not strange, expected="each chat's own words", got=strange)
        known = {chat.id for chat in chats}
        foreign = {
            heard.chat_id for heard in seat.heard if heard.method == "chat/contentReceived"
        } - {*known, ""}
        bench.check("CLIENT-33", not foreign, expected="contents of opened chats", got=foreign)
