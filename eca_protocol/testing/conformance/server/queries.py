"""Cases of queries while the user types: contexts and commands."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.cases import case
from eca_protocol.testing.conformance.server.reading import poll, result_of
from eca_protocol.testing.conformance.session import ClientSession
from eca_protocol.testing.conformance.verdicts import NotApplicable, Unmet
from eca_protocol.testing.script import reply

CONTEXTS, COMMANDS = "chat/queryContext", "chat/queryCommands"
MOST = 200
_COMMON = ("e", "o", "login")  # search terms that match most commands


async def find_contexts(
    session: ClientSession, query: str, **params: Any
) -> list[Mapping[str, Any]]:
    """Return the contexts that match a query."""
    answer = await session.ask(CONTEXTS, {"query": query, "contexts": [], **params})
    return _listed(answer, "contexts")


async def commands(session: ClientSession, query: str) -> list[Mapping[str, Any]]:
    """Return the commands that match a query."""
    return _listed(await session.ask(COMMANDS, {"query": query}), "commands")


def _listed(answer: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    listed = result_of(answer).get(name)
    if not isinstance(listed, list) or not all(isinstance(each, Mapping) for each in listed):
        raise Unmet(f"a list of {name}", answer)
    return listed


def _paths(root: Path, contexts: list[Mapping[str, Any]]) -> list[str]:
    return [str(root / str(each["path"])) for each in contexts if "path" in each]


def _is_there(root: Path, context: Mapping[str, Any]) -> bool:
    place = root / str(context.get("path", ""))
    if context.get("type") == "directory":
        return place.is_dir()
    return context.get("type") != "file" or place.is_file()


@case("CHAT-24", "CHAT-25", "CHAT-26", "W-40a", seconds=30, handshake=False)
async def contexts_are_found(session: ClientSession) -> None:
    """Query a workspace of 251 files and a folder: all, by name, and with exclusions."""
    for number in range(250):
        (session.root / f"file-{number}.txt").touch()
    needle = session.root / "some-needle.md"
    needle.touch()
    (session.root / "a-folder").mkdir()
    await session.handshake()
    may_be_fewer = session.target.personality.loses_large_frames
    fewest = 1 if may_be_fewer else MOST
    answer = await poll(
        partial(_contexts_for_empty_query, session), lambda answer: _has_enough(answer, fewest)
    )
    listed = answer.get("contexts")
    is_list = isinstance(listed, list) and all(isinstance(each, Mapping) for each in listed)
    session.check("CHAT-24", is_list, "a list of contexts", answer)
    if not isinstance(listed, list) or not is_list or not listed:
        raise Unmet("contexts of a workspace with files", listed)
    missing = [each for each in listed if not _is_there(session.root, each)]
    session.check("CHAT-24", not missing, "existing files and folders only", missing)
    paths = _paths(session.root, listed)
    has_own_choice = len(listed) < MOST and str(session.root) not in paths
    if not has_own_choice:
        is_right = (len(listed) == MOST or may_be_fewer) and paths[:1] == [str(session.root)]
        got = f"{len(listed)} contexts, first {paths[:1]}"
        session.check("W-40a", is_right, f"{MOST} of 253 contexts, the root first", got)
    matches = _paths(session.root, await poll(partial(find_contexts, session, "needle"), bool))
    is_right = str(needle) in matches and not any("file-" in each for each in matches)
    session.check("CHAT-25", is_right, f"{needle}, and no other file", matches)
    has = [{"type": "file", "path": str(needle)}]
    rest = _paths(session.root, await find_contexts(session, "needle", contexts=has))
    session.check(
        "CHAT-26", str(needle) not in rest, f"no {needle}, which the client has already", rest
    )
    if has_own_choice:  # the server finds some kinds of contexts only
        raise Unmet(f"the root among {MOST} contexts", f"{len(listed)} without it")


async def _contexts_for_empty_query(session: ClientSession) -> Mapping[str, Any]:
    return result_of(await session.ask(CONTEXTS, {"query": "", "contexts": []}))


def _has_enough(answer: Mapping[str, Any], fewest: int) -> bool:
    contexts = answer.get("contexts")
    return not isinstance(contexts, list) or len(contexts) >= fewest


@case("CHAT-27", "CHAT-28", "CHAT-29", "W-40b", "W-40c", "W-40e")
async def commands_are_found(session: ClientSession) -> None:
    """Query for all commands, by a name, and by a description, with and without a chat."""
    await _chats_are_named(session)
    everything = await commands(session, "")
    if not everything:
        matches = [each for word in _COMMON for each in await commands(session, word)]
        if matches:
            session.check("CHAT-28", False, "all commands for an empty query", "no command")
            raise Unmet("all commands for an empty query", "none")
        raise NotApplicable("it has no commands")
    incomplete = [each for each in everything if not (each.get("name") and each.get("description"))]
    session.check(
        "CHAT-27", not incomplete, "each command with a name and a description", incomplete
    )
    command = everything[-1]
    if not command.get("name"):
        raise Unmet("commands with names", everything)
    matches = await commands(session, str(command["name"]))
    is_right = command in matches and (len(matches) < len(everything) or len(everything) == 1)
    is_right = is_right and not await commands(session, "no command is called so")
    expected = f"{command['name']} and not all others; no command for an unknown name"
    session.check("CHAT-28", is_right, expected, [each.get("name") for each in matches])
    by_description = await commands(session, _some_words(str(command.get("description"))))
    expected = f"{command['name']} for words of its description"
    got = [each.get("name") for each in by_description]
    session.check("W-40b", command in by_description, expected, got)
    if session.edition <= Revision.R2025_10:
        types = {each.get("type") for each in everything}
        session.check("W-40c", types == {"native"}, "the type native for each command", types)
    else:
        session.not_applicable("W-40c", "It is about editions up to 2025-10.")


def _some_words(text: str) -> str:
    """Return the longest run of words in a text."""
    return max(re.findall(r"\w+(?: \w+)*", text), key=len, default="")


async def _chats_are_named(session: ClientSession) -> None:
    for method in (CONTEXTS, COMMANDS):
        params = {"query": "", "contexts": []}
        with_chat = result_of(await session.ask(method, {**params, "chatId": "some chat"}))
        chat_id = with_chat.get("chatId")
        expected = f"the chatId of the query in the result of {method}"
        session.check("CHAT-29", chat_id == "some chat", expected, with_chat)
        without = result_of(await session.ask(method, params))
        expected = f"no chatId in the result of {method}"
        session.check("W-40e", "chatId" not in without, expected, f"members: {list(without)}")


@case("CHAT-30")
async def a_command_runs(session: ClientSession) -> None:
    """Prompt with the name of a native command."""
    names = {str(each.get("name")) for each in await commands(session, "")}
    harmless = sorted(names & {"costs", "doctor", "prompt-show", "config"})
    if not harmless:
        raise NotApplicable("it has none of the commands that servers share")
    chat = session.chat(reply("I am no command."))
    await chat.prompt(f"/{harmless[0]}")
    ended = await chat.finishes()
    is_right = ended and chat.text("system") and not chat.model.requests
    expected = "a text of the role system, and no request to the model"
    session.check("CHAT-30", is_right, expected, chat.of())


@case("CHAT-9")
async def a_login_says_so(session: ClientSession) -> None:
    """Run the command to log in, and cancel it."""
    if "login" not in {each.get("name") for each in await commands(session, "login")}:
        raise NotApplicable("it has no command to log in")
    chat = session.chat()
    statuses = []
    for text in ("/login conformance", "cancel"):
        answer = await chat.prompt(text, marker=False)
        statuses.append(result_of(answer).get("status"))
        await chat.finished(len(statuses))
    if "login" not in statuses and chat.assistant_text:
        raise NotApplicable("the suite's provider has no login")
    expected = "the status login while the command reads the next prompt"
    session.check("CHAT-9", "login" in statuses, expected, statuses)
