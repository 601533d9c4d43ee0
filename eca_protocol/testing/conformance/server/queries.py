"""Cases of what the client asks while its user types: contexts and commands."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.bench import Bench
from eca_protocol.testing.conformance.cases import NotApplicable, Stuck, case
from eca_protocol.testing.conformance.seat import Seat
from eca_protocol.testing.conformance.server.reading import finishes, in_time, result_of, told
from eca_protocol.testing.script import reply

CONTEXTS, COMMANDS = "chat/queryContext", "chat/queryCommands"
MOST = 200
_COMMON = ("e", "o", "login")
"""Of which most names and descriptions of commands have one."""


async def found(seat: Seat, query: str, **params: Any) -> list[Mapping[str, Any]]:
    """The contexts that fit a query.

    Raises:
        Stuck: there is no list of them.
    """
    answer = await seat.ask(CONTEXTS, {"query": query, "contexts": [], **params})
    return _listed(answer, "contexts")


async def commands(seat: Seat, query: str) -> list[Mapping[str, Any]]:
    """The commands that fit a query.

    Raises:
        Stuck: there is no list of them.
    """
    return _listed(await seat.ask(COMMANDS, {"query": query}), "commands")


def _listed(answer: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    listed = result_of(answer).get(name)
    if not isinstance(listed, list) or not all(isinstance(each, Mapping) for each in listed):
        raise Stuck(f"a list of {name}", answer)
    return listed


def _paths(root: Path, contexts: list[Mapping[str, Any]]) -> list[str]:
    """Where contexts are; a path may be told as it is seen from the root."""
    return [str(root / str(each["path"])) for each in contexts if "path" in each]


def _is_there(root: Path, context: Mapping[str, Any]) -> bool:
    """Whether a file is one, and a folder; of other contexts nobody can tell."""
    place = root / str(context.get("path", ""))
    if context.get("type") == "directory":
        return place.is_dir()
    return context.get("type") != "file" or place.is_file()


@case("CHAT-24", "CHAT-25", "CHAT-26", "W-40a", seconds=30)
async def contexts_are_found(bench: Bench) -> None:
    """A workspace of a folder and 251 files, asked about blankly, by a name, and without these."""
    async with bench.seat(hello=False) as seat:
        for number in range(250):
            (seat.root / f"file-{number}.txt").touch()
        needle = seat.root / "some-needle.md"
        needle.touch()
        (seat.root / "a-folder").mkdir()
        await seat.hello()
        may_be_fewer = bench.target.personality.loses_large_frames
        fewest = 1 if may_be_fewer else MOST
        answer = await in_time(
            partial(_found_blankly, seat), lambda answer: _has_as_many(answer, fewest)
        )
        blank = answer.get("contexts")
        is_list = isinstance(blank, list) and all(isinstance(each, Mapping) for each in blank)
        bench.check("CHAT-24", is_list, expected="a list of contexts", got=answer)
        if not isinstance(blank, list) or not is_list or not blank:
            raise Stuck("contexts of a workspace with files", blank)
        odd = [each for each in blank if not _is_there(seat.root, each)]
        bench.check("CHAT-24", not odd, expected="files and folders that there are", got=odd)
        first = _paths(seat.root, blank)[:1]
        bench.check(
            "W-40a",
            (len(blank) == MOST or may_be_fewer) and first == [str(seat.root)],
            expected=f"{MOST} of 253, the root first",
            got=f"{len(blank)}, first {first}",
        )
        narrow = _paths(seat.root, await in_time(partial(found, seat, "needle"), bool))
        bench.check(
            "CHAT-25",
            str(needle) in narrow and not any("file-" in each for each in narrow),
            expected=f"{needle} alone",
            got=narrow,
        )
        has = [{"type": "file", "path": str(needle)}]
        rest = _paths(seat.root, await found(seat, "needle", contexts=has))
        bench.check("CHAT-26", str(needle) not in rest, expected="it no more", got=rest)


async def _found_blankly(seat: Seat) -> Mapping[str, Any]:
    return result_of(await seat.ask(CONTEXTS, {"query": "", "contexts": []}))


def _has_as_many(answer: Mapping[str, Any], fewest: int) -> bool:
    """Whether so many contexts were found; what is no list will not be one with time."""
    found = answer.get("contexts")
    return not isinstance(found, list) or len(found) >= fewest


@case("CHAT-27", "CHAT-28", "CHAT-29", "W-40b", "W-40c", "W-40e")
async def commands_are_found(bench: Bench) -> None:
    """All commands; those that fit a name, and a word of a description; with and without a chat."""
    async with bench.seat() as seat:
        await _chats_are_named(bench, seat)
        everything = await commands(seat, "")
        if not everything:
            narrow = [each for word in _COMMON for each in await commands(seat, word)]
            if narrow:
                bench.check("CHAT-28", False, expected="all commands", got="none")
                raise Stuck("commands where nothing is asked for", "none")
            raise NotApplicable("it has no commands")
        nameless = [
            each for each in everything if not (each.get("name") and each.get("description"))
        ]
        bench.check(
            "CHAT-27",
            not nameless,
            expected="commands, each with name and description",
            got=nameless,
        )
        some = everything[-1]
        if not some.get("name"):
            raise Stuck("commands with names", everything)
        narrow = await commands(seat, str(some["name"]))
        bench.check(
            "CHAT-28",
            some in narrow
            and (len(narrow) < len(everything) or len(everything) == 1)
            and not await commands(seat, "no command is called so"),
            expected=f"{some['name']} and few others; of nonsense none",
            got=[each.get("name") for each in narrow],
        )
        by_word = await commands(seat, _some_words(str(some.get("description"))))
        bench.check(
            "W-40b",
            some in by_word,
            expected=f"{some['name']}, by its description",
            got=[each.get("name") for each in by_word],
        )
        if bench.edition <= Revision.R2025_10:
            types = {each.get("type") for each in everything}
            bench.check("W-40c", types == {"native"}, expected="native", got=types)
        else:
            bench.not_applicable("W-40c", "It is about editions up to 2025-10.")


def _some_words(text: str) -> str:
    """The longest piece of a text that is words and single spaces."""
    return max(re.findall(r"\w+(?: \w+)*", text), key=len, default="")


async def _chats_are_named(bench: Bench, seat: Seat) -> None:
    """Queries with and without a chat."""
    for method in (CONTEXTS, COMMANDS):
        asked = {"query": "", "contexts": []}
        given = result_of(await seat.ask(method, {**asked, "chatId": "some chat"}))
        named = given.get("chatId")
        bench.check("CHAT-29", named == "some chat", expected="the chatId", got=given)
        without = result_of(await seat.ask(method, asked))
        bench.check("W-40e", "chatId" not in without, expected="no chatId", got=list(without))


@case("CHAT-30")
async def a_command_runs(bench: Bench) -> None:
    """A prompt that is the name of a native command."""
    async with bench.seat() as seat:
        named = {str(each.get("name")) for each in await commands(seat, "")}
        quiet = sorted(named & {"costs", "doctor", "prompt-show", "config"})
        if not quiet:
            raise NotApplicable("it has none of the commands that servers share")
        chat = seat.chat(reply("I am no command."))
        await chat.prompt(f"/{quiet[0]}")
        ended = await finishes(chat)
        bench.check(
            "CHAT-30",
            ended and told(chat) and not chat.model.requests,
            expected="a text of the system's, and no request to the model",
            got=[heard.content for heard in chat.heard],
        )


@case("CHAT-9")
async def a_login_says_so(bench: Bench) -> None:
    """The command by which a user logs in, then what it asks for."""
    async with bench.seat() as seat:
        if "login" not in {each.get("name") for each in await commands(seat, "login")}:
            raise NotApplicable("it has no command to log in")
        chat = seat.chat()
        statuses = []
        for text in ("/login conformance", "cancel"):
            answer = await chat.prompt(text, word=False)
            statuses.append(result_of(answer).get("status"))
            await chat.finished(len(statuses))
        if "login" not in statuses and chat.said:
            raise NotApplicable("it lets nobody log in to the provider of the suite")
        bench.check(
            "CHAT-9",
            "login" in statuses,
            expected="login, where the next prompt is no word for the model",
            got=statuses,
        )
