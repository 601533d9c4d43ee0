"""Mutants of what a model is asked: its instructions, the messages, their contexts, the tools."""

import re
from typing import Any

from eca_protocol.testing.conformance.model import PAGE
from tests.eca_protocol.testing.conformance.mutants.filters import (
    Filter,
    Filtered,
    Knowing,
    args,
    at,
    change,
    drop,
    each,
    only,
    put,
    without,
)
from tests.eca_protocol.testing.conformance.mutants.registry import register_filters
from tests.eca_protocol.testing.conformance.reference.model import ModelFault

Message = dict[str, Any]

PROMPT = args("chat/prompt")
TURN_REQUEST = at("model_request", lambda request: request["turn"] is not None)
FOR_A_TITLE = at("model_request", lambda request: request["turn"] is None)

SKIPPED = r"\(a context of the type '\w+' was skipped\)"
HERON = {"role": "user", "content": "It was the heron."}
"""A prompt of another chat, in a case with a heron and an otter."""
INCOMPLETE = r"\(a context of the type '\w+' lacks what it needs\)"


def texts(role: str, rewrite: Any) -> Any:
    """Rewrite the texts of a role."""
    return change(
        messages=each(lambda m: {**m, "content": rewrite(m["content"])} if m["role"] == role else m)
    )


def instructions(more: str) -> Any:
    return texts("system", lambda text: f"{text} {more}")


def replaced(pattern: str, by: str = "") -> Any:
    """Replace a pattern in what the user says and shows."""
    return texts("user", lambda text: re.sub(pattern, by, text, flags=re.DOTALL))


def shown(*types: str) -> Any:
    """Select the requests whose contexts all have these types, and no range of lines."""

    def fits(request: Message, server: Filtered) -> bool:
        contexts = request["turn"].prompt.contexts
        return bool(contexts) and all(
            each["type"] in types and "linesRange" not in each for each in contexts
        )

    return TURN_REQUEST.when(fits)


def is_skipped(request: Message, server: Filtered) -> bool:
    return "was skipped" in request["messages"][-1]["content"]


def fail(request: Message) -> Message:
    raise ModelFault("The prompt has a context of an unknown type.")


def from_the_last_prompt(messages: list[Message]) -> list[Message]:
    """Leave out earlier turns."""
    last = max(index for index, each in enumerate(messages) if each["role"] == "user")
    return [messages[0], *messages[last:]]


def without_the_last_of_several(messages: list[Message]) -> list[Message]:
    """Leave out the last result of several calls."""
    roles = [message["role"] for message in messages]
    return messages[:-1] if roles[-2:] == ["tool", "tool"] else messages


def decided_by(method: str) -> Any:
    """Select the requests behind a call that the user has decided so; empty: the configuration."""

    def fits(request: Message, server: Filtered) -> bool:
        last = request["messages"][-1]
        is_closed = last["role"] == "tool" and (method or "rejected" in last["content"])
        return is_closed and server.decided.get(last["tool_call_id"], "") == method

    return TURN_REQUEST.when(fits)


def mentioned(params: Message) -> Message:
    """Add the files whose paths a prompt mentions to its contexts."""
    paths = [word[1:] for word in params["message"].split() if word.startswith("@")]
    files = [{"type": "file", "path": path} for path in paths]
    return {**params, "contexts": [*(params.get("contexts") or []), *files]}


def contexts(rewrite: Any) -> Any:
    """Rewrite each context of a prompt."""
    return change(contexts=each(rewrite))


def one_more(place: Message) -> Message:
    return {name: number + 1 for name, number in place.items()}


MUTANTS = {
    # tools and instructions
    "ARROW:chat-tool-call-2": Filter(
        TURN_REQUEST.when(lambda request, s: "mcpServers" not in s.config), put(tools=[])
    ),
    "W-25a": Filter(
        FOR_A_TITLE, Knowing(lambda request, s: {**request, "tools": s.toolbox.offered("agent")})
    ),
    "W-25b": Filter(TURN_REQUEST, instructions("Do not write a title above an answer.")),
    "W-25c": Filter(at("config"), lambda config: {**config, "chat": {}}),
    "CHAT-4": Filter(
        TURN_REQUEST, Knowing(lambda request, s: {**request, "model": s.selected_model})
    ),
    # the history
    "CHAT-2": Filter(TURN_REQUEST, change(messages=from_the_last_prompt)),
    "CHAT-39": Filter(
        at("model_request", lambda request: "otter" in str(request["messages"])),
        change(messages=lambda messages: [*messages[:1], HERON, *messages[1:]]),
    ),
    "CHAT-3": Filter(TURN_REQUEST, texts("user", lambda text: text.replace("  ", " "))),
    "ARROW:chat-tool-call-11: the last is lost": Filter(
        TURN_REQUEST, change(messages=without_the_last_of_several)
    ),
    "ARROW:chat-tool-call-11: commands": Filter(
        TURN_REQUEST, texts("tool", lambda text: text.replace("made it", "done"))
    ),
    "W-31b": Filter(decided_by("chat/toolCallReject"), drop),
    "W-31a": Filter(decided_by(""), drop),
    "TOOL-14": Filter(decided_by("chat/toolCallApprove"), drop),
    # contexts
    "CHAT-6": Filter(PROMPT, without("contexts")),
    "CTX-8": Filter(PROMPT, change(contexts=lambda contexts: contexts[:1])),
    "CTX-1": Filter(shown("file"), replaced('<file path="([^"]*)">.*?</file>', r"<file \1>")),
    "CTX-2": Filter(PROMPT, contexts(without("linesRange"))),
    "W-41d": Filter(PROMPT, contexts(change(linesRange=change(start=lambda line: line + 1)))),
    "CTX-3": Filter(shown("directory"), replaced("<(file|tree) .*</tree>", "<folder/>")),
    "W-41a": Filter(shown("directory"), replaced("<file .*(?=<tree)")),
    "CTX-6": Filter(
        PROMPT, contexts(change(position=lambda position: {**position, "end": position["start"]}))
    ),
    "W-41c": Filter(PROMPT, contexts(change(position=change(start=one_more, end=one_more)))),
    "CTX-5": Filter(PROMPT, change(contexts=only(lambda context: context != {"type": "repoMap"}))),
    "CTX-4": Filter(TURN_REQUEST, replaced(re.escape(PAGE), "See the page.")),
    "CTX-7": Filter(shown("mcpResource"), replaced("^.*?\n\n", "See the resource.\n\n")),
    "W-41b": Filter(args("chat/prompt", lambda p: "@" in str(p.get("message"))), mentioned),
    "W-41e: no note": Filter(TURN_REQUEST, replaced(SKIPPED)),
    "W-41e: no note, but other words": Filter(
        TURN_REQUEST,
        replaced(SKIPPED),
        also=(
            TURN_REQUEST.when(lambda request, s: request["turn"].prompt.contexts),
            instructions("The user may show you files."),
        ),
    ),
    "W-41e: the turn ends": Filter(TURN_REQUEST.when(is_skipped), fail),
    "W-41e: the rest is skipped, too": Filter(
        TURN_REQUEST.when(is_skipped), replaced(r"was skipped\).*(?=\n\n)", "was skipped)")
    ),
    "W-3f: without a note": Filter(TURN_REQUEST, replaced(INCOMPLETE)),
}

register_filters(MUTANTS)
