"""Mutants of what only CURRENT has."""

from typing import Any

from tests.eca_protocol.testing.conformance.mutants.filters import (
    CALLS,
    Filter,
    Filtered,
    Knowing,
    args,
    at,
    called,
    change,
    chat_id_of,
    content,
    drop,
    each,
    first,
    is_received,
    notified,
    only,
    params,
    put,
    result,
    said,
    turn_of,
    without,
)
from tests.eca_protocol.testing.conformance.mutants.registry import register_filters
from tests.eca_protocol.testing.conformance.mutants.turns import usage
from tests.eca_protocol.testing.conformance.reference.current import CurrentServer

Message = dict[str, Any]

INITIALIZED = result("initialize")
CONFIG = params("config/updated", "chat")
NATIVE = params("tool/serverUpdated", type="native")
ASKED = at("asked", lambda asked: asked["turn"] is not None)
CHATS = result("chat/list")
OPENED = result("chat/open")
FORKED = result("chat/fork")
CALL = content(*CALLS)
USAGE = content("usage")
FINISHED = content("progress", state="finished")
INLINE = "chat/inlinePrompt"


def prefixed(name: str) -> str:
    return f"eca_{name}"


def of_october(names: Any) -> Any:
    """Write the older name of an agent, or of each of a list."""
    if isinstance(names, list):
        return [*map(of_october, names)]
    return "agent" if names == "code" else names


def instructions(rewrite: Any) -> Any:
    """Rewrite the instructions of the model."""
    return change(
        messages=each(
            lambda m: {**m, "content": rewrite(m["content"])} if m["role"] == "system" else m
        )
    )


def results_of_rejections(request: Message, server: Filtered) -> Message:
    """Leave out what the model is told of the user's rejections."""
    rejected = {id_ for id_, method in server.decided.items() if method == "chat/toolCallReject"}
    return change(
        messages=each(lambda m: put(content="")(m) if m.get("tool_call_id") in rejected else m)
    )(request)


def given(name: str) -> Any:
    """Return a member of the params of the message that the server handles."""
    return lambda server: (server.receiving.get("params") or {}).get(name)


def with_given(name: str, own: str) -> Knowing:
    """Write a member of the request into the answer."""
    return Knowing(
        lambda answer, server: (
            {**answer, name: given(own)(server)} if given(own)(server) else answer
        )
    )


def has_called(message: Message, server: Filtered) -> bool:
    return any(each["role"] == "tool" for each in turn_of(message, server).chat.history)


def ends_with_a_call(message: Message, server: Filtered) -> bool:
    turn = turn_of(message, server)
    roles = [each["role"] for each in turn.chat.history]
    return not turn.stopped and roles[-1:] == ["tool"]


def at_the_end(params: Message, server: Filtered) -> Message:
    """Name the last content of the chat for a call that is named."""
    shown = [each for _, each in server.chats[params["chatId"]].shown]
    calls = [each["id"] for each in shown if each["type"] == "toolCalled"]
    last = [each["contentId"] for each in shown if "contentId" in each][-1]
    return {**params, "contentId": last} if params["contentId"] in calls else params


def shown_of_the_source(message: Message, server: Filtered) -> Any:
    source = server.chats[message["params"]["sourceChatId"]]
    opened = notified("chat/opened", chatId=chat_id_of(message))
    return [opened, *(said(role, **each)(message, server) for role, each in source.shown)]


MUTANTS = {
    # models, agents, tools
    "RelativePath": Filter(
        "FIELD:InitializeResponse.globalConfigPath",
        INITIALIZED,
        change(globalConfigPath="~/.config/eca/config.json"),
    ),
    "SaysNoVariant": Filter(
        "W-11h", CONFIG, lambda chat: {name: chat[name] for name in chat if chat[name] is not None}
    ),
    "SelectsStrangeVariants": Filter(
        "W-11h",
        CONFIG.when(is_received("chat/selectedModelChanged")),
        with_given("selectVariant", "variant"),
    ),
    "AgentIsNoCode": Filter(
        "W-28d",
        ASKED.when(lambda a, s: (s.last["chat/prompt"] or {}).get("agent") == "agent"),
        instructions(lambda text: text.replace("code", "agent")),
    ),
    "StrangeNamesMeanTheSelected": Filter(
        "W-28d", args("chat/prompt", lambda p: p.get("agent") == "build"), without("agent")
    ),
    "OlderNames": Filter(
        "W-28d",
        CONFIG,
        change(
            behaviors=of_october,
            agents=of_october,
            selectBehavior=of_october,
            selectAgent=of_october,
        ),
    ),
    "ListsPrefixes": Filter("W-33d", NATIVE, change(tools=each(change(name=prefixed)))),
    "CallsWithPrefixes": Filter("W-33d", content(*CALLS, origin="native"), change(name=prefixed)),
    "NoLoginIsAFailure": Filter(
        "W-36c", params("tool/serverUpdated", status="requires-auth"), put(status="failed")
    ),
    "NoProviders": Filter(
        "FIELD:ProvidersListResult.providers", result("providers/list"), put(providers=[])
    ),
    "RemovesInSilence": Filter(
        "FIELD:ToolServerRemovedParams.name", params("tool/serverRemoved"), drop
    ),
    "JobsByOneKey": Filter("W-3g", args(("jobs/readOutput", "jobs/kill")), without("job-id")),
    "UnknownJobsWereKilled": Filter("W-44c", result("jobs/readOutput"), put(status="killed")),
    "FilesByTheirBeginning": Filter(
        "FIELD:ChatQueryFilesResponse.files",
        result("chat/queryFiles"),
        Knowing(
            lambda answer, s: change(
                files=only(lambda file: file["path"].startswith(given("query")(s) or ""))
            )(answer)
        ),
    ),
    # turns and calls
    "UnknownModelsArePrompted": Filter(
        "W-21g", result(("chat/prompt", INLINE)), put(status="prompting")
    ),
    "UnknownStopsAreSilent": Filter(
        "W-22g", params("chat/statusChanged").when(lambda m, s: chat_id_of(m) not in s.chats), drop
    ),
    "GaugeSums": Filter(
        "W-27f", USAGE.when(has_called), change(sessionTokens=lambda tokens: tokens * 2)
    ),
    "GaugeMovesAtTheEnd": Filter(
        "W-27g",
        USAGE.when(lambda m, s: turn_of(m, s).calls),
        drop,
        also=(FINISHED.whole.when(ends_with_a_call), first(usage)),
    ),
    "RejectionIsKeptFromTheModel": Filter("W-31c", ASKED, Knowing(results_of_rejections)),
    "NoSummaryAtFirst": Filter("W-44d", content("toolCallPrepare"), without("summary")),
    "NoKeys": Filter("W-44e", CALL, change(details=change(commands=each(without("approvalKey"))))),
    "FirstPartAlone": Filter(
        "W-44e", CALL, change(details=change(commands=lambda parts: parts[:1]))
    ),
    "OneKeyForAll": Filter(
        "W-44e",
        CALL,
        change(
            details=change(
                commands=each(lambda part: {"approvalKey": "shell:sh", "remembered": False} | part)
            )
        ),
    ),
    # chats
    "DeletesInSilence": Filter("W-24d", params("chat/deleted"), drop),
    "ListsRunningChats": Filter(
        "FIELD:ChatListResponse.chats",
        CHATS,
        change(chats=only(lambda chat: chat["status"] == "running" or "kind" in chat)),
    ),
    "EveryChatIsInline": Filter(
        "FIELD:ChatSummary.kind", CHATS, change(chats=each(put(kind="inline")))
    ),
    "NoChatIsInline": Filter("FIELD:ChatSummary.kind", CHATS, change(chats=each(without("kind")))),
    "NothingIsFound": Filter("FIELD:ChatOpenResponse.found", OPENED, put(found=False)),
    "NeverMeta": Filter("W-44b", OPENED, without("meta")),
    "AlwaysMeta": Filter(
        "W-44b",
        OPENED,
        lambda answer: {
            "meta": {
                "total": 0,
                "returned": 0,
                "beforeCursor": None,
                "afterCursor": None,
                "compactionCursor": None,
            },
            **answer,
        },
    ),
    "OpensWithoutFlags": Filter("W-43d", content("flag").when(is_received("chat/open")), drop),
    "OpensWithoutAnswers": Filter(
        "W-43d", content("text", role="assistant").when(is_received("chat/open")), drop
    ),
    "CallsLoseTheirTime": Filter(
        "W-43d",
        content("toolCalled").when(lambda m, s: s.receiving is not None),
        put(totalTimeMs=7_777),
    ),
    "ForkIsNotNamed": Filter("FIELD:ChatForkResponse.chatId", FORKED, without("chatId")),
    "ForkNamesItsSource": Filter(
        "FIELD:ChatForkResponse.chatId", FORKED, with_given("chatId", "chatId")
    ),
    "ClearedWithoutMessages": Filter(
        "FIELD:ChatClearedParams.messages", params("chat/cleared"), put(messages=False)
    ),
    "InlineChatsAreRenamed": Filter("W-21c", result(INLINE), with_given("chatId", "sourceChatId")),
    "InlineChatsKnowNothing": Filter(
        "FIELD:ChatInlinePromptParams.sourceChatId", args(INLINE), without("sourceChatId")
    ),
    "InlineChatsShowTheOther": Filter(
        "FIELD:ChatInlinePromptParams.sourceChatId",
        called(INLINE, lambda m: m["params"].get("sourceChatId")),
        Knowing(lambda m, s: (*shown_of_the_source(m, s), m)),
    ),
    # flags
    "FlagsOfCallsComeLast": Filter("W-43a", args("chat/addFlag"), Knowing(at_the_end)),
    "RemovedFlagsStay": Filter(
        "W-43c", at("written", lambda m: "method" in m).when(is_received("chat/removeFlag")), drop
    ),
    "ClearsTwice": Filter(
        "W-43c",
        result(("chat/addFlag", "chat/removeFlag")).whole,
        first(lambda m, s: notified("chat/cleared", chatId=given("chatId")(s), messages=True)),
    ),
    "FlagsAreNotRemoved": Filter("W-43c", args("chat/removeFlag"), put(contentId="nothing")),
}

register_filters(MUTANTS, CurrentServer)
