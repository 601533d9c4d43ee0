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
    new_content,
    notified,
    only,
    params,
    put,
    result,
    turn_of,
    without,
)
from tests.eca_protocol.testing.conformance.mutants.registry import register_filters
from tests.eca_protocol.testing.conformance.mutants.requests import TURN_REQUEST, texts
from tests.eca_protocol.testing.conformance.mutants.turns import usage
from tests.eca_protocol.testing.conformance.reference.current import CurrentServer

Message = dict[str, Any]

INITIALIZED = result("initialize")
CONFIG = params("config/updated", "chat")
NATIVE = params("tool/serverUpdated", type="native")
CHATS = result("chat/list")
OPENED = result("chat/open")
FORKED = result("chat/fork")
CALL = content(*CALLS)
USAGE = content("usage")
FINISHED = content("progress", state="finished")
INLINE = "chat/inlinePrompt"


REJECTION = "The call was rejected."


def prefixed(name: str) -> str:
    return f"eca_{name}"


def of_october(names: Any) -> Any:
    """Write the older name of an agent, or of each of a list."""
    if isinstance(names, list):
        return [*map(of_october, names)]
    return "agent" if names == "code" else names


def request_param(name: str) -> Any:
    """Return a member of the params of the message that the server handles."""
    return lambda server: (server.receiving.get("params") or {}).get(name)


def with_given(name: str, own: str) -> Knowing:
    """Write a member of the request into the answer."""
    return Knowing(
        lambda answer, server: (
            {**answer, name: request_param(own)(server)} if request_param(own)(server) else answer
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
    return [opened, *(new_content(role, **each)(message, server) for role, each in source.shown)]


MUTANTS = {
    # models, agents, tools
    "FIELD:InitializeResponse.globalConfigPath": Filter(
        INITIALIZED, change(globalConfigPath="~/.config/eca/config.json")
    ),
    "W-11h: none": Filter(
        CONFIG, lambda chat: {name: chat[name] for name in chat if chat[name] is not None}
    ),
    "W-11h: an unknown one": Filter(
        CONFIG.when(is_received("chat/selectedModelChanged")),
        with_given("selectVariant", "variant"),
    ),
    "W-28d: agent": Filter(
        TURN_REQUEST.when(lambda a, s: (s.last["chat/prompt"] or {}).get("agent") == "agent"),
        texts("system", lambda text: text.replace("code", "agent")),
    ),
    "W-28d: build": Filter(
        args("chat/prompt", lambda p: p.get("agent") == "build"), without("agent")
    ),
    "W-28d: listed": Filter(
        CONFIG,
        change(
            behaviors=of_october,
            agents=of_october,
            selectBehavior=of_october,
            selectAgent=of_october,
        ),
    ),
    "W-33d: listed": Filter(NATIVE, change(tools=each(change(name=prefixed)))),
    "W-33d: called": Filter(content(*CALLS, origin="native"), change(name=prefixed)),
    "W-36c": Filter(params("tool/serverUpdated", status="requires-auth"), put(status="failed")),
    "FIELD:ProvidersListResult.providers": Filter(result("providers/list"), put(providers=[])),
    "FIELD:ToolServerRemovedParams.name": Filter(params("tool/serverRemoved"), drop),
    "W-3g": Filter(args(("jobs/readOutput", "jobs/kill")), without("job-id")),
    "W-44c": Filter(result("jobs/readOutput"), put(status="killed")),
    "FIELD:ChatQueryFilesResponse.files": Filter(
        result("chat/queryFiles"),
        Knowing(
            lambda answer, s: change(
                files=only(lambda file: file["path"].startswith(request_param("query")(s) or ""))
            )(answer)
        ),
    ),
    # turns and calls
    "W-21g": Filter(result(("chat/prompt", INLINE)), put(status="prompting")),
    "W-22g": Filter(
        params("chat/statusChanged").when(lambda m, s: chat_id_of(m) not in s.chats), drop
    ),
    "W-27f": Filter(USAGE.when(has_called), change(sessionTokens=lambda tokens: tokens * 2)),
    "W-27g": Filter(
        USAGE.when(lambda m, s: turn_of(m, s).calls),
        drop,
        also=(FINISHED.whole.when(ends_with_a_call), first(usage)),
    ),
    "W-31c": Filter(TURN_REQUEST, texts("tool", lambda text: text.replace(REJECTION, ""))),
    "W-44d": Filter(content("toolCallPrepare"), without("summary")),
    "W-44e: none": Filter(CALL, change(details=change(commands=each(without("approvalKey"))))),
    "W-44e: the first alone": Filter(
        CALL, change(details=change(commands=lambda parts: parts[:1]))
    ),
    "W-44e: hidden commands": Filter(
        CALL,
        change(
            details=change(
                commands=each(lambda part: {"approvalKey": "shell:sh", "remembered": False} | part)
            )
        ),
    ),
    # chats
    "W-24d": Filter(params("chat/deleted"), drop),
    "FIELD:ChatListResponse.chats": Filter(
        CHATS, change(chats=only(lambda chat: chat["status"] == "running" or "kind" in chat))
    ),
    "FIELD:ChatSummary.kind: always": Filter(CHATS, change(chats=each(put(kind="inline")))),
    "FIELD:ChatSummary.kind: never": Filter(CHATS, change(chats=each(without("kind")))),
    "FIELD:ChatOpenResponse.found": Filter(OPENED, put(found=False)),
    "W-44b: never": Filter(OPENED, without("meta")),
    "W-44b: always": Filter(
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
    "W-43d: flags": Filter(content("flag").when(is_received("chat/open")), drop),
    "W-43d: answers": Filter(
        content("text", role="assistant").when(is_received("chat/open")), drop
    ),
    "W-43d: the time of calls": Filter(
        content("toolCalled").when(lambda m, s: s.receiving is not None), put(totalTimeMs=7_777)
    ),
    "FIELD:ChatForkResponse.chatId: none": Filter(FORKED, without("chatId")),
    "FIELD:ChatForkResponse.chatId: the source's": Filter(FORKED, with_given("chatId", "chatId")),
    "FIELD:ChatClearedParams.messages": Filter(params("chat/cleared"), put(messages=False)),
    "W-21c: inline chats": Filter(result(INLINE), with_given("chatId", "sourceChatId")),
    "FIELD:ChatInlinePromptParams.sourceChatId: ignored": Filter(
        args(INLINE), without("sourceChatId")
    ),
    "FIELD:ChatInlinePromptParams.sourceChatId: shown": Filter(
        called(INLINE, lambda m: m["params"].get("sourceChatId")),
        Knowing(lambda m, s: (*shown_of_the_source(m, s), m)),
    ),
    # flags
    "W-43a": Filter(args("chat/addFlag"), Knowing(at_the_end)),
    "W-43c: not shown again": Filter(
        at("written", lambda m: "method" in m).when(is_received("chat/removeFlag")), drop
    ),
    "W-43c: cleared twice": Filter(
        result(("chat/addFlag", "chat/removeFlag")).whole,
        first(
            lambda m, s: notified("chat/cleared", chatId=request_param("chatId")(s), messages=True)
        ),
    ),
    "W-43c: not removed": Filter(args("chat/removeFlag"), put(contentId="nothing")),
}

register_filters(MUTANTS, CurrentServer)
