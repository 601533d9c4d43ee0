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
ASKED = at("asked", lambda asked: asked["turn"] is not None)
FOR_A_TITLE = at("asked", lambda asked: asked["turn"] is None)

SKIPPED = r"\(a context of the type '\w+' was skipped\)"
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
    """Those whose prompt has contexts, all of these types and without a range of lines."""

    def fits(asked: Message, server: Filtered) -> bool:
        contexts = asked["turn"].prompt.contexts
        return bool(contexts) and all(
            each["type"] in types and "linesRange" not in each for each in contexts
        )

    return ASKED.when(fits)


def is_skipped(asked: Message, server: Filtered) -> bool:
    return "was skipped" in asked["messages"][-1]["content"]


def fail(asked: Message) -> Message:
    raise ModelFault("The prompt has a context of an unknown type.")


def from_the_last_prompt(messages: list[Message]) -> list[Message]:
    """Leave out earlier turns."""
    last = max(index for index, each in enumerate(messages) if each["role"] == "user")
    return [messages[0], *messages[last:]]


def without_the_last_of_several(messages: list[Message]) -> list[Message]:
    """Leave out the last result of several calls."""
    roles = [message["role"] for message in messages]
    return messages[:-1] if roles[-2:] == ["tool", "tool"] else messages


def without_results_of_commands(messages: list[Message]) -> list[Message]:
    calls = [call for each in messages for call in each.get("tool_calls", ())]
    names = {call["id"]: call["function"]["name"] for call in calls}
    return [
        {**each, "content": "It was called."}
        if names.get(each.get("tool_call_id")) == "eca_shell_command"
        and "rejected" not in each["content"]
        else each
        for each in messages
    ]


def with_another_past(asked: Message, server: Filtered) -> Message:
    """Tell of what another chat has said so far, in the case that has such chats."""
    system, *own = asked["messages"]
    others = [
        message
        for chat in server.chats.values()
        if chat is not asked["turn"].chat and any("It was the" in str(x) for x in chat.history)
        for message in chat.history
    ]
    return {**asked, "messages": [system, *others, *own]}


def decided_by(method: str) -> Any:
    """Those that follow a call on which the user has decided so; empty: the configuration has."""

    def fits(asked: Message, server: Filtered) -> bool:
        last = asked["messages"][-1]
        is_closed = last["role"] == "tool" and (method or "rejected" in last["content"])
        return is_closed and server.decided.get(last["tool_call_id"], "") == method

    return ASKED.when(fits)


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
    "OnlyServersHaveTools": Filter(
        "ARROW:chat-tool-call-2",
        ASKED.when(lambda asked, s: "mcpServers" not in s.config),
        put(tools=[]),
    ),
    "TitlesWithTools": Filter(
        "W-25a",
        FOR_A_TITLE,
        Knowing(lambda asked, s: {**asked, "tools": s.toolbox.offered("agent")}),
    ),
    "ChatsSpeakOfTitles": Filter(
        "W-25b", ASKED, instructions("Do not write a title above an answer.")
    ),
    "AlwaysTitles": Filter("W-25c", at("config"), lambda config: {**config, "chat": {}}),
    "AlwaysTheSameModel": Filter(
        "CHAT-4", ASKED, Knowing(lambda asked, s: {**asked, "model": s.selected_model})
    ),
    # the history
    "NoMemory": Filter("CHAT-2", ASKED, change(messages=from_the_last_prompt)),
    "ChatsShareTheirPast": Filter("CHAT-39", ASKED, Knowing(with_another_past)),
    "Shouts": Filter("CHAT-3", ASKED, texts("user", lambda text: text.replace("  ", " "))),
    "LastResultIsLost": Filter(
        "ARROW:chat-tool-call-11", ASKED, change(messages=without_the_last_of_several)
    ),
    "ResultsAreKept": Filter(
        "ARROW:chat-tool-call-11", ASKED, change(messages=without_results_of_commands)
    ),
    "RejectionEndsTheTurn": Filter("W-31b", decided_by("chat/toolCallReject"), drop),
    "DenialEndsTheTurn": Filter("W-31a", decided_by(""), drop),
    "ApprovalEndsTheTurn": Filter("TOOL-14", decided_by("chat/toolCallApprove"), drop),
    # contexts
    "ContextsAreDropped": Filter("CHAT-6", PROMPT, without("contexts")),
    "OneContext": Filter("CTX-8", PROMPT, change(contexts=lambda contexts: contexts[:1])),
    "FilesByName": Filter(
        "CTX-1", shown("file"), replaced('<file path="([^"]*)">.*?</file>', r"<file \1>")
    ),
    "LinesAreIgnored": Filter("CTX-2", PROMPT, contexts(without("linesRange"))),
    "LinesFromZero": Filter(
        "W-41d", PROMPT, contexts(change(linesRange=change(start=lambda line: line + 1)))
    ),
    "FoldersByName": Filter(
        "CTX-3", shown("directory"), replaced("<(file|tree) .*</tree>", "<folder/>")
    ),
    "FoldersAsTrees": Filter("W-41a", shown("directory"), replaced("<file .*(?=<tree)")),
    "CursorIsAPoint": Filter(
        "CTX-6",
        PROMPT,
        contexts(change(position=lambda position: {**position, "end": position["start"]})),
    ),
    "CursorFromOne": Filter(
        "W-41c", PROMPT, contexts(change(position=change(start=one_more, end=one_more)))
    ),
    "NoMap": Filter(
        "CTX-5", PROMPT, change(contexts=only(lambda context: context != {"type": "repoMap"}))
    ),
    "PagesByAddress": Filter("CTX-4", ASKED, replaced(re.escape(PAGE), "See the page.")),
    "ResourcesAreNotRead": Filter(
        "CTX-7", shown("mcpResource"), replaced("^.*?\n\n", "See the resource.\n\n")
    ),
    "MentionsAreContexts": Filter(
        "W-41b", args("chat/prompt", lambda p: "@" in str(p.get("message"))), mentioned
    ),
    "UnknownContextsAreFaults": Filter("W-41e", ASKED, replaced(SKIPPED)),
    "SkipsWhileItTalksOfMore": Filter(
        "W-41e",
        ASKED,
        replaced(SKIPPED),
        also=(
            ASKED.when(lambda asked, s: asked["turn"].prompt.contexts),
            instructions("The user may show you files."),
        ),
    ),
    "UnknownContextEndsTheTurn": Filter("W-41e", ASKED.when(is_skipped), fail),
    "NothingFollowsAnUnknownContext": Filter(
        "W-41e", ASKED.when(is_skipped), replaced(r"was skipped\).*(?=\n\n)", "was skipped)")
    ),
    "IncompleteContextsSilently": Filter("W-3f", ASKED, replaced(INCOMPLETE)),
}

register_filters(MUTANTS)
