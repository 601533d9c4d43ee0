"""Cases of what CURRENT has beyond the chat of October 2025: its messages, seen once each.

No sentence binds a server to more than their letters, and these are watched: a case brings a
message about, and a method that the server does not know makes its rows not applicable.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.bench import Bench
from eca_protocol.testing.conformance.cases import NotApplicable, Stuck, case
from eca_protocol.testing.conformance.chat_seat import ChatSeat
from eca_protocol.testing.conformance.seat import Seat
from eca_protocol.testing.conformance.server.mcp import is_so, program
from eca_protocol.testing.conformance.server.reading import at_gate, calls, params_of, result_of
from eca_protocol.testing.conformance.server.tools import approving, listed_tools
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
    "FIELD:ChatHistory*", since=CURRENT,
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
    since=CURRENT,
)
async def a_chat_is_named_and_marked(bench: Bench) -> None:
    """A title, a flag put on a prompt and taken away; then the chat is opened again."""
    async with bench.seat() as seat:
        chat = await talked(seat, reply("one"), reply("two"))
        marked = {"chatId": chat.id, "contentId": content_id(chat)}
        await asking(seat, "chat/update", chatId=chat.id, title="A name of mine", trust=False)
        await asking(seat, "chat/addFlag", **marked, text="here")
        await asking(seat, "chat/open", chatId=chat.id)
        await asking(seat, "chat/removeFlag", **marked)


@case("FIELD:ChatForkParams.*", since=CURRENT)
async def a_chat_is_forked(bench: Bench) -> None:
    """A copy of a chat up to its last prompt."""
    async with bench.seat(fresh=True) as seat:
        chat = await talked(seat, reply("one"), reply("two"))
        await asking(seat, "chat/fork", chatId=chat.id, contentId=content_id(chat))
        await seat.until(
            lambda message: message.get("method") == "chat/opened" and _other(message, chat),
            expected="chat/opened of the copy",
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
    "FIELD:WorkspaceDidChangeWorkspaceFoldersParams.*", since=CURRENT,
)  # fmt: skip
async def newer_clients_say_more(bench: Bench) -> None:
    """Selections for one chat, a prompt with all its members, and another folder."""
    async with bench.seat(fresh=True) as seat:
        chat = seat.chat(reply("I see."))
        of_chat = {"chatId": chat.id}
        await seat.tell("chat/selectedModelChanged", {**of_chat, "model": MODEL, "variant": "x"})
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


@case("FIELD:Job*", "VALUE:JobStatus=*", "FIELD:OutputLine.*", since=CURRENT)
async def jobs_are_listed(bench: Bench) -> None:
    """All jobs, and the output of one that there is not."""
    async with bench.seat() as seat:
        await asking(seat, "jobs/list")
        await seat.ask("jobs/readOutput", {"jobId": "job-none"})  # an error is an answer, too
        await asking(seat, "jobs/kill", jobId="job-none")


@case("FIELD:Job*", "VALUE:JobStatus=*", "FIELD:OutputLine.*", since=CURRENT, needs="native-tools")
async def jobs_run_end_and_are_killed(bench: Bench) -> None:
    """The model starts three commands in the background: one of them goes on, one fails."""
    async with bench.seat() as seat:
        shell = listed_tools(seat)[seat.tool("shell_command")]
        if "background" not in shell.get("parameters", {}).get("properties", {}):
            raise NotApplicable("no command runs in the background")
        commands = ("echo out; echo err >&2; sleep 60", "true", "false")
        made = [("shell_command", {"command": each, "background": "job"}) for each in commands]
        chat = seat.chat(calls(*made))
        await chat.prompt("Start them.")
        await approving(chat)
        for job in (await asking(seat, "jobs/list"))["jobs"]:
            await asking(seat, "jobs/readOutput", jobId=job["id"])
            await asking(seat, "jobs/kill", jobId=job["id"])
        await asking(seat, "jobs/list")
