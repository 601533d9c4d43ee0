"""Writes `tables.md`: what the code holds as data, as tables for people.

    python docs/generate.py

A test compares the file with the code, so it is never out of date.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import attrs
import draft_counterparts as counterparts

from eca_protocol.framing import FRAME_ERRORS
from eca_protocol.lifecycle import TRANSITIONS as LIFECYCLE
from eca_protocol.methods import ECA
from eca_protocol.outbox import WriteShape
from eca_protocol.revisions import EVER, Revision, Window
from eca_protocol.server.chat_states import TRANSITIONS as CHAT
from eca_protocol.testing.conformance.untestable import UNBOUND, UNTESTABLE
from eca_server.agent.mcp.states import TRANSITIONS as MCP_SERVER
from eca_server.client.profiles import CLIENTS, Display, Writing, profile_for

TARGET = Path(__file__).resolve().parent / "tables.md"

_DIRECTIONS = {
    "client_to_server": "client to server",
    "server_to_client": "server to client",
    "both": "both",
}


def text() -> str:
    """Return the whole file."""
    return f"""\
# Tables

Written by `docs/generate.py` from the tables that the code runs by.

## Methods

Dispatch, codec and strategies derive from this table.

{_methods()}

## The draft of June 2025

The draft has messages of its own. This table compares them with those of the other editions:

{_draft()}

Only the draft has:

{_draft_only()}

## Lifecycle

The treatment of a message, and the new state if it changes. A refused request is answered with
the code. A message that must wait continues when `initialize` is answered.

{_lifecycle()}

## A chat's turns

The reaction of a chat to an input, and the new state if it changes.

{_chat()}

## An MCP server

The new state of a configured server. A start of a stopping server takes effect when it has ended.

{_mcp_server()}

## What differs by client

The profile of each client by its `clientInfo.name`, and of Emacs of October 2025. [How an editor
sees this server](guides/plugins.md) gives the reasons.

{_clients()}

## Framing errors

After an error with "continues" the next message is read. After one with "ends" the answer, whose id
is null, is the last message.

{_faults()}

## What the conformance suite does not judge

Rows that no test from outside can judge:

{table(["row", "why"], sorted(UNTESTABLE.items()))}

Errors that a user may notice, and that no row forbids:

{table(["error", "why it is not judged"], UNBOUND.items())}
"""


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _methods() -> str:
    return table(
        ["method", "kind", "direction", "params", "result", "editions"],
        [
            [
                f"`{method.name}`",
                method.kind,
                _DIRECTIONS[method.direction],
                _type(method.params),
                _type(method.result) if method.kind == "request" else "",
                _editions(method.window),
            ]
            for method in ECA
        ],
    )


def _clients() -> str:
    assistant = {"chat": True, "chatCapabilities": {"askQuestion": True}}
    profiles = {
        "Emacs of 2025": profile_for({"clientInfo": {"name": "emacs"}}),
        **{
            name: profile_for(
                {"clientInfo": {"name": name}, "capabilities": {"codeAssistant": assistant}},
                Revision.CURRENT,
            )
            for name in (*CLIENTS, "others")
        },
    }
    traits = [_traits(profile) for profile in profiles.values()]
    return table(
        ["", *profiles],
        [[f"`{name}`", *(_trait(each[name]) for each in traits)] for name in traits[0]],
    )


def _traits(group: Any) -> dict[str, Any]:
    """Return the traits of a profile by name, those of its groups too."""
    traits: dict[str, Any] = {}
    for field in attrs.fields(type(group)):
        value = getattr(group, field.name)
        traits |= _traits(value) if isinstance(value, Writing | Display) else {field.name: value}
    return traits


def _trait(value: Any) -> str:
    if isinstance(value, WriteShape):
        pauses = f"{value.pause_after_answer * 1000:g}, {value.pause_between * 1000:g} ms"
        return f"{value.size} bytes; {pauses}{'; limited' * value.limits_values}"
    if isinstance(value, str):
        return f"`{value}`"
    if isinstance(value, tuple):
        return ", ".join(f"{part or 'all'}: {line}:{column}" for part, (line, column) in value)
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else f"{value:g}"


def _type(hint: Any) -> str:
    if hint is None:
        return "null"
    if isinstance(hint, type):
        return f"`{hint.__name__}`"
    return " or ".join(f"`{member.__name__}`" for member in hint.__args__)


def _editions(window: Window) -> str:
    if window == EVER:
        return "all"
    end = "" if window.until is Revision.CURRENT else f" to {window.until.value}"
    widened = f" (written in all: {window.ruling})" if window.ruling else ""
    return f"since {window.since.value}{end}{widened}"


def _draft() -> str:
    kinds = {
        "methods": counterparts.METHODS,
        "contents": counterparts.CONTENTS,
        "contexts": counterparts.CONTEXTS,
    }
    return table(
        ["", "in the other editions", "in the draft", "what becomes of it"],
        [
            [
                kind,
                ", ".join(f"`{name}`" for name in names),
                f"`{row.draft}`" if row.draft else "",
                row.note,
            ]
            for kind, rows in kinds.items()
            for row, names in groupby(rows, key=lambda name: rows[name])
        ],
    )


def _draft_only() -> str:
    return table(["in the draft", "what becomes of it"], map(list, counterparts.DRAFT_ONLY.items()))


def _lifecycle() -> str:
    rows = {
        state: {
            trigger: (
                f"{step.verdict.value} ({step.code})" if step.code else step.verdict.value,
                step.next or state,
            )
            for trigger, step in steps.items()
        }
        for state, steps in LIFECYCLE.items()
    }
    return _by_state(rows)


def _chat() -> str:
    rows = {
        state: {trigger.value: (action.value, next_) for trigger, (action, next_) in steps.items()}
        for state, steps in CHAT.items()
    }
    return _by_state(rows)


def _mcp_server() -> str:
    rows = {
        state: {trigger.value: next_.value for trigger, next_ in steps.items()}
        for state, steps in MCP_SERVER.items()
    }
    inputs = dict.fromkeys(trigger for steps in rows.values() for trigger in steps)
    return table(
        ["", *(state.value for state in rows)],
        [[trigger, *(rows[state].get(trigger, "") for state in rows)] for trigger in inputs],
    )


def _by_state(rows: Mapping[Any, Mapping[str, tuple[str, Any]]]) -> str:
    """One line an input, one column a state; empty where the input cannot come."""

    def cell(state: Any, trigger: str) -> str:
        if trigger not in rows[state]:
            return ""
        done, next_ = rows[state][trigger]
        return done if next_ is state else f"{done} → {next_.value}"

    inputs = dict.fromkeys(trigger for steps in rows.values() for trigger in steps)
    return table(
        ["", *(state.value for state in rows)],
        [[trigger, *(cell(state, trigger) for state in rows)] for trigger in inputs],
    )


def _faults() -> str:
    return table(
        ["fault", "the stream", "answered with", "expected"],
        [
            [
                kind.value,
                "ends" if verdict.fatal else "continues",
                str(verdict.code),
                verdict.expected,
            ]
            for kind, verdict in FRAME_ERRORS.items()
        ],
    )


if __name__ == "__main__":
    TARGET.write_text(text(), "utf-8")
