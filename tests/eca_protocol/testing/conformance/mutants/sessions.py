"""Mutants of a session's start and end, its configuration, MCP servers, queries and the editor."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from tests.eca_protocol.testing.conformance.mutants.filters import (
    Filter,
    Filtered,
    Knowing,
    answered,
    args,
    at,
    called,
    change,
    delay,
    drop,
    each,
    error,
    first,
    hold,
    instead,
    is_received,
    method_of,
    notified,
    only,
    params,
    put,
    refuse,
    result,
    then,
    without,
)
from tests.eca_protocol.testing.conformance.mutants.registry import register_filters
from tests.eca_protocol.testing.conformance.reference.connection import REQUESTS
from tests.eca_protocol.testing.conformance.reference.server import is_alive

Message = dict[str, Any]

INITIALIZE = args("initialize")
INITIALIZED = result("initialize")
CODE = at("code")
GIVEN_CONFIG = at("config")
CONFIG = params("config/updated", "chat")
MESSAGE = params("$/showMessage")
START_ENDS = params("$/progress", type="finish")
SERVERS = params("tool/serverUpdated")
STARTING = params("tool/serverUpdated", status="starting")
NATIVE = params("tool/serverUpdated", type="native")
CONTEXT_QUERY = args("chat/queryContext")
COMMANDS = result("chat/queryCommands")
QUERIES = ("chat/queryContext", "chat/queryCommands")
SELECTIONS = ("chat/selectedBehaviorChanged", "chat/selectedAgentChanged")
LOGIN = {"name": "login", "description": "Log in.", "type": "native", "arguments": []}
WITH_AGENTS = ("chat/prompt", *SELECTIONS)


def blank(query: Any) -> Any:
    return "" if isinstance(query, str) else query


def is_plain(folder: Any) -> bool:
    """Return whether the URI of a folder is the same when it is decoded."""
    uri = str(folder.get("uri")) if isinstance(folder, dict) else ""
    return unquote(uri) == uri


def is_ready(message: Any, server: Filtered) -> bool:
    return server.state == "ready"


def has_exit(code: int, server: Filtered) -> bool:
    return "exit" in server.last


def has_servers(message: Any, server: Filtered) -> bool:
    return "mcpServers" in server.config


def parent_is_dead(message: Message) -> bool:
    pid = message["params"].get("processId")
    return isinstance(pid, int) and not is_alive(pid)


def has_broken_file(message: Any, server: Filtered) -> bool:
    file = server.workspace.resolve(".eca/config.json")
    try:
        json.loads(file.read_bytes() if file.exists() else b"{}")
    except ValueError:
        return True
    return False


def failed(answer: Message) -> Message:
    """Turn an answer into an error."""
    error = {"code": -32603, "message": "It does not start."}
    return {"jsonrpc": "2.0", "id": answer["id"], "error": error}


RUNNING: dict[Path, Filtered] = {}
"""The last server in each workspace."""


def is_second(message: Any, server: Filtered) -> bool:
    """Return whether another server runs in the same workspace."""
    [root] = server.workspace.roots
    other = RUNNING.setdefault(root, server)
    if other.exit_code is not None:
        other = RUNNING[root] = server
    return other is not server


def mcp_server_of(message: Message, server: Filtered) -> Any:
    """Return the MCP server that a message names, or None."""
    return server.mcp._servers.get((message.get("params") or {}).get("name"))


def has_status(*statuses: str) -> Any:
    """Make a test of the status of the MCP server that a message names."""
    return lambda m, server: getattr(mcp_server_of(m, server), "status", "") in statuses


def runs(message: Message, server: Filtered) -> bool:
    """Return whether the process of the MCP server runs that a message names."""
    return getattr(mcp_server_of(message, server), "_child", None) is not None


def shown(status: str) -> Any:
    """Make the announcement of a status of the MCP server that a message names."""
    return lambda m, server: notified(
        "tool/serverUpdated", **mcp_server_of(m, server).announced(status)
    )


def own_names(request: Message, server: Filtered) -> Message:
    """Offer the tools of MCP servers under the names that the servers gave them."""
    own = {tool.offered_name: tool.name for tool in server.mcp.tools}
    rename = change(function=change(name=lambda name: own.get(name, name)))
    return change(tools=each(rename))(request)


def with_root_uri(params: Message) -> Message:
    folders = params.get("workspaceFolders") or []
    return {**params, "workspaceFolders": [*folders, {"uri": params["rootUri"], "name": "root"}]}


def with_files_alone(result: Message, server: Filtered) -> Message:
    """Call every directory below a root a file."""
    roots = [str(root) for root in server.workspace.roots]
    kinds = change(type=lambda kind: "file" if kind == "directory" else kind)
    return change(contexts=each(lambda c: c if c["path"] in roots else kinds(c)))(result)


def with_named_commands(result: Message, server: Filtered) -> Message:
    """Leave the commands whose name has the query."""
    query = str((server.receiving.get("params") or {}).get("query") or "").strip().lower()
    return change(commands=only(lambda command: query in command["name"].lower()))(result)


def has_diagnostics(message: Any) -> bool:
    result = message.get("result") if isinstance(message, dict) else None
    return isinstance(result, dict) and isinstance(result.get("diagnostics"), list)


def diagnostics(test: Any) -> Any:
    """The diagnostics in an answer of the editor."""
    return at("received", has_diagnostics).when(test).part("result", "diagnostics")


def line_before(place: Message) -> Message:
    return {**place, "line": place["line"] - 1}


MUTANTS = {
    # start and end
    "InitializeIsNull": Filter("LIFE-3", INITIALIZED, lambda _: None),
    "BrokenFilePreventsTheStart": Filter("LIFE-3", INITIALIZED.whole.when(has_broken_file), failed),
    "OneServerInAHome": Filter(
        "LIFE-3", INITIALIZED.whole.when(is_second), Knowing(lambda m, s: s.end(1) or failed(m))
    ),
    "InitializeAgain": Filter("LIFE-4", called("initialize").when(is_ready), instead(answered({}))),
    "EarlyRequestsAreInvalid": Filter("LIFE-2", error(-32002), put(code=-32600)),
    "SpeaksFirst": Filter(
        "W-10b",
        called("initialize").when(lambda m, s: s.state == "new"),
        first(notified("$/showMessage", type="info", message="Hello.")),
    ),
    "NoWelcome": Filter("W-10a", INITIALIZED, lambda _: {}),
    "InitializeIsOvertaken": Filter("W-10c", INITIALIZED.whole, delay(0.02)),
    "WaitsForInitialized": Filter(
        "W-10d",
        called(REQUESTS.keys() - {"initialize"}).when(
            lambda m, s: s.state == "ready" and not s.is_introduced
        ),
        refuse("not initialized", -32002),
    ),
    "IntroducedTooSoon": Filter(
        "W-10e", called("initialize"), then({"jsonrpc": "2.0", "method": "initialized"})
    ),
    "TellsNothingTheEarly": Filter(
        "LIFE-14",
        at("written", method_of).when(
            lambda m, s: (
                method_of(s.receiving) == "initialized"
                and s.last.keys() - {"initialize", "initialized"}
            )
        ),
        drop,
    ),
    "OptionsAreNotRead": Filter("LIFE-8", INITIALIZE, without("initializationOptions")),
    "OrphansLive": Filter("W-14a", INITIALIZE, without("processId")),
    "UnseenParentsAreGone": Filter(
        "W-14b", called("initialize", parent_is_dead), Knowing(lambda m, s: s.end(0) or m)
    ),
    "EverybodyCountsFromOne": Filter(
        "W-42a",
        INITIALIZE,
        change(clientInfo=change(name=lambda name: name.lower().replace("vscode", "anybody"))),
    ),
    "URIsArePaths": Filter("W-15a", INITIALIZE, change(workspaceFolders=only(is_plain))),
    "RootsOfTheirOwn": Filter(
        "W-15c", args("initialize", lambda p: p.get("rootUri")), with_root_uri
    ),
    "ShutdownIsAnObject": Filter("LIFE-18", result("shutdown"), lambda _: {}),
    "ServesAfterShutdown": Filter(
        "LIFE-22",
        error(-32600, "shut down").whole,
        lambda m: {"jsonrpc": "2.0", "id": m["id"], "result": {}},
    ),
    "ExitIsIgnored": Filter(
        "LIFE-24", called("exit").when(lambda m, s: s.state == "shutdown"), drop
    ),
    "ExitsWithThree": Filter(
        "W-13d", CODE.when(has_exit).when(lambda code, s: s.state == "shutdown"), lambda code: 3
    ),
    "EndOfInputIsAFault": Filter(
        "W-13e",
        at("code", lambda code: code == 0).when(lambda code, s: not has_exit(code, s)),
        lambda code: 3,
    ),
    "ExitAloneIsFine": Filter("W-13f", CODE.when(has_exit), lambda code: 0),
    "SignalsAreFaults": Filter("W-13h", at("code", lambda code: code > 128), lambda code: 1),
    # what it announces
    "NoAgents": Filter("W-11a", CONFIG, without("agents")),
    "SelectsWhatIsNotListed": Filter("W-11b", CONFIG, change(selectModel="nobody/nothing")),
    "ModelsWithoutProvider": Filter(
        "W-21b", CONFIG, change(models=lambda models: [*models, "bare"])
    ),
    "NoVariantIsNull": Filter("W-11g", CONFIG, put(selectVariant=None)),
    "NullBesideTheChat": Filter("W-11g", params("config/updated"), put(completion=None)),
    "NullInAnUpdate": Filter(
        "W-11g",
        called(SELECTIONS).when(is_ready),
        then(notified("config/updated", chat={"models": None})),
    ),
    "BehaviourIsSentBack": Filter(
        "W-28b",
        called(SELECTIONS).when(is_ready),
        then(lambda m, s: notified("config/updated", chat={"selectBehavior": s.behavior})),
    ),
    "SelectionIsForgotten": Filter(
        "W-28a", args(SELECTIONS), Knowing(lambda p, s: {"behavior": s.behavior})
    ),
    "AgentsAreUnknown": Filter("W-28c", args(WITH_AGENTS), without("agent")),
    "ChangesAreNotSeen": Filter(
        "CONF-3", params("config/updated").when(lambda m, s: s.receiving is None), drop
    ),
    "OneWelcome": Filter("CONF-6", GIVEN_CONFIG, without("welcomeMessage")),
    "TaskIsNeverFinished": Filter("W-11e", START_ENDS, drop),
    "StartWaitsForServers": Filter(
        "W-11f",
        START_ENDS.whole.when(has_servers),
        hold(
            params(
                "tool/serverUpdated",
                type="mcp",
                test=lambda p: p["status"] in ("running", "failed", "disabled"),
            )
        ),
    ),
    "EmptyMessages": Filter(
        "GEN-1", START_ENDS.whole, then(notified("$/showMessage", type="info", message=" "))
    ),
    "MessagesAreCalledText": Filter(
        "FIELD:ShowMessageParams.message",
        MESSAGE,
        lambda m: {"type": m["type"], "text": m["message"]},
    ),
    "MessagesAreRequests": Filter(
        "W-15d", at("written", lambda m: m.get("method") == "$/showMessage"), put(id="show")
    ),
    "UnusableFoldersAreSilent": Filter(
        "W-15b", params("$/showMessage", test=lambda m: m["message"].startswith("The folder")), drop
    ),
    # MCP servers and the list of tools
    "ServersComeFirst": Filter(
        "W-11d",
        NATIVE.whole.when(has_servers).when(is_received("initialized")),
        hold(params("tool/serverUpdated", type="mcp")),
    ),
    "ListIsNotSentAgain": Filter("W-33b", NATIVE.when(is_received(*SELECTIONS)), drop),
    "FirstStartIsNotTold": Filter("CONF-9", STARTING.when(is_received("initialized")), drop),
    "RestartIsNotTold": Filter("CONF-16", STARTING.when(is_received("mcp/startServer")), drop),
    "SameStatusIsSilent": Filter(
        "W-36f", called("mcp/startServer").when(has_status("starting", "running")), drop
    ),
    "DisabledStaysSo": Filter(
        "W-36e", called("mcp/startServer").when(has_status("disabled")), drop
    ),
    "StopLeavesTheProcess": Filter(
        "CONF-12",
        called("mcp/stopServer").when(runs),
        instead(shown("stopped")),
        also=(called("mcp/startServer").when(runs), instead(shown("starting"), shown("running"))),
    ),
    "StoppedForEver": Filter(
        "CONF-15", called("mcp/startServer").when(has_status("stopped")), instead(shown("starting"))
    ),
    "StopIsNotTold": Filter("CONF-13", params("tool/serverUpdated", status="stopped"), drop),
    "RunningWithoutTools": Filter(
        "CONF-10", params("tool/serverUpdated", type="mcp", status="running"), put(tools=[])
    ),
    "UnknownServersAreSilent": Filter(
        "W-36d",
        params("$/showMessage", test=lambda m: m["message"].startswith("There is no MCP")),
        drop,
    ),
    "LoginsAreNotNamed": Filter(
        "W-36b", MESSAGE, change(message=lambda text: text.partition("log in")[0])
    ),
    "URLsAreHidden": Filter(
        "W-36a",
        params("tool/serverUpdated", test=lambda p: p.get("command", "").startswith("http")),
        put(command="", args=[]),
    ),
    "NativeServerIsNotShown": Filter("W-11c", NATIVE, drop),
    "NativeServerIsCalledSo": Filter("W-33a", NATIVE, put(name="eca")),
    "NativeServerStarts": Filter("CONF-8", NATIVE, put(status="starting")),
    "ToolCalledTask": Filter(
        "W-35b", NATIVE, change(tools=lambda tools: [*tools, {**tools[0], "name": "eca_task"}])
    ),
    "OtherParameters": Filter(
        "W-33f",
        NATIVE,
        change(tools=each(change(parameters=change(properties=without("new_content"))))),
    ),
    "ToolsWithoutDescription": Filter(
        "FIELD:ServerTool.description", SERVERS, change(tools=each(without("description")))
    ),
    "SchemasAsText": Filter("CONF-11", SERVERS, change(tools=each(change(parameters=str)))),
    "ToolsByTheirOwnName": Filter("W-37", at("asked"), Knowing(own_names)),
    # queries
    "QueriesFindEverything": Filter("CHAT-25", CONTEXT_QUERY, change(query=blank)),
    "KnownContextsAgain": Filter("CHAT-26", CONTEXT_QUERY, without("contexts")),
    "RootsLast": Filter(
        "W-40a", result("chat/queryContext"), change(contexts=lambda contexts: contexts[::-1])
    ),
    "RootsAreNotRead": Filter(
        "LIFE-10",
        result("chat/queryContext"),
        change(contexts=only(lambda context: context["type"] == "mcpResource")),
    ),
    "FoldersAreFiles": Filter("CHAT-24", result("chat/queryContext"), Knowing(with_files_alone)),
    "AllCommands": Filter("CHAT-28", args("chat/queryCommands"), change(query=blank)),
    "BlankFindsNone": Filter(
        "CHAT-28", result("chat/queryCommands", lambda p: not p.get("query")), put(commands=[])
    ),
    "CommandsByName": Filter("W-40b", COMMANDS, Knowing(with_named_commands)),
    "RequiredIsLeftAway": Filter(
        "W-40d", COMMANDS, change(commands=each(change(arguments=each(without("required")))))
    ),
    "CommandsOfTheirOwnKind": Filter(
        "W-40c",
        COMMANDS,
        change(commands=each(lambda c: {**c, "type": "skill"} if c["name"] == "help" else c)),
    ),
    "NoPromptsOfServers": Filter(
        "CHAT-31", COMMANDS, change(commands=only(lambda c: c["type"] == "native"))
    ),
    "CommandsWithoutWords": Filter("CHAT-27", COMMANDS, change(commands=each(put(description="")))),
    "LoginsAreLikeAnyPrompt": Filter(
        "CHAT-9",
        result("chat/queryCommands", lambda p: p.get("query") == "login"),
        change(commands=lambda commands: [*commands, LOGIN]),
        also=(at("asked", lambda a: a["messages"][-1]["content"] == "cancel"), drop),
    ),
    "ChatIdAlways": Filter("W-40e", result(QUERIES, lambda p: not p.get("chatId")), put(chatId="")),
    "ChatIdNever": Filter("CHAT-29", result(QUERIES), without("chatId")),
    # the editor
    "AsksEveryEditor": Filter(
        "W-42d",
        INITIALIZE,
        change(capabilities=change(codeAssistant=put(editor={"diagnostics": True}))),
    ),
    "UriIsForgotten": Filter("EDIT-1", params("editor/getDiagnostics"), without("uri")),
    "AlwaysOneFile": Filter(
        "EDIT-2",
        params("editor/getDiagnostics", test=lambda p: not p),
        Knowing(lambda p, s: {"uri": s.workspace.roots[0].as_uri()}),
    ),
    "PositionsFromZero": Filter(
        "W-42c",
        diagnostics(lambda m, s: s.client != "vscode"),
        each(change(range=change(start=line_before, end=line_before))),
    ),
    "FourSeverities": Filter(
        "W-42b",
        diagnostics(lambda m, s: True),
        only(lambda found: found.get("severity") in ("error", "warning", "info", "hint")),
    ),
}

register_filters(MUTANTS)
