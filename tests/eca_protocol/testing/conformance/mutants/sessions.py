"""Mutants of a session: its start and end, configuration, MCP servers, queries, the editor."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from eca_protocol import platforms
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
    granted,
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
    return bool(server.config.get("mcpServers"))


def parent_is_dead(message: Message) -> bool:
    pid = message["params"].get("processId")
    return isinstance(pid, int) and not platforms.is_alive(pid)


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
    "LIFE-3: null": Filter(INITIALIZED, lambda _: None),
    "LIFE-3: a broken file": Filter(INITIALIZED.whole.when(has_broken_file), failed),
    "LIFE-3: a second server": Filter(
        INITIALIZED.whole.when(is_second), Knowing(lambda m, s: s.end(1) or failed(m))
    ),
    "LIFE-4": Filter(called("initialize").when(is_ready), instead(answered({}))),
    "LIFE-2": Filter(error(-32002), put(code=-32600)),
    "W-10b": Filter(
        called("initialize").when(lambda m, s: s.state == "new"),
        first(notified("$/showMessage", type="info", message="Hello.")),
    ),
    "W-10a": Filter(INITIALIZED, lambda _: {}),
    "W-10c": Filter(INITIALIZED.whole, delay(0.02)),
    "W-10d": Filter(
        called(REQUESTS.keys() - {"initialize"}).when(
            lambda m, s: s.state == "ready" and not s.is_introduced
        ),
        refuse("not initialized", -32002),
    ),
    "W-10e": Filter(called("initialize"), then({"jsonrpc": "2.0", "method": "initialized"})),
    "LIFE-14": Filter(
        at("written", method_of).when(
            lambda m, s: (
                method_of(s.receiving) == "initialized"
                and s.last.keys() - {"initialize", "initialized"}
            )
        ),
        drop,
    ),
    "LIFE-8": Filter(INITIALIZE, without("initializationOptions")),
    "W-14a": Filter(INITIALIZE, without("processId")),
    "W-14b": Filter(called("initialize", parent_is_dead), Knowing(lambda m, s: s.end(0) or m)),
    "W-14b: before its answer": Filter(
        called("initialize", parent_is_dead), Knowing(lambda m, s: s.end(0) or drop(m))
    ),
    "W-42a": Filter(
        INITIALIZE,
        change(clientInfo=change(name=lambda name: name.lower().replace("vscode", "anybody"))),
    ),
    "W-15a": Filter(INITIALIZE, change(workspaceFolders=only(is_plain))),
    "W-15c": Filter(args("initialize", lambda p: p.get("rootUri")), with_root_uri),
    "LIFE-18": Filter(result("shutdown"), lambda _: {}),
    "LIFE-22": Filter(error(-32600, "shut down").whole, granted({})),
    "LIFE-24": Filter(called("exit").when(lambda m, s: s.state == "shutdown"), drop),
    "W-13d": Filter(
        CODE.when(has_exit).when(lambda code, s: s.state == "shutdown"), lambda code: 3
    ),
    "W-13e": Filter(
        at("code", lambda code: code == 0).when(lambda code, s: not has_exit(code, s)),
        lambda code: 3,
    ),
    "W-13f": Filter(CODE.when(has_exit), lambda code: 0),
    "W-13h": Filter(at("code", lambda code: code > 128), lambda code: 1),
    # what it announces
    "W-11a": Filter(CONFIG, without("agents")),
    "W-11b": Filter(CONFIG, change(selectModel="nobody/nothing")),
    "W-21b": Filter(CONFIG, change(models=lambda models: [*models, "bare"])),
    "W-11g: a null in the chat": Filter(CONFIG, put(selectVariant=None)),
    "W-11g: a null beside the chat": Filter(params("config/updated"), put(completion=None)),
    "W-11g: a null in an update": Filter(
        called(SELECTIONS).when(is_ready), then(notified("config/updated", chat={"models": None}))
    ),
    "W-28b": Filter(
        NATIVE.whole.when(is_received(*SELECTIONS)),
        then(lambda m, s: notified("config/updated", chat={"selectBehavior": s.behavior})),
    ),
    "W-28a: the selected one": Filter(
        args(SELECTIONS), Knowing(lambda p, s: {"behavior": s.behavior})
    ),
    "W-28c": Filter(args(WITH_AGENTS), without("agent")),
    "CONF-3": Filter(params("config/updated").when(lambda m, s: s.receiving is None), drop),
    "CONF-6": Filter(GIVEN_CONFIG, without("welcomeMessage")),
    "W-11e": Filter(START_ENDS, drop),
    "W-11f": Filter(
        START_ENDS.whole.when(has_servers),
        hold(
            params(
                "tool/serverUpdated",
                type="mcp",
                test=lambda p: p["status"] in ("running", "failed", "disabled"),
            )
        ),
    ),
    "GEN-1": Filter(START_ENDS.whole, then(notified("$/showMessage", type="info", message=" "))),
    "FIELD:ShowMessageParams.message": Filter(
        MESSAGE, lambda m: {"type": m["type"], "text": m["message"]}
    ),
    "W-15d": Filter(at("written", lambda m: m.get("method") == "$/showMessage"), put(id="show")),
    "W-15b": Filter(
        params("$/showMessage", test=lambda m: m["message"].startswith("The folder")), drop
    ),
    # MCP servers and the list of tools
    "W-11d": Filter(
        NATIVE.whole.when(has_servers).when(is_received("initialized")),
        hold(params("tool/serverUpdated", type="mcp")),
    ),
    "W-33b": Filter(NATIVE.when(is_received(*SELECTIONS)), drop),
    "CONF-9": Filter(STARTING.when(is_received("initialized")), drop),
    "CONF-16": Filter(STARTING.when(is_received("mcp/startServer")), drop),
    "W-36f": Filter(called("mcp/startServer").when(has_status("starting", "running")), drop),
    "W-36e": Filter(called("mcp/startServer").when(has_status("disabled")), drop),
    "CONF-12": Filter(
        called("mcp/stopServer").when(runs),
        instead(shown("stopped")),
        also=(called("mcp/startServer").when(runs), instead(shown("starting"), shown("running"))),
    ),
    "CONF-15": Filter(
        called("mcp/startServer").when(has_status("stopped")), instead(shown("starting"))
    ),
    "CONF-13": Filter(params("tool/serverUpdated", status="stopped"), drop),
    "CONF-10": Filter(params("tool/serverUpdated", type="mcp", status="running"), put(tools=[])),
    "W-36d": Filter(
        params("$/showMessage", test=lambda m: m["message"].startswith("There is no MCP")), drop
    ),
    "W-36b": Filter(MESSAGE, change(message=lambda text: text.partition("log in")[0])),
    "W-36a": Filter(
        params("tool/serverUpdated", test=lambda p: p.get("command", "").startswith("http")),
        put(command="", args=[]),
    ),
    "W-11c": Filter(NATIVE, drop),
    "W-33a": Filter(NATIVE, put(name="eca")),
    "CONF-8": Filter(NATIVE, put(status="starting")),
    "W-35b": Filter(NATIVE, change(tools=lambda tools: [*tools, {**tools[0], "name": "eca_task"}])),
    "W-33f": Filter(
        NATIVE, change(tools=each(change(parameters=change(properties=without("new_content")))))
    ),
    "FIELD:ServerTool.description": Filter(SERVERS, change(tools=each(without("description")))),
    "CONF-11": Filter(SERVERS, change(tools=each(change(parameters=str)))),
    "W-37": Filter(at("model_request"), Knowing(own_names)),
    # queries
    "CHAT-25": Filter(CONTEXT_QUERY, change(query=blank)),
    "CHAT-26": Filter(CONTEXT_QUERY, without("contexts")),
    "W-40a": Filter(result("chat/queryContext"), change(contexts=lambda contexts: contexts[::-1])),
    "LIFE-10": Filter(
        result("chat/queryContext"),
        change(contexts=only(lambda context: context["type"] == "mcpResource")),
    ),
    "CHAT-24": Filter(
        result("chat/queryContext"),
        change(contexts=each(change(type=lambda kind: kind.replace("directory", "file")))),
    ),
    "CHAT-28: any query": Filter(args("chat/queryCommands"), change(query=blank)),
    "CHAT-28: no query": Filter(
        result("chat/queryCommands", lambda p: not p.get("query")), put(commands=[])
    ),
    "W-40b": Filter(COMMANDS.when(is_received("chat/queryCommands")), Knowing(with_named_commands)),
    "W-40d": Filter(COMMANDS, change(commands=each(change(arguments=each(without("required")))))),
    "W-40c": Filter(
        COMMANDS,
        change(commands=each(lambda c: {**c, "type": "skill"} if c["name"] == "help" else c)),
    ),
    "CHAT-31": Filter(COMMANDS, change(commands=only(lambda c: c["type"] == "native"))),
    "CHAT-27": Filter(COMMANDS, change(commands=each(put(description="")))),
    "CHAT-9": Filter(
        result("chat/queryCommands", lambda p: p.get("query") == "login"),
        change(commands=lambda commands: [*commands, LOGIN]),
        also=(at("model_request", lambda a: a["messages"][-1]["content"] == "cancel"), drop),
    ),
    "W-40e": Filter(result(QUERIES, lambda p: not p.get("chatId")), put(chatId="")),
    "CHAT-29": Filter(result(QUERIES), without("chatId")),
    # the editor
    "W-42d": Filter(
        INITIALIZE, change(capabilities=change(codeAssistant=put(editor={"diagnostics": True})))
    ),
    "EDIT-1": Filter(params("editor/getDiagnostics"), without("uri")),
    "EDIT-2": Filter(
        params("editor/getDiagnostics", test=lambda p: not p),
        Knowing(lambda p, s: {"uri": s.workspace.roots[0].as_uri()}),
    ),
    "W-42c": Filter(
        diagnostics(lambda m, s: s.client != "vscode"),
        each(change(range=change(start=line_before, end=line_before))),
    ),
    "W-42b": Filter(
        diagnostics(lambda m, s: True),
        only(lambda diagnostic: diagnostic.get("severity") in ("error", "warning", "info", "hint")),
    ),
}

register_filters(MUTANTS)
