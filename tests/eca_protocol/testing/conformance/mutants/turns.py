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
    new_content,
    params,
    put,
    refuse,
    result,
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


FINISH = new_content("system", type="progress", state="finished", text="")


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


def echo(message: Message, server: Filtered) -> Out:
    """Make the echo of a prompt."""
    text, id_ = message["params"]["message"], str(uuid.uuid4())
    return new_content("user", type="text", text=text, contentId=id_)(message, server)


def usage(message: Message, server: Filtered) -> Out:
    return new_content("system", **turn_of(message, server).usage())(message, server)


def promised(message: Message, server: Filtered) -> Out:
    """Make the answer to a prompt, of which nothing is done."""
    model = message["params"].get("model") or server.selected_model
    answer = {"chatId": chat_id_of(message), "model": model, "status": "prompting"}
    return Out({"jsonrpc": "2.0", "id": message["id"], "result": answer})


def forget_held(message: Message, server: Filtered) -> Message:
    """Drop the held messages of a chat."""
    server.held = [each for each in server.held if chat_id_of(each[0]) != chat_id_of(message)]
    return message


def in_bytes(text: Message) -> tuple[Message, ...]:
    """Cut a text between the bytes of a character."""
    data = text["text"].encode()
    cuts = (data[start : start + 3] for start in range(0, len(data), 3))
    return tuple({**text, "text": cut.decode("utf-8", "replace")} for cut in cuts)


def in_halves(text: Message) -> tuple[Message, ...]:
    """Cut a long text between the halves of a surrogate pair, as languages with UTF-16 may do."""
    before, pair, behind = text["text"].partition("\U0001f600")
    if not pair or len(before) < 20:
        return (text,)
    return {**text, "text": f"{before}\ufffd"}, {**text, "text": f"\ufffd{behind}"}


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
    "FIELD:ChatPromptResponse.model": Filter(PROMPT_ANSWER, without("model")),
    "CHAT-7": Filter(
        result("chat/prompt", lambda p: not p.get("model")), put(model="default/model")
    ),
    "W-21e": Filter(
        PROMPT_ANSWER.when(lambda m, s: not has_known_model(m, s)),
        Knowing(lambda answer, s: {**answer, "model": s.selected_model}),
    ),
    "W-21f": Filter(
        PROMPTED.when(lambda m, s: is_busy(m, s) and not has_known_model(m, s)),
        Knowing(lambda m, s: turn_of(m, s)._scope.cancel() or m),
    ),
    "W-21a": Filter(
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
    "W-22a": Filter(PROMPTED.when(is_busy), refuse("It is busy.", -32603)),
    "W-22b": Filter(PROMPTED.when(is_busy), first(echo)),
    "CHAT-8": Filter(PROMPT_ANSWER, put(status="login")),
    "W-21c: odd ids": Filter(
        args("chat/prompt", lambda p: not str(p.get("chatId")).isascii()), without("chatId")
    ),
    "W-28a: the prompt's": Filter(PROMPT, without("behavior", "agent")),
    # the order of contents
    "W-20a: the echo first": Filter(
        STARTED.whole.when(lambda m, s: not turn_of(m, s).calls), hold(ECHO)
    ),
    "W-20a: without a text": Filter(STARTED, put(text="")),
    "FIELD:ChatProgressContent.state": Filter(
        content("progress", text="Calling tool"), put(state="working")
    ),
    "W-20b: none": Filter(ECHO, drop),
    "W-20b: trimmed": Filter(ECHO, change(text=str.strip)),
    "W-20b: twice": Filter(ECHO, twice),
    "W-20c": Filter(
        ECHO.whole.when(is_received("chat/prompt")).when(lambda m, s: "id" in s.receiving),
        hold(PROMPT_ANSWER),
    ),
    "W-6c": Filter(ECHO, in_lossy_pieces),
    "W-20d: a text": Filter(FINISHED, put(text="Done")),
    "W-22e: not with calls": Filter(
        FINISHED.when(lambda m, s: has_called(m, s) and not turn_of(m, s).stopped), drop
    ),
    "W-22e: not for unknown models": Filter(
        FINISHED.when(lambda m, s: not has_known_model(m, s)), drop
    ),
    "W-22e: twice while a call waits": Filter(
        FINISHED.when(is_stopped).when(
            lambda m, s: any(not call._began for call in turn_of(m, s).calls)
        ),
        twice,
    ),
    "W-22e: again for a late decision": Filter(
        called(("chat/toolCallApprove", "chat/toolCallReject")).when(
            lambda m, s: turn_of(m, s) and not is_busy(m, s)
        ),
        then(FINISH),
    ),
    "CHAT-14": Filter(
        FINISHED.whole.when(lambda m, s: not turn_of(m, s).stopped),
        then(new_content("system", type="progress", state="running", text="Idle")),
    ),
    # the model's text and thoughts
    "CHAT-12: only at the end": Filter(
        TEXT.whole,
        hold(content("usage", "toolCallPrepare", "reasonStarted"), before=True),
        also=(STOPPED, Knowing(forget_held)),
    ),
    "ARROW:chat-tool-call-4": Filter(content("text", text="I look."), drop),
    "CHAT-12: a late piece is lost": Filter(
        TEXT.when(
            lambda m, s: (
                len(turn_of(m, s)._text) > 3000 and len(m["params"]["content"]["text"]) < 100
            )
        ),
        drop,
    ),
    "CHAT-12: within characters": Filter(TEXT, in_bytes),
    "CHAT-12: within surrogate pairs": Filter(TEXT, in_halves),
    "CHAT-11": Filter(
        params("chat/contentReceived", chatId="one of many: 1", role="assistant").when(
            lambda m, s: s.chats["one of many: 2"].turn
        ),
        put(chatId="one of many: 2"),
    ),
    "W-21d: not shown": Filter(
        SYSTEM_TEXT, lambda c: () if "conformance/" in c["text"] or "no model" in c["text"] else c
    ),
    "W-21d: skipped": Filter(
        at("event", lambda event: isinstance(event, dict) and "error" in event), drop
    ),
    "W-26d": Filter(SYSTEM_TEXT, change(text=lambda text: text.strip("\n"))),
    "CHAT-21": Filter(content("metadata"), drop),
    "W-26b": Filter(THOUGHT, drop),
    "CHAT-15": Filter(content("reasonText"), change(id=lambda id_: f"{id_}-text")),
    "FIELD:ChatReasonFinishedContent.totalTimeMs": Filter(THOUGHT, without("totalTimeMs")),
    "CHAT-16": Filter(THOUGHT, change(totalTimeMs=lambda took: -1 - took)),
    # usage
    "W-20d: no usage": Filter(USAGE, drop),
    "W-27e": Filter(USAGE.whole, hold(FINISHED)),
    "W-26a": Filter(USAGE.part("params"), put(role="assistant")),
    "FIELD:ChatUsageContent.sessionTokens": Filter(USAGE, change(sessionTokens=str)),
    "FIELD:ChatUsageContent.lastMessageCost": Filter(USAGE, change(lastMessageCost=float)),
    "W-27b": Filter(
        USAGE, change(lastMessageCost=dollars, messageCost=dollars, sessionCost=dollars)
    ),
    "W-27c": Filter(USAGE, change(limit=without("output"))),
    "W-27d": Filter(USAGE, without("messageCost")),
    "CHAT-19": Filter(USAGE, lambda c: change(sessionCost=c.get("lastMessageCost"))(c)),
    "CHAT-20": Filter(
        USAGE, change(limit=lambda limit: {"context": limit["output"], "output": limit["context"]})
    ),
    # stops
    "W-22d": Filter(SYSTEM_TEXT, lambda c: () if "Dropped by the stop" in c["text"] else c),
    "W-22f": Filter(
        called("chat/promptStop").when(lambda m, s: chat_id_of(m) and not is_busy(m, s)),
        first(FINISH),
    ),
    "W-23d": Filter(STOPPED, first(usage)),
    "W-23e": Filter(STOPPED, delay(0.8)),
    "W-23g": Filter(STOPPED, then(new_content("assistant", type="text", text="late"))),
    "CHAT-33": Filter(STOPPED, first(new_content("assistant", type="text", text="one more"))),
    "W-23a": Filter(called("chat/promptStop").when(is_silent), drop),
    "CHAT-34": Filter(
        PROMPTED.when(lambda m, s: (turn := turn_of(m, s)) and turn.stopped), instead(promised)
    ),
    # deletes
    "W-24a": Filter(
        called("chat/delete", lambda m: m["id"] != "delete")  # a case cancels that one
        .when(is_busy)
        .when(lambda m, s: s.client != "emacs"),
        then(FINISH),
    ),
    "CHAT-36": Filter(result("chat/delete"), lambda _: None),
    "W-24e": Filter(
        called("chat/delete").when(lambda m, s: chat_id_of(m) not in s.chats),
        refuse("params.chatId: expected a chat that there is"),
    ),
    "W-24c": Filter(
        args("initialize"),
        change(clientInfo=change(name=lambda name: name.lower().replace("emacs", "other"))),
    ),
}

register_filters(MUTANTS)
