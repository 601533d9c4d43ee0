"""Cases of what CURRENT has beyond the chat of October 2025: its messages, seen once each.

No sentence binds a server to more than their letters, and these are watched: a case brings a
message about, and a method that the server does not know makes its rows not applicable.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any, Final

from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.bench import Bench
from eca_protocol.testing.conformance.cases import NotApplicable, Stuck, case
from eca_protocol.testing.conformance.chat_seat import ChatSeat
from eca_protocol.testing.conformance.seat import Seat
from eca_protocol.testing.conformance.server.mcp import is_so, program
from eca_protocol.testing.conformance.server.reading import (
    at_gate,
    calls,
    conversation,
    ends,
    params_of,
    result_of,
)
from eca_protocol.testing.conformance.server.tools import approving
from eca_protocol.testing.conformance.target import MODEL
from eca_protocol.testing.script import Reply, reply, wait

CURRENT: Final = Revision.CURRENT
UNKNOWN_METHOD: Final = -32601
PLACE: Final = {
    "start": {"line": 7, "character": 1},
    "end": {"line": 7, "character": 5},
}
ABLE: Final = {
    "capabilities": {
        "codeAssistant": {
            "chat": True,
            "rewrite": True,
            "chatCapabilities": {"askQuestion": True},
            "editor": {"diagnostics": True, "definition": True, "references": True},
        }
    }
}
"""A client that can do all that CURRENT's servers may ask."""


async def asking(seat: Seat, asked: str, **params: Any) -> Mapping[str, Any]:
    """The result of a request of CURRENT's.

    Raises:
        NotApplicable: the server does not know the method.
        Stuck: it answers with another error.
    """
    answer = await seat.ask(asked, params)
    error = answer.get("error")
    if isinstance(error, Mapping) and error.get("code") == UNKNOWN_METHOD:
        raise NotApplicable(f"the server does not know {asked}")
    if error is not None:
        raise Stuck(f"a result of {asked}", error)
    return result_of(answer)


async def talked(seat: Seat, *script: Reply) -> ChatSeat:
    """A chat with a turn for each reply."""
    chat = seat.chat(*script)
    for turn in range(1, len(script) + 1):
        await chat.prompt(f"Prompt {turn}.")
        await chat.finished(turn)
    return chat


def content_id(chat: ChatSeat) -> str:
    """The id of the last prompt's echo."""
    ids = [each.get("contentId") for each in chat.of("text") if each.get("contentId")]
    if not ids:
        raise Stuck("an echo with an id", chat.of("text"))
    return str(ids[-1])


@case(
    "FIELD:ChatListParams.*", "VALUE:ChatListParams.*", "FIELD:ChatListResponse.*",
    "FIELD:ChatSummary.*", "FIELD:ChatOpenParams.*", "FIELD:ChatOpenResponse.*",
    "FIELD:ChatHistory*", "W-44b", since=CURRENT,
)  # fmt: skip
async def chats_are_listed_and_opened_again(bench: Bench) -> None:
    """A chat of three turns is found in the list, shown again, and read page by page."""
    async with bench.seat() as seat:
        chat = await talked(seat, reply("one"), reply("two"), reply("three"))
        for sorted_by in ("updatedAt", "createdAt"):
            listed = await asking(seat, "chat/list", limit=500, sortBy=sorted_by)
            ids = [each.get("id") for each in listed.get("chats", ())]
            bench.check("FIELD:ChatListResponse.chats", chat.id in ids, expected="it", got=ids)
        opened = await asking(seat, "chat/open", chatId=chat.id, limit=2)
        found = (opened.get("found"), opened.get("chatId"))
        bench.check(
            "FIELD:ChatOpenResponse.found",
            found == (True, chat.id),
            expected="found, with its id",
            got=opened,
        )
        whole = await asking(seat, "chat/open", chatId=chat.id)
        bench.check(
            "W-44b",
            (whole.get("meta"), bool(opened.get("meta"))) == (None, True),
            expected="meta for a page alone",
            got=f"{opened.get('meta')} for a page, {whole.get('meta')} for all",
        )
        page = await asking(seat, "chat/history", chatId=chat.id, limit=2)
        meta = page.get("meta", {})
        for end, cursor in (("before", "beforeCursor"), ("after", "afterCursor")):
            if meta.get(cursor):
                more = {"chatId": chat.id, "limit": 2, end: meta[cursor]}
                await asking(seat, "chat/history", **more)
                await asking(seat, "chat/open", **more)


@case(
    "FIELD:ChatUpdateParams.*",
    "FIELD:ChatAddFlagParams.*",
    "FIELD:ChatFlagContent.*",
    "FIELD:ChatRemoveFlagParams.*",
    "FIELD:ChatOpenedParams.*",
    "W-43b",
    "W-43c",
    "W-43d",
    since=CURRENT,
)
async def a_chat_is_named_and_marked(bench: Bench) -> None:
    """A title, a flag put on a prompt and taken away; then the chat is opened again."""
    async with bench.seat() as seat:
        chat = await talked(seat, reply("one"), reply("two"))
        prompt, said = content_id(chat), chat.said
        await asking(seat, "chat/update", chatId=chat.id, title="A name of mine", trust=False)
        await _marked(bench, chat, prompt, said)
        flags = [each.get("contentId") for each in chat.of("flag")]
        bench.check(
            "W-43b",
            bool(flags) and prompt not in flags,
            expected="a flag with a contentId that is not the prompt's",
            got=flags,
        )
        await asking(seat, "chat/open", chatId=chat.id)
        bench.check(
            "W-43d",
            ([each.get("contentId") for each in chat.of("flag")], chat.said)
            == (flags * 2, said * 3),
            expected="texts and flag, when the chat is opened again",
            got=[heard.content for heard in chat.heard],
        )
        before = len(chat.of("flag")), chat.said
        gone = {"chatId": chat.id, "contentId": (flags or [prompt])[0]}
        await asking(seat, "chat/removeFlag", **gone)
        bench.check(
            "W-43c",
            (len(chat.of("flag")), chat.said) == (before[0], before[1] + said),
            expected="the chat without its flag",
            got=[heard.content for heard in chat.heard],
        )


@case("W-43a", "W-43d", since=CURRENT, needs="native-tools")
async def a_flag_follows_a_call(bench: Bench) -> None:
    """A flag is put behind a tool call, by the call's id."""
    async with bench.seat() as seat:
        chat = seat.chat(calls(("eca_directory_tree", {"path": str(seat.root)})), reply("done"))
        await chat.prompt("Look.")
        await approving(chat)
        looked, before = ends(chat), len(chat.heard)
        [call] = {str(each.get("id")) for each in looked}
        await _marked(bench, chat, call, "done")
        shown = [heard.content for heard in chat.heard[before:]]
        ended = [each for each in shown if each.get("type") in _ENDS]
        bench.check("W-43d", ended == looked, expected=f"the call as it was, {looked}", got=ended)
        bench.check(
            "W-43a",
            [each for each, behind in pairwise(shown) if behind.get("type") == "flag"] == ended,
            expected="the flag behind the call that it was set at",
            got=shown,
        )


_ENDS: Final = ("toolCalled", "toolCallRejected")


async def _marked(bench: Bench, chat: ChatSeat, content_id: str, said: str) -> None:
    """Set a flag at a content; the chat is cleared and shown again before the answer."""
    seat = chat.seat
    marked = {"chatId": chat.id, "contentId": content_id}
    await asking(seat, "chat/addFlag", **marked, text="here")
    cleared = [heard for heard in seat.heard if heard.method == "chat/cleared"]
    shown = [
        str(heard.content.get("text"))
        for heard in chat.heard
        if heard.content.get("type") == "text"
        and heard.params.get("role") == "assistant"
        and any(heard.index > each.index for each in cleared)
    ]
    bench.check(
        "W-43c",
        (len(cleared), "".join(shown)) == (1, said),
        expected="chat/cleared, then all contents, before the answer",
        got=[heard.content for heard in chat.heard],
    )


@case("FIELD:InitializeResponse.globalConfigPath", since=CURRENT)
async def the_user_s_configuration_is_named(bench: Bench) -> None:
    """The answer to `initialize` may name the file in which the user configures the server."""
    async with bench.seat(hello=False) as seat:
        answer = await seat.ask("initialize", bench.initialize_params(seat.root), seconds=30)
        path = result_of(answer).get("globalConfigPath")
        if path is None:
            raise NotApplicable("the server names no file")
        bench.check(
            "FIELD:InitializeResponse.globalConfigPath",
            isinstance(path, str) and _is_absolute(path),
            expected="an absolute path",
            got=path,
        )


def _is_absolute(path: str) -> bool:
    return PurePosixPath(path).is_absolute() or PureWindowsPath(path).is_absolute()


@case("FIELD:ChatForkParams.*", "FIELD:ChatForkResponse.*", since=CURRENT)
async def a_chat_is_forked(bench: Bench) -> None:
    """A copy of a chat up to its last prompt, named by the answer."""
    async with bench.seat(fresh=True) as seat:
        chat = await talked(seat, reply("one"), reply("two"))
        forked = await asking(seat, "chat/fork", chatId=chat.id, contentId=content_id(chat))
        opened = await seat.until(
            lambda message: message.get("method") == "chat/opened" and _other(message, chat),
            expected="chat/opened of the copy",
        )
        bench.check(
            "FIELD:ChatForkResponse.chatId",
            forked.get("chatId") == opened.params.get("chatId"),
            expected=f"the id of the copy, {opened.params.get('chatId')!r}",
            got=forked,
        )


@case("FIELD:ChatInlinePromptParams.*", "FIELD:ChatSummary.kind", "VALUE:ChatKind=*", since=CURRENT)
async def a_chat_is_prompted_inline(bench: Bench) -> None:
    """A chat of its own begins with what was said in another one, which is not shown in it."""
    async with bench.seat(fresh=True) as seat:
        source = await talked(seat, reply("one"))
        inline = seat.chat(reply("two"), reply("three"))
        asked = {"message": inline.worded("Go on."), "contexts": [], "trust": False}
        ids = {"chatId": inline.id, "sourceChatId": source.id}
        await asking(seat, "chat/inlinePrompt", **ids, **asked)
        await inline.finished()
        more = {"model": MODEL, "agent": "plan", "variant": "x"}
        await asking(seat, "chat/inlinePrompt", chatId=inline.id, **asked, **more)
        await inline.finished(2)
        texts = "".join(str(each.get("text")) for each in inline.of("text"))
        bench.check(
            "FIELD:ChatInlinePromptParams.sourceChatId",
            "one" not in texts,
            expected="the new turn alone",
            got=texts,
        )
        sent = conversation(inline.model.first.body)
        bench.check(
            "FIELD:ChatInlinePromptParams.sourceChatId",
            source.prompted[0] in sent,
            expected=f"the other chat's {source.prompted[0]!r} in the request",
            got=sent,
        )
        listed = await asking(seat, "chat/list", limit=500)
        kinds = {each.get("id"): each.get("kind") for each in listed.get("chats", ())}
        bench.check(
            "FIELD:ChatSummary.kind",
            (kinds.get(inline.id), kinds.get(source.id)) == ("inline", None),
            expected="`inline` for that chat alone",
            got=kinds,
        )


def _other(message: Mapping[str, Any], chat: ChatSeat) -> bool:
    return bool(params_of(message).get("chatId") != chat.id)


@case("FIELD:ChatRollbackParams.*", "VALUE:ChatRollbackInclude=*", since=CURRENT)
async def a_chat_is_rolled_back(bench: Bench) -> None:
    """The last turn is taken back."""
    async with bench.seat() as seat:
        chat = await talked(seat, reply("one"), reply("two"))
        place = {"chatId": chat.id, "contentId": content_id(chat)}
        await asking(seat, "chat/rollback", **place, include=["messages", "tools"])


@case("FIELD:ChatClearParams.*", "FIELD:ChatClearedParams.*", since=CURRENT)
async def a_chat_is_cleared(bench: Bench) -> None:
    """All that was said is forgotten."""
    async with bench.seat() as seat:
        chat = await talked(seat, reply("one"), reply("two"))
        await asking(seat, "chat/clear", chatId=chat.id, messages=True)
        told = await seat.until(
            lambda message: message.get("method") == "chat/cleared", expected="chat/cleared"
        )
        bench.check(
            "FIELD:ChatClearedParams.messages",
            told.params.get("messages") is True,
            expected="true",
            got=told.params,
        )


@case("FIELD:ChatPromptSteerParams.*", "FIELD:ChatPromptSteerRemoveParams.*", since=CURRENT)
async def a_turn_is_steered(bench: Bench) -> None:
    """A word to a turn that runs, and one that is taken back."""
    async with bench.seat() as seat:
        chat = seat.chat(reply("one", wait("go")), reply("two"))
        await chat.prompt("Hi.")
        await at_gate(chat, "go")
        await seat.tell("chat/promptSteer", {"chatId": chat.id, "message": "Not so fast."})
        await seat.tell("chat/promptSteerRemove", {"chatId": chat.id})
        await seat.settle()
        chat.model.open("go")
        await chat.finished()


@case("FIELD:ChatQueryFiles*", since=CURRENT)
async def files_are_found(bench: Bench) -> None:
    """A file by a part of its name."""
    async with bench.seat(hello=False) as seat:
        path = seat.root / "a-needle.txt"
        path.touch()
        await seat.hello()
        found = await asking(seat, "chat/queryFiles", chatId="c", query="needle")
        paths = [each.get("path") for each in found.get("files", ())]
        bench.check(
            "FIELD:ChatQueryFilesResponse.files",
            str(path) in paths,
            expected=str(path),
            got=paths,
        )


@case(
    "FIELD:ChatSelectedModelChanged.*", "FIELD:ChatSelectedAgentChanged.*",
    "FIELD:ChatPromptParams.*", "FIELD:ImageContext.*", "FIELD:TextContext.*",
    "VALUE:ChatContext=ImageContext", "VALUE:ChatContext=TextContext",
    "FIELD:WorkspaceDidChangeWorkspaceFoldersParams.*", "W-11h", since=CURRENT,
)  # fmt: skip
async def newer_clients_say_more(bench: Bench) -> None:
    """Selections for one chat, a prompt with all its members, and another folder."""
    async with bench.seat(fresh=True) as seat:
        chat = seat.chat(reply("I see."))
        of_chat = {"chatId": chat.id}
        await seat.tell("chat/selectedModelChanged", {**of_chat, "model": MODEL, "variant": "x"})
        told = await seat.until(
            lambda message: _has_variants(message, chat), expected="the variants of the model"
        )
        listed = params_of(told.message)["chat"]
        bench.check(
            "W-11h",
            listed.get("selectVariant", "missing") in (None, *listed["variants"]),
            expected="a variant of the model, or null",
            got=listed,
        )
        await seat.tell("chat/selectedAgentChanged", {**of_chat, "agent": "plan"})
        other = seat.wire.folders.home / "other"
        other.mkdir()
        folder = {"name": "other", "uri": other.as_uri()}
        event = {"added": [folder], "removed": []}
        await seat.tell("workspace/didChangeWorkspaceFolders", {"event": event})
        contexts = [
            {"type": "text", "label": "pasted", "content": "a text from elsewhere"},
            {"type": "image", "mediaType": "image/png", "base64": PIXEL},
        ]
        await chat.prompt("Look.", agent="plan", variant="x", trust=False, contexts=contexts)
        await chat.finished()


def _has_variants(message: Mapping[str, Any], chat: ChatSeat) -> bool:
    params = params_of(message)
    listed = params.get("chat") if message.get("method") == "config/updated" else None
    is_listed = isinstance(listed, Mapping) and isinstance(listed.get("variants"), list)
    return is_listed and params.get("chatId") == chat.id


PIXEL: Final = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGA"
    "WjR9awAAAABJRU5ErkJggg=="
)
"""The smallest PNG there is."""


@case("FIELD:Provider*", "FIELD:LoginMethod.*", "VALUE:Provider*", since=CURRENT)
async def providers_are_listed(bench: Bench) -> None:
    """All providers, how one may log in there, and out again."""
    async with bench.seat(fresh=True) as seat:
        listed = await asking(seat, "providers/list")
        ids = [each.get("id") for each in listed.get("providers", ())]
        bench.check(
            "FIELD:ProvidersListResult.providers",
            "conformance" in ids or not bench.target.takes_config,
            expected="the configured one among them",
            got=ids,
        )
        for each in listed.get("providers", ()):
            methods = (each.get("login") or {}).get("methods") or ()
            if any(method.get("key") == "api-key" for method in methods):
                named = {"provider": each["id"]}
                await asking(seat, "providers/login", **named, method="api-key")
                await asking(seat, "providers/loginInput", **named, data={"api-key": "sk-none"})
                await asking(seat, "providers/logout", **named)
                return


@case(
    "FIELD:MCPAddServer*", "FIELD:MCPUpdateServerParams.*", "FIELD:MCPRemoveServer*",
    "FIELD:MCPDisableServerParams.*", "FIELD:MCPEnableServerParams.*",
    "FIELD:ToolServerRemovedParams.*", "FIELD:ServerPrompt.*", "FIELD:PromptArgument.*",
    "FIELD:ServerResource.*", since=CURRENT, seconds=40,
)  # fmt: skip
async def mcp_servers_are_added_changed_and_removed(bench: Bench) -> None:
    """Our small one, by the requests of a client's settings page."""
    async with bench.seat(fresh=True) as seat:
        mine = program()
        added = {"name": "mine", "env": {"ANY": "1"}, "disabled": False, "scope": "global", **mine}
        await asking(seat, "mcp/addServer", **added)
        running = await is_so(seat, "mine", "running")
        await asking(seat, "mcp/updateServer", name="mine", env={"ANY": "2"}, **mine)
        starting = await is_so(seat, "mine", "starting", after=running)
        running = await is_so(seat, "mine", "running", after=starting)
        await seat.tell("mcp/disableServer", {"name": "mine"})
        off = await is_so(seat, "mine", "disabled", after=running)
        await seat.tell("mcp/enableServer", {"name": "mine"})
        await is_so(seat, "mine", "running", after=off)
        await asking(seat, "mcp/removeServer", name="mine")
        await seat.until(
            lambda message: message.get("method") == "tool/serverRemoved",
            shows="FIELD:ToolServerRemovedParams.name",
            expected="tool/serverRemoved",
        )


@case(
    "FIELD:EditorGetDefinition*", "FIELD:EditorGetReferences*", "FIELD:EditorLocation.*",
    "FIELD:Range*", "FIELD:ChatAskQuestion*", since=CURRENT,
)  # fmt: skip
async def the_editor_and_its_user_are_asked(bench: Bench) -> None:
    """The model looks up a definition and its uses, and puts a question."""
    async with bench.seat(fresh=True, initialize=ABLE) as seat:
        path = seat.root / "a.py"
        path.write_text("import this\nname = 1\nname\n")
        found = {"status": "success", "locations": [{"uri": path.as_uri(), "range": PLACE}]}
        seat.replies["editor/getDefinition"] = found
        seat.replies["editor/getReferences"] = found
        seat.replies["chat/askQuestion"] = {"answer": "blue", "cancelled": False}
        place = {"path": str(path), "line": 2, "symbol": "name"}
        question = {"question": "Which one?", "options": [{"label": "blue", "description": "b"}]}
        for kind in ("editor_definition", "editor_references", "ask_user"):
            seat.tool(kind)
        chat = seat.chat(
            calls(("editor_definition", place)),
            calls(("editor_references", {**place, "include_declaration": True})),
            calls(("ask_user", question)),
            reply("Blue, then."),
        )
        await chat.prompt("Ask.")
        await approving(chat)


@case("FIELD:Completion*", since=CURRENT)
async def a_line_is_completed(bench: Bench) -> None:
    """What could stand behind the cursor."""
    async with bench.seat() as seat:
        place = {"line": 1, "character": 5}
        await asking(seat, "completion/inline", docText="x = \n", docVersion=3, position=place)


@case("FIELD:Rewrite*", "VALUE:Rewrite*", since=CURRENT)
async def a_text_is_rewritten(bench: Bench) -> None:
    """A selection, and what is to become of it."""
    async with bench.seat() as seat:
        chat = seat.chat(reply("y = 1"))
        params = {"id": "r1", "text": "x = 1", "prompt": chat.worded("Call it y."), "range": PLACE}
        await asking(seat, "rewrite/prompt", **params)
        await seat.until(
            lambda message: (
                message.get("method") == "rewrite/contentReceived"
                and "finished" in str(params_of(message).get("content"))
            ),
            expected="the end of the rewrite",
        )
