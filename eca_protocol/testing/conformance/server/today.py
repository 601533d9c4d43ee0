"""Cases of CURRENT's messages beyond the chat of October 2025.

Most requirements only concern fields and values, which the watcher checks: a case triggers the
messages. Requirements of a method that the server does not know are not applicable.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import pairwise
from pathlib import PurePosixPath, PureWindowsPath

from eca_protocol.testing.conformance.cases import case
from eca_protocol.testing.conformance.chat_session import CALL_ENDS, ChatSession
from eca_protocol.testing.conformance.harness import ClientSession
from eca_protocol.testing.conformance.recorder import ReceivedMessage
from eca_protocol.testing.conformance.server.current_requests import (
    CAPABLE_CLIENT,
    CURRENT,
    PIXEL,
    RANGE,
    chat_with_turns,
    content_id,
    request_result,
)
from eca_protocol.testing.conformance.server.mcp import program, wait_for_status
from eca_protocol.testing.conformance.server.reading import calls, conversation, result_of
from eca_protocol.testing.conformance.target import MODEL
from eca_protocol.testing.conformance.verdicts import NotApplicable
from eca_protocol.testing.script import reply, wait


@case(
    "FIELD:ChatListParams.*", "VALUE:ChatListParams.*", "FIELD:ChatListResponse.*",
    "FIELD:ChatSummary.*", "FIELD:ChatOpenParams.*", "FIELD:ChatOpenResponse.*",
    "FIELD:ChatHistory*", "W-44b", since=CURRENT,
)  # fmt: skip
async def chats_are_listed_and_opened_again(session: ClientSession) -> None:
    """Find a chat of three turns in the list, open it, and read it by pages."""
    chat = await chat_with_turns(session, reply("one"), reply("two"), reply("three"))
    for sorted_by in ("updatedAt", "createdAt"):
        listed = await request_result(session, "chat/list", limit=500, sortBy=sorted_by)
        ids = [each.get("id") for each in listed.get("chats", ())]
        session.check(
            "FIELD:ChatListResponse.chats", chat.id in ids, f"the chat {chat.id} in the list", ids
        )
    opened = await request_result(session, "chat/open", chatId=chat.id, limit=2)
    result = (opened.get("found"), opened.get("chatId"))
    expected = "found true, and the chat's id"
    session.check("FIELD:ChatOpenResponse.found", result == (True, chat.id), expected, opened)
    whole = await request_result(session, "chat/open", chatId=chat.id)
    is_right = (whole.get("meta"), bool(opened.get("meta"))) == (None, True)
    got = f"meta {opened.get('meta')} for a page, {whole.get('meta')} for the whole chat"
    session.check("W-44b", is_right, "meta for a page, and none for the whole chat", got)
    page = await request_result(session, "chat/history", chatId=chat.id, limit=2)
    meta = page.get("meta", {})
    for end, cursor in (("before", "beforeCursor"), ("after", "afterCursor")):
        if meta.get(cursor):
            more = {"chatId": chat.id, "limit": 2, end: meta[cursor]}
            await request_result(session, "chat/history", **more)
            await request_result(session, "chat/open", **more)


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
async def a_chat_is_named_and_marked(session: ClientSession) -> None:
    """Rename a chat, add a flag and remove it, and open the chat again."""
    chat = await chat_with_turns(session, reply("one"), reply("two"))
    prompt, text = content_id(chat), chat.assistant_text
    await request_result(
        session, "chat/update", chatId=chat.id, title="A name of mine", trust=False
    )
    await _set_flag(session, chat, prompt, text)
    flags = [each.get("contentId") for each in chat.of("flag")]
    expected = "a flag with a contentId that is not the prompt's"
    session.check("W-43b", bool(flags) and prompt not in flags, expected, flags)
    await request_result(session, "chat/open", chatId=chat.id)
    shown = [each.get("contentId") for each in chat.of("flag")], chat.assistant_text
    expected = "the texts and the flag in the chat that is opened again"
    session.check("W-43d", shown == (flags * 2, text * 3), expected, chat.of())
    before = len(chat.of("flag")), chat.assistant_text
    gone = {"chatId": chat.id, "contentId": (flags or [prompt])[0]}
    await request_result(session, "chat/removeFlag", **gone)
    is_right = (len(chat.of("flag")), chat.assistant_text) == (before[0], before[1] + text)
    session.check("W-43c", is_right, "the chat's texts again, without the flag", chat.of())


@case("W-43a", "W-43d", since=CURRENT, needs="native-tools")
async def a_flag_follows_a_call(session: ClientSession) -> None:
    """Add a flag at a tool call."""
    chat = await session.take_approved_turn(
        "Look.", calls(("eca_directory_tree", {"path": str(session.root)})), reply("done")
    )
    end_contents, before = chat.call_ends, len(chat.messages)
    [call] = {str(each.get("id")) for each in end_contents}
    await _set_flag(session, chat, call, "done")
    shown = [received.content for received in chat.messages[before:]]
    ended = [each for each in shown if each.get("type") in CALL_ENDS]
    session.check("W-43d", ended == end_contents, f"the unchanged call {end_contents}", ended)
    is_right = [each for each, behind in pairwise(shown) if behind.get("type") == "flag"] == ended
    session.check("W-43a", is_right, "the flag directly after its call", shown)


async def _set_flag(session: ClientSession, chat: ChatSession, content_id: str, text: str) -> None:
    """Set a flag at a content; the chat is cleared and replayed before the answer."""
    marked = {"chatId": chat.id, "contentId": content_id}
    await request_result(session, "chat/addFlag", **marked, text="here")
    cleared = [received for received in session.messages if received.method == "chat/cleared"]
    shown = [
        str(received.content.get("text"))
        for received in chat.messages
        if received.content.get("type") == "text"
        and received.params.get("role") == "assistant"
        and any(received.index > each.index for each in cleared)
    ]
    expected = "one chat/cleared, then all contents again, before the answer"
    session.check("W-43c", (len(cleared), "".join(shown)) == (1, text), expected, chat.of())


@case("FIELD:InitializeResponse.globalConfigPath", since=CURRENT, handshake=False)
async def the_user_s_configuration_is_named(session: ClientSession) -> None:
    """Read the configuration file's path in the answer to `initialize`."""
    path = result_of(await session.initialize()).get("globalConfigPath")
    if path is None:
        raise NotApplicable("the server names no file")
    is_right = isinstance(path, str) and (
        PurePosixPath(path).is_absolute() or PureWindowsPath(path).is_absolute()
    )
    expected = "an absolute path of the configuration file"
    session.check("FIELD:InitializeResponse.globalConfigPath", is_right, expected, path)


@case("FIELD:ChatForkParams.*", "FIELD:ChatForkResponse.*", since=CURRENT, fresh=True)
async def a_chat_is_forked(session: ClientSession) -> None:
    """Fork a chat before its last prompt."""
    chat = await chat_with_turns(session, reply("one"), reply("two"))
    forked = await request_result(session, "chat/fork", chatId=chat.id, contentId=content_id(chat))
    opened = await session.until(
        lambda each: each.method == "chat/opened" and each.params.get("chatId") != chat.id,
        expected="chat/opened of the copy",
    )
    is_right = forked.get("chatId") == opened.params.get("chatId")
    expected = f"the id of the copy, {opened.params.get('chatId')!r}"
    session.check("FIELD:ChatForkResponse.chatId", is_right, expected, forked)


@case(
    "FIELD:ChatInlinePromptParams.*",
    "FIELD:ChatSummary.kind",
    "VALUE:ChatKind=*",
    since=CURRENT,
    fresh=True,
)
async def a_chat_is_prompted_inline(session: ClientSession) -> None:
    """Prompt inline: a new chat that knows another one and does not show it."""
    source = await chat_with_turns(session, reply("one"))
    inline = session.chat(reply("two"), reply("three"))
    prompt = {"message": inline.model.with_marker("Continue."), "contexts": [], "trust": False}
    ids = {"chatId": inline.id, "sourceChatId": source.id}
    await request_result(session, "chat/inlinePrompt", **ids, **prompt)
    await inline.finished()
    more = {"model": MODEL, "agent": "plan", "variant": "x"}
    await request_result(session, "chat/inlinePrompt", chatId=inline.id, **prompt, **more)
    await inline.finished(2)
    texts = "".join(str(each.get("text")) for each in inline.of("text"))
    expected = "the new turn only, without the other chat's texts"
    session.check("FIELD:ChatInlinePromptParams.sourceChatId", "one" not in texts, expected, texts)
    sent = conversation(inline.model.first.body)
    is_right = source.prompts[0] in sent
    expected = f"the other chat's prompt {source.prompts[0]!r} in the request"
    session.check("FIELD:ChatInlinePromptParams.sourceChatId", is_right, expected, sent)
    listed = await request_result(session, "chat/list", limit=500)
    kinds = {each.get("id"): each.get("kind") for each in listed.get("chats", ())}
    is_right = (kinds.get(inline.id), kinds.get(source.id)) == ("inline", None)
    expected = "the kind inline for the inline chat only"
    session.check("FIELD:ChatSummary.kind", is_right, expected, kinds)


@case("FIELD:ChatRollbackParams.*", "VALUE:ChatRollbackInclude=*", since=CURRENT)
async def a_chat_is_rolled_back(session: ClientSession) -> None:
    """Roll back the last turn."""
    chat = await chat_with_turns(session, reply("one"), reply("two"))
    place = {"chatId": chat.id, "contentId": content_id(chat)}
    await request_result(session, "chat/rollback", **place, include=["messages", "tools"])


@case("FIELD:ChatClearParams.*", "FIELD:ChatClearedParams.*", since=CURRENT)
async def a_chat_is_cleared(session: ClientSession) -> None:
    """Clear all messages of a chat."""
    chat = await chat_with_turns(session, reply("one"), reply("two"))
    await request_result(session, "chat/clear", chatId=chat.id, messages=True)
    message = await session.wait_for("chat/cleared", expected="chat/cleared")
    is_right = message.params.get("messages") is True
    expected = "messages true in chat/cleared"
    session.check("FIELD:ChatClearedParams.messages", is_right, expected, message.params)


@case(
    "FIELD:ChatPromptSteerParams.*",
    "FIELD:ChatPromptSteerRemoveParams.*",
    needs="model",
    since=CURRENT,
)
async def a_turn_is_steered(session: ClientSession) -> None:
    """Steer a running turn, and remove the steering message."""
    chat = session.chat(reply("one", wait("go")), reply("two"))
    await chat.prompt("Hi.")
    await chat.model.wait_for_gate("go")
    await session.notify("chat/promptSteer", {"chatId": chat.id, "message": "Not so fast."})
    await session.notify("chat/promptSteerRemove", {"chatId": chat.id})
    await session.settle()
    chat.model.open("go")
    await chat.finished()


@case("FIELD:ChatQueryFiles*", needs="contexts", since=CURRENT, handshake=False)
async def files_are_found(session: ClientSession) -> None:
    """Query for a file by a part of its name."""
    path = session.root / "a-needle.txt"
    path.touch()
    await session.handshake()
    result = await request_result(session, "chat/queryFiles", chatId="c", query="needle")
    paths = [each.get("path") for each in result.get("files", ())]
    session.check(
        "FIELD:ChatQueryFilesResponse.files", str(path) in paths, f"{path} in the list", paths
    )


@case(
    "FIELD:ChatSelectedModelChanged.*", "FIELD:ChatSelectedAgentChanged.*",
    "FIELD:ChatPromptParams.*", "FIELD:ImageContext.*", "FIELD:TextContext.*",
    "VALUE:ChatContext=ImageContext", "VALUE:ChatContext=TextContext",
    "FIELD:WorkspaceDidChangeWorkspaceFoldersParams.*", "W-11h", since=CURRENT,
    fresh=True,
)  # fmt: skip
async def newer_clients_say_more(session: ClientSession) -> None:
    """Select for one chat, prompt with every member, and add a folder."""
    chat = session.chat(reply("I see."))
    chat_params = {"chatId": chat.id}
    await session.notify(
        "chat/selectedModelChanged", {**chat_params, "model": MODEL, "variant": "x"}
    )
    update = await session.until(partial(_has_variants, chat), expected="the variants of the model")
    listed = update.params["chat"]
    is_right = listed.get("selectVariant", "missing") in (None, *listed["variants"])
    session.check("W-11h", is_right, "a selectVariant from the list of variants, or null", listed)
    await session.notify("chat/selectedAgentChanged", {**chat_params, "agent": "plan"})
    other = session.wire.directories.home / "other"
    other.mkdir()
    folder = {"name": "other", "uri": other.as_uri()}
    event = {"added": [folder], "removed": []}
    await session.notify("workspace/didChangeWorkspaceFolders", {"event": event})
    contexts = [
        {"type": "text", "label": "pasted", "content": "a text from elsewhere"},
        {"type": "image", "mediaType": "image/png", "base64": PIXEL},
    ]
    await chat.take_turn("Look.", agent="plan", variant="x", trust=False, contexts=contexts)


def _has_variants(chat: ChatSession, received: ReceivedMessage) -> bool:
    listed = received.params.get("chat") if received.method == "config/updated" else None
    is_listed = isinstance(listed, Mapping) and isinstance(listed.get("variants"), list)
    return is_listed and received.chat_id == chat.id


@case("FIELD:Provider*", "FIELD:LoginMethod.*", "VALUE:Provider*", since=CURRENT, fresh=True)
async def providers_are_listed(session: ClientSession) -> None:
    """List the providers, and log in and out of one."""
    listed = await request_result(session, "providers/list")
    ids = [each.get("id") for each in listed.get("providers", ())]
    is_right = "conformance" in ids or not session.target.takes_config
    expected = "the configured provider in the list"
    session.check("FIELD:ProvidersListResult.providers", is_right, expected, ids)
    for each in listed.get("providers", ()):
        methods = (each.get("login") or {}).get("methods") or ()
        if any(method.get("key") == "api-key" for method in methods):
            named = {"provider": each["id"]}
            await request_result(session, "providers/login", **named, method="api-key")
            await request_result(
                session, "providers/loginInput", **named, data={"api-key": "sk-none"}
            )
            await request_result(session, "providers/logout", **named)
            return


@case(
    "FIELD:MCPAddServer*", "FIELD:MCPUpdateServerParams.*", "FIELD:MCPRemoveServer*",
    "FIELD:MCPDisableServerParams.*", "FIELD:MCPEnableServerParams.*",
    "FIELD:ToolServerRemovedParams.*", "FIELD:ServerPrompt.*", "FIELD:PromptArgument.*",
    "FIELD:ServerResource.*", since=CURRENT, seconds=40,
    fresh=True,
)  # fmt: skip
async def mcp_servers_are_added_changed_and_removed(session: ClientSession) -> None:
    """Add, update, disable, enable and remove an MCP server."""
    mine = program()
    added = {"name": "mine", "env": {"ANY": "1"}, "disabled": False, "scope": "global", **mine}
    await request_result(session, "mcp/addServer", **added)
    running = await wait_for_status(session, "mine", "running")
    await request_result(session, "mcp/updateServer", name="mine", env={"ANY": "2"}, **mine)
    starting = await wait_for_status(session, "mine", "starting", after=running)
    running = await wait_for_status(session, "mine", "running", after=starting)
    await session.notify("mcp/disableServer", {"name": "mine"})
    off = await wait_for_status(session, "mine", "disabled", after=running)
    await session.notify("mcp/enableServer", {"name": "mine"})
    await wait_for_status(session, "mine", "running", after=off)
    await request_result(session, "mcp/removeServer", name="mine")
    row, removed = "FIELD:ToolServerRemovedParams.name", "tool/serverRemoved"
    await session.wait_for(removed, shows=row, expected=removed)


@case(
    "FIELD:EditorGetDefinition*", "FIELD:EditorGetReferences*", "FIELD:EditorLocation.*",
    "FIELD:Range*", "FIELD:ChatAskQuestion*", since=CURRENT,
    fresh=True, initialize=CAPABLE_CLIENT,
)  # fmt: skip
async def the_editor_and_its_user_are_asked(session: ClientSession) -> None:
    """Look up a definition and its references, and ask the user a question."""
    path = session.root / "a.py"
    path.write_text("import this\nname = 1\nname\n")
    result = {"status": "success", "locations": [{"uri": path.as_uri(), "range": RANGE}]}
    session.replies["editor/getDefinition"] = result
    session.replies["editor/getReferences"] = result
    session.replies["chat/askQuestion"] = {"answer": "blue", "cancelled": False}
    place = {"path": str(path), "line": 2, "symbol": "name"}
    question = {"question": "Which one?", "options": [{"label": "blue", "description": "b"}]}
    for kind in ("editor_definition", "editor_references", "ask_user"):
        session.tool(kind)
    await session.take_approved_turn(
        "Ask.",
        calls(("editor_definition", place)),
        calls(("editor_references", {**place, "include_declaration": True})),
        calls(("ask_user", question)),
        reply("Blue, then."),
    )


@case("FIELD:Completion*", since=CURRENT)
async def a_line_is_completed(session: ClientSession) -> None:
    """Request an inline completion."""
    place = {"line": 1, "character": 5}
    await request_result(
        session, "completion/inline", docText="x = \n", docVersion=3, position=place
    )


@case("FIELD:Rewrite*", "VALUE:Rewrite*", since=CURRENT)
async def a_text_is_rewritten(session: ClientSession) -> None:
    """Request the rewrite of a selection."""
    chat = session.chat(reply("y = 1"))
    params = {
        "id": "r1",
        "text": "x = 1",
        "prompt": chat.model.with_marker("Call it y."),
        "range": RANGE,
    }
    await request_result(session, "rewrite/prompt", **params)
    await session.until(
        lambda each: each.method == "rewrite/contentReceived" and "finished" in str(each.content),
        expected="the end of the rewrite",
    )
