"""Cases of contexts: the model sees the contexts of a prompt."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from eca_protocol.testing.conformance.cases import case
from eca_protocol.testing.conformance.chat_session import ChatSession
from eca_protocol.testing.conformance.model import PAGE
from eca_protocol.testing.conformance.server.queries import find_contexts
from eca_protocol.testing.conformance.server.reading import all_text, conversation, result_of
from eca_protocol.testing.conformance.session import ClientSession
from eca_protocol.testing.conformance.verdicts import Unmet
from eca_protocol.testing.script import reply

LARGE: Final = 200_000
_STARTS: Final = re.compile(r"\b47\d\d\b")
_ENDS: Final = re.compile(r"\b49\d\d\b")


async def text_sent_to_model(
    session: ClientSession, *contexts: Mapping[str, Any], text: str = "Hi."
) -> str:
    """Prompt with these contexts; return all text of the request to the model."""
    chat = await session.take_turn(text, reply("I see."), contexts=list(contexts))
    return all_text(chat.model.first.body)


def file(path: Path, *lines: int) -> dict[str, Any]:
    """Return the context of a file, or of some of its lines."""
    context: dict[str, Any] = {"type": "file", "path": str(path)}
    if lines:
        context["linesRange"] = dict(zip(("start", "end"), lines, strict=True))
    return context


async def require_files(session: ClientSession) -> None:
    """Check the precondition that the text of a file reaches the model."""
    path = session.file("needed.txt", "what is needed\n")
    if "what is needed" not in await text_sent_to_model(session, file(path)):
        raise Unmet("a file whose text is shown to the model", "one whose is not")


@case("CHAT-6", needs="model")
async def contexts_reach_the_model(session: ClientSession) -> None:
    """Prompt with a file of the workspace."""
    path = session.file("carried.txt", "what it carries\n")
    text = await text_sent_to_model(session, file(path))
    expected = "the file's name or text in the request to the model"
    session.check("CHAT-6", path.name in text or "what it carries" in text, expected, text)


@case("CTX-1", "CTX-2", "W-41d", needs="model")
async def files_are_shown_whole_or_in_part(session: ClientSession) -> None:
    """Prompt with a file of nine lines, then with its lines 4 to 6."""
    names = ("alpha", "beta", "gamma", "delta", "eps", "zeta", "eta", "theta", "iota")
    lines = [f"line {name}" for name in names]
    path = session.file("nine.txt", "\n".join(lines) + "\n")
    whole = await text_sent_to_model(session, file(path))
    missing = [line for line in lines if line not in whole]
    if path.name not in whole and len(missing) == len(lines):
        raise Unmet("the context in the request to the model", "none")
    session.check(
        "CTX-1", not missing, "each line of the file in the request", f"missing: {missing}"
    )
    part = await text_sent_to_model(session, file(path, 4, 6))
    lines_sent = [line for line in lines if line in part]
    is_right = lines[4] in lines_sent and not {lines[0], lines[8]} & set(lines_sent)
    expected = "the selected lines in the request, not the first and last line of the file"
    is_part = session.check("CTX-2", is_right, expected, lines_sent)
    if is_part:
        is_right = (lines_sent[0], lines_sent[-1]) == (lines[3], lines[5])
        expected = f"exactly {lines[3]!r} to {lines[5]!r} in the request"
        session.check("W-41d", is_right, expected, lines_sent)


@case("CTX-3", "W-41a", "CTX-5", needs="model")
async def a_directory_is_shown(session: ClientSession) -> None:
    """Prompt with a directory of text, one of binary files, and one of 4 MB."""
    await require_files(session)
    folder = session.workspace / "folder"
    (folder / "below").mkdir(parents=True)
    (folder / "below" / "text.md").write_text("what stands below\n")
    (folder / "picture-of-nothing.bin").write_bytes(bytes(range(256)))
    text = await text_sent_to_model(session, {"type": "directory", "path": str(folder)})
    named, read = "picture-of-nothing.bin" in text, "what stands below" in text
    session.check(
        "CTX-3", named or read, "the files of the directory, by name or text, in the request", text
    )
    if not (named or read):
        return
    large = session.workspace / "large"
    large.mkdir()
    for number in range(20):
        (large / f"{number}.txt").write_text(f"{number:09} of much\n" * (LARGE // 18))
    much = await text_sent_to_model(session, {"type": "directory", "path": str(large)})
    expected = "the directory's texts up to a limit, and each file's name"
    got = f"texts: {read}, names: {named}, {len(much)} of {20 * LARGE} characters"
    session.check("W-41a", named and read and len(much) < 20 * LARGE * 3 // 4, expected, got)
    if not await find_contexts(session, ""):
        raise Unmet("a workspace with files", "one without any")
    mapped = await text_sent_to_model(session, {"type": "repoMap"})
    expected = "the names of the repository's files in the request"
    session.check("CTX-5", "picture-of-nothing.bin" in mapped, expected, mapped)


@case("CTX-6", "W-41c", needs="model")
async def the_cursor_is_passed_on(session: ClientSession) -> None:
    """Prompt with a position, then with a selection."""
    await require_files(session)
    path = session.file("edited.py", "x = 1\n" * 5000)
    start, end = {"line": 4711, "character": 1}, {"line": 4911, "character": 1987}
    cursor = {"type": "cursor", "path": str(path)}
    here = await text_sent_to_model(session, {**cursor, "position": {"start": start, "end": start}})
    there = await text_sent_to_model(session, {**cursor, "position": {"start": start, "end": end}})
    session.check(
        "CTX-6",
        path.name in here
        and all(map(_STARTS.search, (here, there)))
        and len(_ENDS.findall(there)) > len(_ENDS.findall(here)),
        "the file and the start line; for a selection also its end",
        f"{here}\n\n{there}",
    )
    expected = "the start line 4711 in both requests"
    session.check("W-41c", "4711" in here and "4711" in there, expected, f"{here}\n\n{there}")


@case("CTX-8", needs="model")
async def contexts_of_different_types_go_together(session: ClientSession) -> None:
    """Prompt with a file, a directory and the cursor at once."""
    (session.workspace / "folder-of-some").mkdir()
    for name in ("alone.txt", "folder-of-some/inside.txt", "cursor.txt"):
        session.file(name, f"text of {name}\n")
    await require_files(session)
    place = {"line": 1, "character": 1}
    folder = {"type": "directory", "path": str(session.workspace / "folder-of-some")}
    position = {"start": place, "end": place}
    path = str(session.workspace / "cursor.txt")
    cursor = {"type": "cursor", "path": path, "position": position}
    text = await text_sent_to_model(session, file(session.workspace / "alone.txt"), folder, cursor)
    expected_texts = ("text of alone.txt", "folder-of-some", "cursor.txt")
    missing = [each for each in expected_texts if each not in text]
    session.check(
        "CTX-8", not missing, "each of the three contexts in the request", f"missing: {missing}"
    )


@case("W-41b", needs="model")
async def only_a_context_leads_outside_the_workspace(session: ClientSession) -> None:
    """Prompt with a file outside the roots as a context, then as a mention."""
    await require_files(session)
    path = session.wire.directories.home / f"outside-{session.workspace.name}.txt"
    path.write_text("text from outside\n")
    as_context = await text_sent_to_model(session, file(path))
    mentioned = await text_sent_to_model(session, text=f"See @{path} for more.")
    is_right = "text from outside" in as_context and "text from outside" not in mentioned
    got = f"as a context: {as_context}\n\nas a mention: {mentioned}"
    session.check("W-41b", is_right, "the file's text for a context, not for a mention", got)


@case("W-41e", needs="model", fresh=True)
async def an_unknown_context_is_skipped_with_a_note(session: ClientSession) -> None:
    """Prompt with a context of an unknown type, alone and before a file."""
    unknown = {"type": "hologram", "of": "a cat"}
    plain, chat = session.chat(reply("I see.")), session.chat(reply("I see."))
    answer = await chat.prompt("Hi.", contexts=[unknown])
    ended = result_of(answer) and await chat.finishes()
    expected = "a turn with a request to the model"
    session.check("W-41e", ended and chat.model.requests, expected, f"{answer}, {chat.of()}")
    await require_files(session)
    path = session.file("beside.txt", "text of the file beside it\n")
    needed = file(session.workspace / "needed.txt")
    texts = [await text_sent_to_model(session, first, file(path)) for first in (needed, unknown)]
    follows = ["text of the file beside it" in text for text in texts]
    expected = "a file in the request also if it follows an unknown context"
    session.check("W-41e", follows != [True, False], expected, texts[1])
    await plain.take_turn("Hi.")
    requests = "\n".join(all_text(each.body) for each in chat.model.requests)
    is_named = "hologram" in chat.text("system") + requests
    has_note = is_named or _word_count(chat) > _word_count(plain)
    expected = "a note about the skipped context to the user or the model"
    session.check("W-41e", has_note, expected, f"{answer}, {chat.of()}")


def _word_count(chat: ChatSession) -> int:
    """Count the words that the server sent to the user and, in the chat, to the model."""
    requests = [conversation(each.body) for each in chat.model.requests[:1]]
    return len("\n".join([chat.text("system"), *requests]).split())


@case("W-3f", needs="model", fresh=True)
async def a_context_without_what_it_needs_is_skipped(session: ClientSession) -> None:
    """Query and prompt with a bare cursor, as VS Code sends it."""
    await require_files(session)
    bare = {"type": "cursor"}
    listed = await session.ask("chat/queryContext", {"query": "needed", "contexts": [bare]})
    session.check("W-3f", "result" in listed, "a result, without the bare cursor", listed)
    plain, chat = session.chat(reply("I see.")), session.chat(reply("I see."))
    await plain.take_turn("Hi.")
    answer = await chat.prompt("Hi.", contexts=[bare])
    ended = result_of(answer) and await chat.finishes()
    is_right = ended and chat.model.requests and _word_count(chat) > _word_count(plain)
    expected = "a turn, and a note about the skipped context to the user or the model"
    session.check("W-3f", is_right, expected, f"{answer}, {chat.of()}")


@case("CTX-4", needs="model")
async def a_page_of_the_web_is_shown(session: ClientSession) -> None:
    """Prompt with a web page that the scripted model's endpoint serves."""
    text = await text_sent_to_model(session, {"type": "web", "url": session.model.page_url})
    if session.model.page_was_fetched:
        session.check("CTX-4", PAGE in text, f"the page's text {PAGE!r} in the request", text)
    else:
        session.untestable(
            "CTX-4", "The page is on this machine, whose addresses a server may well refuse."
        )
