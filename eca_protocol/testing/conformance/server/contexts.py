"""Cases of contexts: what a prompt carries along is shown to the model."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from eca_protocol.testing.conformance.bench import Bench
from eca_protocol.testing.conformance.cases import Stuck, case
from eca_protocol.testing.conformance.chat_seat import ChatSeat
from eca_protocol.testing.conformance.model import PAGE
from eca_protocol.testing.conformance.seat import Seat
from eca_protocol.testing.conformance.server.queries import found
from eca_protocol.testing.conformance.server.reading import (
    conversation,
    finishes,
    result_of,
    told,
    words,
)
from eca_protocol.testing.script import reply

LARGE: Final = 200_000
_STARTS: Final = re.compile(r"\b47\d\d\b")
_ENDS: Final = re.compile(r"\b49\d\d\b")


async def shown_to_the_model(seat: Seat, *contexts: Mapping[str, Any], text: str = "Hi.") -> str:
    """All texts of the request that a prompt with these contexts becomes.

    Raises:
        Stuck: it becomes none.
    """
    chat = seat.chat(reply("I see."))
    await chat.prompt(text, contexts=list(contexts))
    await chat.finished()
    return words(chat.model.first.body)


def file(path: Path, *lines: int) -> dict[str, Any]:
    """A file, or some of its lines."""
    context: dict[str, Any] = {"type": "file", "path": str(path)}
    if lines:
        context["linesRange"] = dict(zip(("start", "end"), lines, strict=True))
    return context


async def needs_files(seat: Seat) -> None:
    """Make sure of what these cases stand on.

    Raises:
        Stuck: the text of a file is not shown to the model.
    """
    path = seat.workspace / "needed.txt"
    path.write_text("what is needed\n")
    if "what is needed" not in await shown_to_the_model(seat, file(path)):
        raise Stuck("a file whose text is shown to the model", "one whose is not")


@case("CHAT-6")
async def contexts_reach_the_model(bench: Bench) -> None:
    """A file in the workspace."""
    async with bench.seat() as seat:
        path = seat.workspace / "carried.txt"
        path.write_text("what it carries\n")
        told = await shown_to_the_model(seat, file(path))
        bench.check(
            "CHAT-6",
            path.name in told or "what it carries" in told,
            expected="the file in the request",
            got=told,
        )


@case("CTX-1", "CTX-2", "W-41d")
async def files_are_shown_whole_or_in_part(bench: Bench) -> None:
    """A file of nine lines, and its lines 4 to 6."""
    async with bench.seat() as seat:
        path = seat.workspace / "nine.txt"
        names = ("alpha", "beta", "gamma", "delta", "eps", "zeta", "eta", "theta", "iota")
        lines = [f"line {name}" for name in names]
        path.write_text("\n".join(lines) + "\n")
        whole = await shown_to_the_model(seat, file(path))
        missing = [line for line in lines if line not in whole]
        if path.name not in whole and len(missing) == len(lines):
            raise Stuck("a context in the request", "none")
        bench.check("CTX-1", not missing, expected="each line of the file", got=missing)
        part = await shown_to_the_model(seat, file(path, 4, 6))
        given = [line for line in lines if line in part]
        is_part = bench.check(
            "CTX-2",
            lines[4] in given and not {lines[0], lines[8]} & set(given),
            expected="lines in the midst of the file, not its first and last",
            got=given,
        )
        if is_part:
            bench.check(
                "W-41d",
                (given[0], given[-1]) == (lines[3], lines[5]),
                expected=f"{lines[3]!r} to {lines[5]!r}",
                got=given,
            )


@case("CTX-3", "W-41a", "CTX-5")
async def a_directory_is_shown(bench: Bench) -> None:
    """A directory of texts, one without any, and one with more than any model reads."""
    async with bench.seat() as seat:
        await needs_files(seat)
        folder = seat.workspace / "folder"
        (folder / "below").mkdir(parents=True)
        (folder / "below" / "text.md").write_text("what stands below\n")
        (folder / "picture-of-nothing.bin").write_bytes(bytes(range(256)))
        told = await shown_to_the_model(seat, {"type": "directory", "path": str(folder)})
        named, read = "picture-of-nothing.bin" in told, "what stands below" in told
        bench.check("CTX-3", named or read, expected="what is in the directory", got=told)
        if not (named or read):
            return
        large = seat.workspace / "large"
        large.mkdir()
        for number in range(20):
            (large / f"{number}.txt").write_text(f"{number:09} of much\n" * (LARGE // 18))
        much = await shown_to_the_model(seat, {"type": "directory", "path": str(large)})
        bench.check(
            "W-41a",
            named and read and len(much) < 20 * LARGE * 3 // 4,
            expected="texts up to a cap, and a tree with each file's name",
            got=f"texts: {read}, a tree: {named}, of much {len(much)} characters",
        )
        if not await found(seat, ""):
            raise Stuck("a workspace with files", "one without any")
        mapped = await shown_to_the_model(seat, {"type": "repoMap"})
        bench.check(
            "CTX-5",
            "picture-of-nothing.bin" in mapped,
            expected="the repository's files",
            got=mapped,
        )


@case("CTX-6", "W-41c")
async def the_cursor_is_passed_on(bench: Bench) -> None:
    """A position, and a selection."""
    async with bench.seat() as seat:
        await needs_files(seat)
        path = seat.workspace / "edited.py"
        path.write_text("x = 1\n" * 5000)
        start, end = {"line": 4711, "character": 1}, {"line": 4911, "character": 1987}
        cursor = {"type": "cursor", "path": str(path)}
        here = await shown_to_the_model(
            seat, {**cursor, "position": {"start": start, "end": start}}
        )
        there = await shown_to_the_model(seat, {**cursor, "position": {"start": start, "end": end}})
        bench.check(
            "CTX-6",
            path.name in here
            and all(map(_STARTS.search, (here, there)))
            and len(_ENDS.findall(there)) > len(_ENDS.findall(here)),
            expected="the file with a place, then with the end of the selection, too",
            got=f"{here}\n\n{there}",
        )
        bench.check(
            "W-41c",
            "4711" in here and "4711" in there,
            expected="4711, both times",
            got=f"{here}\n\n{there}",
        )


@case("CTX-8")
async def contexts_of_different_types_go_together(bench: Bench) -> None:
    """A file, a directory and the cursor in one prompt."""
    async with bench.seat() as seat:
        (seat.workspace / "folder-of-some").mkdir()
        for name in ("alone.txt", "folder-of-some/inside.txt", "cursor.txt"):
            (seat.workspace / name).write_text(f"text of {name}\n")
        await needs_files(seat)
        place = {"line": 1, "character": 1}
        told = await shown_to_the_model(
            seat,
            file(seat.workspace / "alone.txt"),
            {"type": "directory", "path": str(seat.workspace / "folder-of-some")},
            {
                "type": "cursor",
                "path": str(seat.workspace / "cursor.txt"),
                "position": {"start": place, "end": place},
            },
        )
        wanted = ("text of alone.txt", "folder-of-some", "cursor.txt")
        missing = [each for each in wanted if each not in told]
        bench.check("CTX-8", not missing, expected="all of them", got=missing)


@case("W-41b")
async def only_a_context_leads_outside_the_workspace(bench: Bench) -> None:
    """A file outside the roots, given as a context, and mentioned in the text."""
    async with bench.seat() as seat:
        await needs_files(seat)
        path = seat.wire.folders.home / f"outside-{seat.workspace.name}.txt"
        path.write_text("text from outside\n")
        given = await shown_to_the_model(seat, file(path))
        mentioned = await shown_to_the_model(seat, text=f"See @{path} for more.")
        bench.check(
            "W-41b",
            "text from outside" in given and "text from outside" not in mentioned,
            expected="its text where it is a context, and not where it is mentioned",
            got=f"given: {given}\n\nmentioned: {mentioned}",
        )


@case("W-41e")
async def an_unknown_context_is_skipped_with_a_note(bench: Bench) -> None:
    """A context of a type that there is not."""
    async with bench.seat(fresh=True) as seat:
        await needs_files(seat)
        plain, chat = seat.chat(reply("I see.")), seat.chat(reply("I see."))
        await plain.prompt("Hi.")
        await plain.finished()
        answer = await chat.prompt("Hi.", contexts=[{"type": "hologram", "of": "a cat"}])
        ended = result_of(answer) and await finishes(chat)
        asked = "\n".join(words(each.body) for each in chat.model.requests)
        is_named = "hologram" in told(chat) + asked
        has_note = is_named or _words_told(chat) > _words_told(plain)
        bench.check(
            "W-41e",
            ended and chat.model.requests and has_note,
            expected="a turn, and a note to the user or the model",
            got=f"{answer}, {[heard.content for heard in chat.heard]}",
        )


def _words_told(chat: ChatSeat) -> int:
    """How much the server has told the user, and the model in the chat itself."""
    asked = [conversation(each.body) for each in chat.model.requests[:1]]
    return len("\n".join([told(chat), *asked]).split())


@case("W-3f")
async def a_context_without_what_it_needs_is_skipped(bench: Bench) -> None:
    """A bare cursor, as VS Code sends it with each query, and with a prompt."""
    async with bench.seat(fresh=True) as seat:
        await needs_files(seat)
        bare = {"type": "cursor"}
        listed = await seat.ask("chat/queryContext", {"query": "needed", "contexts": [bare]})
        bench.check(
            "W-3f", "result" in listed, expected="an answer to the query without it", got=listed
        )
        plain, chat = seat.chat(reply("I see.")), seat.chat(reply("I see."))
        await plain.prompt("Hi.")
        await plain.finished()
        answer = await chat.prompt("Hi.", contexts=[bare])
        ended = result_of(answer) and await finishes(chat)
        bench.check(
            "W-3f",
            ended and chat.model.requests and _words_told(chat) > _words_told(plain),
            expected="a turn, and a note to the user or the model",
            got=f"{answer}, {[heard.content for heard in chat.heard]}",
        )


@case("CTX-4")
async def a_page_of_the_web_is_shown(bench: Bench) -> None:
    """A page beside the scripted model: no other web is at hand."""
    async with bench.seat() as seat:
        told = await shown_to_the_model(seat, {"type": "web", "url": bench.model.page_url})
        if bench.model.page_was_fetched:
            bench.check("CTX-4", PAGE in told, expected=f"the text {PAGE!r}", got=told)
        else:
            bench.untestable(
                "CTX-4", "The page is on this machine, whose addresses a server may well refuse."
            )
