"""Mutants of prompts and their contents, of stops and deletes, and of what a turn costs."""

import uuid
from typing import Any

from tests.eca_protocol.testing.conformance.mutants.filters import (
    Filter,
    Filtered,
    Knowing,
    Out,
    args,
    at,
    called,
    change,
    chat_id_of,
    content,
    delay,
    drop,
    first,
    hold,
    instead,
    is_busy,
    is_received,
    is_stopped,
    params,
    put,
    refuse,
    result,
    said,
    then,
    turn_of,
    twice,
    without,
)
from tests.eca_protocol.testing.conformance.mutants.registry import register_filters

Message = dict[str, Any]

PROMPT = args("chat/prompt")
PROMPTED = called("chat/prompt")
PROMPT_ANSWER = result("chat/prompt")
STARTED = content("progress", text="Waiting for the model")
ECHO = content("text", role="user")
TEXT = content("text", role="assistant")
SYSTEM_TEXT = content("text", role="system")
THOUGHT = content("reasonFinished")
USAGE = content("usage")
FINISHED = content("progress", state="finished")
STOPPED = FINISHED.whole.when(is_stopped)

CALLED = content("toolCallPrepare")

FINISH = said("system", type="progress", state="finished", text="")


def has_known_model(message: Message, server: Filtered) -> bool:
    """Return whether the prompt, the answer to one, or the turn of a content has a known model."""
    turn = turn_of(message, server)
    named = message.get("result") or message["params"]
    return (named.get("model") or turn.prompt.model) in server.models


def is_silent(message: Message, server: Filtered) -> bool:
    """Return whether a turn runs in which the model has not said anything."""
    turn = turn_of(message, server)
    return is_busy(message, server) and not (turn._text or turn._reasoning or turn.calls)


def has_called(message: Message, server: Filtered) -> bool:
    return any("tool_calls" in each for each in turn_of(message, server).chat.history)


def is_mixed(message: Message, server: Filtered) -> bool:
    """Return whether one of many chats speaks that run, and not the first of them."""
    running = [id_ for id_, chat in server.chats.items() if chat.turn and "one of" in id_]
    return len(running) > 20 and chat_id_of(message) in running[1:]


def in_the_name_of_the_first(params: Message, server: Filtered) -> Message:
    running = [id_ for id_, chat in server.chats.items() if chat.turn and "one of" in id_]
    return {**params, "chatId": running[0]}


def echo(message: Message, server: Filtered) -> Out:
    """Make the echo of a prompt."""
    text, id_ = message["params"]["message"], str(uuid.uuid4())
    return said("user", type="text", text=text, contentId=id_)(message, server)


def usage(message: Message, server: Filtered) -> Out:
    return said("system", **turn_of(message, server).usage())(message, server)


def promised(message: Message, server: Filtered) -> Out:
    """Make the answer to a prompt, of which nothing is done."""
    model = message["params"].get("model") or server.selected_model
    answer = {"chatId": chat_id_of(message), "model": model, "status": "prompting"}
    return Out({"jsonrpc": "2.0", "id": message["id"], "result": answer})


def in_bytes(text: Message) -> tuple[Message, ...]:
    """Cut a text between the bytes of a character."""
    data = text["text"].encode()
    cuts = (data[start : start + 3] for start in range(0, len(data), 3))
    return tuple({**text, "text": cut.decode("utf-8", "replace")} for cut in cuts)


def in_lossy_pieces(echo: Message) -> tuple[Message, ...]:
    """Cut a long echo in pieces, and lose a character between two."""
    text, id_ = echo["text"], echo["contentId"]
    starts = range(0, len(text), 4096)
    return tuple(
        {**echo, "text": text[start : start + 4095], "contentId": f"{id_}-{start}"}
        for start in starts
    )


def dollars(cost: str) -> str:
    return f"${cost}"


MUTANTS = {
    # prompts
    "AnswersWithoutModel": Filter(
        "FIELD:ChatPromptResponse.model", PROMPT_ANSWER, without("model")
    ),
    "NamesNoModelOfItsOwn": Filter(
        "CHAT-7", result("chat/prompt", lambda p: not p.get("model")), put(model="default/model")
    ),
    "AnotherModelIsTold": Filter(
        "W-21e",
        PROMPT_ANSWER.when(lambda m, s: not has_known_model(m, s)),
        Knowing(lambda answer, s: {**answer, "model": s.selected_model}),
    ),
    "UnknownModelsPushIn": Filter(
        "W-21f",
        PROMPTED.when(lambda m, s: is_busy(m, s) and not has_known_model(m, s)),
        Knowing(lambda m, s: turn_of(m, s)._scope.cancel() or m),
    ),
    "AnswersWithTheFirstWord": Filter(
        "W-21a",
        PROMPT_ANSWER.whole.when(lambda m, s: is_busy(m, s) and not s.chats[chat_id_of(m)].queue),
        hold(
            params(
                "chat/contentReceived",
                test=lambda p: (
                    p["role"] != "user"
                    and p["content"].get("state") != "running"
                    and p["content"]["type"] != "metadata"
                ),
            ),
            before=True,
        ),
    ),
    "BusyIsAFault": Filter("W-22a", PROMPTED.when(is_busy), refuse("It is busy.", -32603)),
    "EchoesWhatWaits": Filter("W-22b", PROMPTED.when(is_busy), first(echo)),
    "LoginIsAsked": Filter("CHAT-8", PROMPT_ANSWER, put(status="login")),
    "OddChatsAreRenamed": Filter(
        "W-21c",
        args("chat/prompt", lambda p: not str(p.get("chatId")).isascii()),
        without("chatId"),
    ),
    "BehaviourOfThePromptIsIgnored": Filter("W-28a", PROMPT, without("behavior", "agent")),
    # the order of contents
    "StartsWithTheEcho": Filter(
        "W-20a", STARTED.whole.when(lambda m, s: not turn_of(m, s).calls), hold(ECHO)
    ),
    "StartsWithoutAWord": Filter("W-20a", STARTED, put(text="")),
    "OddStates": Filter(
        "FIELD:ChatProgressContent.state",
        content("progress", text="Calling tool"),
        put(state="working"),
    ),
    "NoEcho": Filter("W-20b", ECHO, drop),
    "TrimsTheEcho": Filter("W-20b", ECHO, change(text=str.strip)),
    "EchoesTwice": Filter("W-20b", ECHO, twice),
    "EchoesBehindTheAnswer": Filter(
        "W-20c", ECHO.whole.when(is_received("chat/prompt")), hold(PROMPT_ANSWER)
    ),
    "EchoesLosePieces": Filter("W-6c", ECHO, in_lossy_pieces),
    "LastWord": Filter("W-20d", FINISHED, put(text="Done")),
    "NeverFinishes": Filter(
        "W-22e", FINISHED.when(lambda m, s: has_called(m, s) and not turn_of(m, s).stopped), drop
    ),
    "UnknownModelsHaveNoEnd": Filter(
        "W-22e", FINISHED.when(lambda m, s: not has_known_model(m, s)), drop
    ),
    "FinishesTwice": Filter("W-22e", FINISHED, twice),
    "WaitingCallEndsTwice": Filter(
        "W-22e",
        FINISHED.when(is_stopped).when(
            lambda m, s: any(not call._began for call in turn_of(m, s).calls)
        ),
        twice,
    ),
    "LateDecisionEndsTheTurn": Filter(
        "W-22e",
        called(("chat/toolCallApprove", "chat/toolCallReject")).when(
            lambda m, s: turn_of(m, s) and not is_busy(m, s)
        ),
        then(FINISH),
    ),
    "ProgressBehindTheEnd": Filter(
        "CHAT-14",
        FINISHED.whole.when(lambda m, s: not turn_of(m, s).stopped),
        then(said("system", type="progress", state="running", text="Idle")),
    ),
    # the model's text and thoughts
    "OnlyAtTheEnd": Filter(
        "CHAT-12",
        TEXT.whole,
        hold(content("usage", "progress", "toolCallPrepare", "reasonStarted"), before=True),
    ),
    "CallsSwallowSentences": Filter(
        "ARROW:chat-tool-call-4",
        TEXT.whole.when(lambda m, s: m["params"]["content"]["text"].endswith(".")),
        hold(content("text", "usage", "progress", "toolCallPrepare"), before=True, unless=CALLED),
    ),
    "LatePieceIsLost": Filter(
        "CHAT-12",
        TEXT.when(
            lambda m, s: (
                len(turn_of(m, s)._text) > 3000 and len(m["params"]["content"]["text"]) < 100
            )
        ),
        drop,
    ),
    "SplitsUTF8": Filter("CHAT-12", TEXT, in_bytes),
    "MixesChats": Filter(
        "CHAT-11", TEXT.when(is_mixed).part("params"), Knowing(in_the_name_of_the_first)
    ),
    "FaultsAreSilent": Filter(
        "W-21d",
        SYSTEM_TEXT,
        lambda c: () if "conformance/" in c["text"] or "no model" in c["text"] else c,
    ),
    "ErrorEventsAreSkipped": Filter(
        "W-21d", at("event", lambda event: isinstance(event, dict) and "error" in event), drop
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
    # usage
    "NoUsage": Filter("W-20d", USAGE, drop),
    "UsageAfterTheEnd": Filter("W-27e", USAGE.whole, hold(FINISHED)),
    "UsageOfTheAssistant": Filter("W-26a", USAGE.part("params"), put(role="assistant")),
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
    # stops
    "DroppedWordsAreLost": Filter(
        "W-22d", SYSTEM_TEXT, lambda c: () if "Dropped by the stop" in c["text"] else c
    ),
    "StopOfNothing": Filter(
        "W-22f",
        called("chat/promptStop").when(lambda m, s: chat_id_of(m) and not is_busy(m, s)),
        first(FINISH),
    ),
    "UsageAfterAStop": Filter("W-23d", STOPPED, first(usage)),
    "SlowStop": Filter("W-23e", STOPPED, delay(0.8)),
    "LateDelta": Filter("W-23g", STOPPED, then(said("assistant", type="text", text="late"))),
    "TalksOn": Filter("CHAT-33", STOPPED, first(said("assistant", type="text", text="one more"))),
    "DeafBeforeTheFirstWord": Filter("W-23a", called("chat/promptStop").when(is_silent), drop),
    "StoppedForGood": Filter(
        "CHAT-34",
        PROMPTED.when(lambda m, s: (turn := turn_of(m, s)) and turn.stopped),
        instead(promised),
    ),
    # deletes
    "DeletedChatsSpeak": Filter(
        "W-24a",
        called("chat/delete").when(is_busy).when(lambda m, s: s.client != "emacs"),
        then(FINISH),
    ),
    "DeleteIsNull": Filter("CHAT-36", result("chat/delete"), lambda _: None),
    "UnknownDeletesFail": Filter(
        "W-24e",
        called("chat/delete").when(lambda m, s: chat_id_of(m) not in s.chats),
        refuse("params.chatId: expected a chat that there is"),
    ),
    "DeletesAlike": Filter(
        "W-24c",
        args("initialize"),
        change(clientInfo=change(name=lambda name: name.lower().replace("emacs", "other"))),
    ),
}

register_filters(MUTANTS)
