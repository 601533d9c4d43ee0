"""The mutants that rewrite messages: a row for each, with the row that it breaks.

The name and the two columns behind it say what a mutant does: where it rewrites, and what.
"""

from typing import Any

from tests.eca_protocol.testing.conformance.mutants.filters import (
    CALLS,
    Filter,
    Filtered,
    args,
    called,
    change,
    content,
    drop,
    each,
    error,
    incoming,
    method_of,
    only,
    outgoing,
    params,
    put,
    refuse,
    result,
    twice,
    without,
)
from tests.eca_protocol.testing.conformance.mutants.registry import breaks, breaks_current
from tests.eca_protocol.testing.conformance.reference.connection import NOTIFICATIONS, REQUESTS
from tests.eca_protocol.testing.conformance.reference.current import CurrentServer
from tests.eca_protocol.testing.conformance.reference.server import Server

FINISHED = content("progress", state="finished")
ECHO = content("text", role="user")
TEXT = content("text", role="assistant")
SYSTEM_TEXT = content("text", role="system")
THOUGHT = content("reasonFinished")
CALL = content(*CALLS)
RUNNING = content("toolCallRunning")
CALLED = content("toolCalled")
REJECTED = content("toolCallRejected")
CHATS = result("chat/list")
INITIALIZE = args("initialize")
INITIALIZED = result("initialize")
CONTEXT_QUERY = args("chat/queryContext")
USAGE = content("usage")
CONFIG = params("config/updated", "chat")
MESSAGE = params("$/showMessage")
SERVERS = params("tool/serverUpdated")
NATIVE = params("tool/serverUpdated", type="native")
COMMANDS = result("chat/queryCommands")
PROMPT = args("chat/prompt")
PROMPT_ANSWER = result("chat/prompt")
WITH_AGENTS = ("chat/prompt", "chat/selectedBehaviorChanged", "chat/selectedAgentChanged")
QUERIES = ("chat/queryContext", "chat/queryCommands")


def has_odd_method(message: Any) -> bool:
    """Return whether the method of a message is no text."""
    return isinstance(message, dict) and not isinstance(message.get("method", ""), str)


def is_no_message(message: Any) -> bool:
    """Return whether a body is no message and no batch."""
    return message in ({}, {"jsonrpc": "2.0"}) or not isinstance(message, dict | list)


def in_bytes(text: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    """Cut a text between the bytes of a character."""
    data = text["text"].encode()
    cuts = (data[start : start + 3] for start in range(0, len(data), 3))
    return tuple({**text, "text": cut.decode("utf-8", "replace")} for cut in cuts)


def chat_capability(params: dict[str, Any]) -> Any:
    """Return the capability to chat, if the params of `initialize` have their usual types."""
    for name in ("capabilities", "codeAssistant", "chat"):
        params = params.get(name) if isinstance(params, dict) else None
    return params


def blank(query: Any) -> Any:
    return "" if isinstance(query, str) else query


def dollars(cost: str) -> str:
    return f"${cost}"


def prefixed(name: str) -> str:
    return f"eca_{name}"


OCTOBER = {
    # JSON-RPC
    "AnswersTwice": Filter("BASE-17", PROMPT_ANSWER, twice),
    "DeletesWithoutAnAnswer": Filter("BASE-17", result("chat/delete"), drop),
    "ErrorsWithoutText": Filter(
        "BASE-19", outgoing(lambda m: "error" in m), change(error=without("message"))
    ),
    "ResultAndError": Filter("W-2a", outgoing(lambda m: "result" in m), put(error=None)),
    "IdsAsText": Filter("W-2b", outgoing(lambda m: "method" not in m), change(id=str)),
    "NotificationsHaveANullId": Filter(
        "W-2d", outgoing(lambda m: m.get("method") == "$/progress"), put(id=None)
    ),
    "CancelledIsInternal": Filter("BASE-31", error(-32800), put(code=-32603)),
    "BadJSONIsInternal": Filter("BASE-23", error(-32700, "its end"), put(code=-32603)),
    "BadParamsAreInvalid": Filter("BASE-26", error(-32602), put(code=-32600)),
    "FieldIsNotNamed": Filter("BASE-32", error(-32602), put(message="Invalid params")),
    "EarlyRequestsAreInvalid": Filter("LIFE-2", error(-32002), put(code=-32600)),
    "RequestsNeedAnId": Filter("W-4a", called(REQUESTS, lambda m: "id" not in m), drop),
    "NotificationsHaveNoId": Filter(
        "W-4b", called(NOTIFICATIONS, lambda m: "id" in m), refuse("no such request", -32601)
    ),
    "AnyVersion": Filter("BASE-16", incoming(method_of), put(jsonrpc="2.0")),
    "OddMethodsAreUnknown": Filter(
        "BASE-21", incoming(has_odd_method), put(method="no such method")
    ),
    "AnyParams": Filter(
        "BASE-22",
        incoming(lambda m: method_of(m) and not isinstance(m.get("params"), dict | list)),
        put(params=None),
    ),
    "ScalarsAreNoJSON": Filter(
        "BASE-24", incoming(is_no_message), refuse("expected a message", -32700)
    ),
    "RunsBatches": Filter("BASE-28", incoming(lambda m: m and isinstance(m, list)), tuple),
    # params
    "EmptyArrayIsRefused": Filter(
        "W-3a", called("chat/queryCommands", lambda m: m.get("params") == []), refuse("params")
    ),
    "NullIsAWrongType": Filter(
        "W-3b",
        args("chat/queryContext", lambda p: p.get("chatId", 0) is None),
        refuse("params.chatId"),
    ),
    "QueryIsNeeded": Filter(
        "W-3c", args("chat/queryContext", lambda p: p.get("query") is None), refuse("params.query")
    ),
    "CapabilitiesAreBooleans": Filter(
        "W-3h",
        args("initialize", lambda p: isinstance(chat_capability(p), dict)),
        refuse("params.capabilities"),
    ),
    "UnknownKeysAreRefused": Filter(
        "W-3e",
        args("chat/queryContext", lambda p: p.keys() - {"query", "contexts", "chatId"}),
        refuse("params"),
    ),
    "IncompleteContextsAreFaults": Filter(
        "W-3f",
        args("chat/queryContext", lambda p: {"type": "cursor"} in (p.get("contexts") or ())),
        refuse("params.contexts"),
    ),
    # the session
    "InitializeIsNull": Filter("LIFE-3", INITIALIZED, lambda _: None),
    "NoWelcome": Filter("W-10a", INITIALIZED, lambda _: {}),
    "OptionsAreNotRead": Filter("LIFE-8", INITIALIZE, without("initializationOptions")),
    "OrphansLive": Filter("W-14a", INITIALIZE, without("processId")),
    "EverybodyCountsFromOne": Filter(
        "W-42a",
        INITIALIZE,
        change(clientInfo=change(name=lambda name: name.lower().replace("vscode", "anybody"))),
    ),
    "ShutdownIsAnObject": Filter("LIFE-18", result("shutdown"), lambda _: {}),
    "NoAgents": Filter("W-11a", CONFIG, without("agents")),
    "SelectsWhatIsNotListed": Filter("W-11b", CONFIG, change(selectModel="nobody/nothing")),
    "ModelsWithoutProvider": Filter(
        "W-21b", CONFIG, change(models=lambda models: [*models, "bare"])
    ),
    "NoVariantIsNull": Filter("W-11g", CONFIG, put(selectVariant=None)),
    "NullBesideTheChat": Filter("W-11g", params("config/updated"), put(completion=None)),
    "TaskIsNeverFinished": Filter("W-11e", params("$/progress", type="finish"), drop),
    "MessagesAreCalledText": Filter(
        "FIELD:ShowMessageParams.message",
        MESSAGE,
        lambda m: {"type": m["type"], "text": m["message"]},
    ),
    "MessagesAreRequests": Filter(
        "W-15d", outgoing(lambda m: m.get("method") == "$/showMessage"), put(id="show")
    ),
    "UnusableFoldersAreSilent": Filter(
        "W-15b", params("$/showMessage", test=lambda m: m["message"].startswith("The folder")), drop
    ),
    # MCP servers and the list of tools
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
    "ToolsWithoutDescription": Filter(
        "FIELD:ServerTool.description", SERVERS, change(tools=each(without("description")))
    ),
    "SchemasAsText": Filter("CONF-11", SERVERS, change(tools=each(change(parameters=str)))),
    "StopIsNotTold": Filter("CONF-13", params("tool/serverUpdated", status="stopped"), drop),
    "RunningWithoutTools": Filter(
        "CONF-10", params("tool/serverUpdated", type="mcp", status="running"), put(tools=[])
    ),
    # queries
    "QueriesFindEverything": Filter("CHAT-25", CONTEXT_QUERY, change(query=blank)),
    "KnownContextsAgain": Filter("CHAT-26", CONTEXT_QUERY, without("contexts")),
    "RootsLast": Filter(
        "W-40a", result("chat/queryContext"), change(contexts=lambda contexts: contexts[::-1])
    ),
    "AllCommands": Filter("CHAT-28", args("chat/queryCommands"), change(query=blank)),
    "BlankFindsNone": Filter(
        "CHAT-28", result("chat/queryCommands", lambda p: not p.get("query")), put(commands=[])
    ),
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
    "ChatIdAlways": Filter("W-40e", result(QUERIES, lambda p: not p.get("chatId")), put(chatId="")),
    "ChatIdNever": Filter("CHAT-29", result(QUERIES), without("chatId")),
    # prompts
    "AnswersWithoutModel": Filter(
        "FIELD:ChatPromptResponse.model", PROMPT_ANSWER, without("model")
    ),
    "NamesNoModelOfItsOwn": Filter(
        "CHAT-7", result("chat/prompt", lambda p: not p.get("model")), put(model="default/model")
    ),
    "LoginIsAsked": Filter("CHAT-8", PROMPT_ANSWER, put(status="login")),
    "OddChatsAreRenamed": Filter(
        "W-21c",
        args("chat/prompt", lambda p: not str(p.get("chatId")).isascii()),
        without("chatId"),
    ),
    "AgentsAreUnknown": Filter("W-28c", args(WITH_AGENTS), without("agent")),
    "BehaviourOfThePromptIsIgnored": Filter("W-28a", PROMPT, without("behavior", "agent")),
    "ContextsAreDropped": Filter("CHAT-6", PROMPT, without("contexts")),
    "OneContext": Filter("CTX-8", PROMPT, change(contexts=lambda contexts: contexts[:1])),
    "LinesAreIgnored": Filter("CTX-2", PROMPT, change(contexts=each(without("linesRange")))),
    "UriIsForgotten": Filter("EDIT-1", params("editor/getDiagnostics"), without("uri")),
    "DeafToRefusals": Filter("W-30f", args("chat/toolCallReject"), drop),
    "SessionsAreForgotten": Filter("TOOL-15", args("chat/toolCallApprove"), without("save")),
    # contents
    "StartsWithoutAWord": Filter(
        "W-20a", content("progress", text="Waiting for the model"), put(text="")
    ),
    "OddStates": Filter(
        "FIELD:ChatProgressContent.state",
        content("progress", text="Calling tool"),
        put(state="working"),
    ),
    "NoEcho": Filter("W-20b", ECHO, drop),
    "TrimsTheEcho": Filter("W-20b", ECHO, change(text=str.strip)),
    "EchoesTwice": Filter("W-20b", ECHO, twice),
    "LastWord": Filter("W-20d", FINISHED, put(text="Done")),
    "FinishesTwice": Filter("W-22e", FINISHED, twice),
    "SplitsUTF8": Filter("CHAT-12", TEXT, in_bytes),
    "FaultsAreSilent": Filter(
        "W-21d",
        SYSTEM_TEXT,
        lambda c: () if "conformance/" in c["text"] or "no model" in c["text"] else c,
    ),
    "SystemTextsStick": Filter("W-26d", SYSTEM_TEXT, change(text=lambda text: text.strip("\n"))),
    "TitlesStayHere": Filter("CHAT-21", content("metadata"), drop),
    "ThoughtsStayOpen": Filter("W-26b", THOUGHT, drop),
    "ThoughtsChangeTheirId": Filter(
        "CHAT-15", content("reasonText"), change(id=lambda id_: f"{id_}-text")
    ),
    "ThoughtsWithoutTime": Filter(
        "FIELD:ChatReasonFinishedContent.totalTimeMs", THOUGHT, without("totalTimeMs")
    ),
    "ThoughtsBackInTime": Filter("CHAT-16", THOUGHT, change(totalTimeMs=lambda took: -1 - took)),
    "NoUsage": Filter("W-20d", USAGE, drop),
    "UsageOfTheAssistant": Filter(
        "W-26a",
        params("chat/contentReceived", test=lambda p: p["content"]["type"] == "usage"),
        put(role="assistant"),
    ),
    "TokensAsText": Filter(
        "FIELD:ChatUsageContent.sessionTokens", USAGE, change(sessionTokens=str)
    ),
    "CostsAsNumbers": Filter(
        "FIELD:ChatUsageContent.lastMessageCost", USAGE, change(lastMessageCost=float)
    ),
    "CostsWithASign": Filter(
        "W-27b", USAGE, change(lastMessageCost=dollars, messageCost=dollars, sessionCost=dollars)
    ),
    "HalfALimit": Filter("W-27c", USAGE, change(limit=without("output"))),
    "OneCost": Filter("W-27d", USAGE, without("messageCost")),
    "SessionsCostOneTurn": Filter(
        "CHAT-19", USAGE, lambda c: change(sessionCost=c.get("lastMessageCost"))(c)
    ),
    "LimitsAreExchanged": Filter(
        "CHAT-20",
        USAGE,
        change(limit=lambda limit: {"context": limit["output"], "output": limit["context"]}),
    ),
    # tool calls
    "PreparedWithoutName": Filter("W-30b", content("toolCallPrepare"), put(name="")),
    "NobodyIsAsked": Filter("TOOL-4", content("toolCallRun"), put(manualApproval=False)),
    "NeverRunning": Filter("W-30a", RUNNING, drop),
    "RunningTwice": Filter("TOOL-5", RUNNING, twice),
    "RejectedTwice": Filter("TOOL-8", REJECTED, twice),
    "WrongReason": Filter("TOOL-9", REJECTED, put(reason="user-choice")),
    "OtherReasons": Filter("W-32b", REJECTED, put(reason="user")),
    "ArgumentsAsList": Filter(
        "W-32a", CALLED, change(arguments=lambda given: list(map(str, given.values())))
    ),
    "PrefixIsLeftAway": Filter("W-33c", CALL, change(name=lambda name: name.removeprefix("eca_"))),
    "EverythingIsNative": Filter("TOOL-10", CALL, put(origin="native")),
    "EveryServerIsOurs": Filter("TOOL-11", CALL, put(server="eca")),
    "ResultsWithAnEmptyServer": Filter("TOOL-11", CALLED, put(server="")),
    "ResultsWithoutServer": Filter(
        "FIELD:ChatToolCalledContent.server",
        content("toolCalled", origin="native"),
        without("server"),
    ),
    "NoSummary": Filter("TOOL-12", CALL, without("summary")),
    "RefusedEditsAreFine": Filter(
        "W-38b", content("toolCalled", name="eca_edit_file"), put(error=False)
    ),
    "TimeAsText": Filter(
        "FIELD:ChatToolCalledContent.totalTimeMs", CALLED, change(totalTimeMs="{} ms".format)
    ),
    "ChangeIsToldOnce": Filter(
        "W-35a", content("toolCallRunning", "toolCalled"), without("details")
    ),
    "NoLinesAreCounted": Filter("TOOL-13", CALL, change(details=put(linesAdded=0, linesRemoved=0))),
}

CURRENT = {
    "SaysNoVariant": Filter(
        "W-11h", CONFIG, lambda chat: {name: chat[name] for name in chat if chat[name] is not None}
    ),
    "JobsByOneKey": Filter("W-3g", args(("jobs/readOutput", "jobs/kill")), without("job-id")),
    "DeletesInSilence": Filter("W-24d", params("chat/deleted"), drop),
    "IdleStopsAreSilent": Filter("W-22g", params("chat/statusChanged"), drop),
    "ListsPrefixes": Filter("W-33d", NATIVE, change(tools=each(change(name=prefixed)))),
    "CallsWithPrefixes": Filter("W-33d", content(*CALLS, origin="native"), change(name=prefixed)),
    "NoLoginIsAFailure": Filter(
        "W-36c", params("tool/serverUpdated", status="requires-auth"), put(status="failed")
    ),
    "NeverMeta": Filter("W-44b", result("chat/open"), without("meta")),
    "UnknownJobsWereKilled": Filter("W-44c", result("jobs/readOutput"), put(status="killed")),
    "RelativePath": Filter(
        "FIELD:InitializeResponse.globalConfigPath",
        INITIALIZED,
        change(globalConfigPath="~/.config/eca/config.json"),
    ),
    "ListsRunningChats": Filter(
        "FIELD:ChatListResponse.chats",
        CHATS,
        change(chats=only(lambda chat: chat["status"] == "running" or "kind" in chat)),
    ),
    "EveryChatIsInline": Filter(
        "FIELD:ChatSummary.kind", CHATS, change(chats=each(put(kind="inline")))
    ),
    "NoChatIsInline": Filter("FIELD:ChatSummary.kind", CHATS, change(chats=each(without("kind")))),
    "NothingIsFound": Filter("FIELD:ChatOpenResponse.found", result("chat/open"), put(found=False)),
    "ForkIsNotNamed": Filter(
        "FIELD:ChatForkResponse.chatId", result("chat/fork"), without("chatId")
    ),
    "NoProviders": Filter(
        "FIELD:ProvidersListResult.providers", result("providers/list"), put(providers=[])
    ),
    "RemovesInSilence": Filter(
        "FIELD:ToolServerRemovedParams.name", params("tool/serverRemoved"), drop
    ),
    "ClearedWithoutMessages": Filter(
        "FIELD:ChatClearedParams.messages", params("chat/cleared"), put(messages=False)
    ),
    "UnknownModelsArePrompted": Filter(
        "W-21g", result(("chat/prompt", "chat/inlinePrompt")), put(status="prompting")
    ),
    "NoSummaryAtFirst": Filter("W-44d", content("toolCallPrepare"), without("summary")),
    "NoKeys": Filter("W-44e", CALL, change(details=change(commands=each(without("approvalKey"))))),
    "FirstPartAlone": Filter(
        "W-44e", CALL, change(details=change(commands=lambda parts: parts[:1]))
    ),
}

for _name, _row in OCTOBER.items():
    breaks(_row.breaks)(type(_name, (Filtered, Server), {"row": _row}))
for _name, _row in CURRENT.items():
    breaks_current(_row.breaks)(type(_name, (Filtered, CurrentServer), {"row": _row}))
