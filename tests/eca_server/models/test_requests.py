"""Requests of all APIs: the same histories, tools and limits in, as each API wants them."""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_server.models import history as h
from eca_server.models.backend import Request
from eca_server.models.encoding import encoded
from eca_server.models.openai_chat.profiles import PROFILES as CHAT_PROFILES
from eca_server.models.openai_responses.profiles import PROFILES as RESPONSES_PROFILES
from tests.eca_server.models import histories
from tests.eca_server.models.anthropic.scripted import citation
from tests.eca_server.models.every_api import each_api
from tests.eca_server.models.google.scripted import SIGNED
from tests.eca_server.models.grammars import GRAMMARS, read_history
from tests.eca_server.models.histories import (
    OURS,
    PICTURE,
    THEIRS,
    file,
    histories_with,
    model,
    tool,
    tool_call,
    tool_result,
    user,
)
from tests.eca_server.models.reading import PICTURE_DATA, TOOL, backend_of, write

PDF, PLAIN_TEXT, ZIP = "application/pdf", "text/plain", "application/zip"
SEARCH = {"type": "server_tool_use", "id": "secret", "name": "web_search", "input": {}}
RESULT = {"type": "web_search_tool_result", "tool_use_id": "secret", "content": []}
CITED = {"type": "text", "text": "a", "citations": [citation("https://secret.example", "A")]}
SEARCHED = h.ServerToolPart(kind="web_search", raw=RESULT)
THOUGHT = h.ReasoningPart(text="hm", opaque={"signature": "secret"})
COMMON_PARTS = st.sampled_from(
    [PICTURE, h.RefusalPart("no"), *(file("f", kind, b"f") for kind in (PLAIN_TEXT, PDF, ZIP))]
)
OWN = {
    "anthropic": st.sampled_from(
        [
            THOUGHT,
            h.ReasoningPart(opaque={"signature": "secret"}),
            h.ReasoningPart(opaque={"data": "secret"}, redacted=True),
            h.ReasoningPart(text="hm"),
            h.BlockPart(raw=SEARCH),
            SEARCHED,
            h.BlockPart(raw=CITED),
        ]
    ),
    "google": st.sampled_from(
        [
            h.ReasoningPart(text="hm"),
            h.ReasoningPart(opaque={"part": {"thoughtSignature": "c2VjcmV0"}}),
            h.BlockPart(raw={"part": {"text": "b", **SIGNED}}),
            h.BlockPart(raw={"part": {"text": "", **SIGNED}}),
            h.BlockPart(raw={"picture": SIGNED}),
            h.BlockPart(raw={"secret": 1}),
            h.ServerToolPart(kind="web_search", raw={"secret": 1}),
            tool_call("d", "9f", provider_id="p", opaque={"part": SIGNED}),
        ]
    ),
    "openai-responses": st.builds(
        lambda number, secret: h.ReasoningPart(
            opaque={"type": "reasoning", "id": f"rs_{number}", "summary": [], **secret}
        ),
        st.integers(0, 3),
        st.sampled_from([{"encrypted_content": "secret"}, {}, {"encrypted_content": ""}]),
    )
    | st.builds(
        lambda part, provider_id: attrs.evolve(part, provider_id=provider_id, opaque=None),
        histories.calls,
        st.sampled_from([None, "", "call_1", "call_1", "a", "x" * 65, "functions.f:0"]),
    )
    | st.sampled_from(
        [
            h.BlockPart(raw={"type": "message", "phase": "commentary"}),
            h.BlockPart(raw={"type": "message"}),
            h.BlockPart(raw={"type": "program", "id": "p", "code": "secret"}),
            h.ServerToolPart(kind="web_search", raw={"type": "web_search_call", "id": "secret"}),
            h.ServerToolPart(kind="web_search", raw=None),
        ]
    ),
}
"""Parts of an API's own answers, with its secrets."""

EDGES = {
    "anthropic": [
        model(THOUGHT, "a", PICTURE, THOUGHT, THOUGHT),
        user(),
        model("a", h.BlockPart(raw=SEARCH)),
        user(),
        model("a", SEARCHED, interrupted=True),
    ]
}
CHAT_OWN = histories.thoughts | histories.others
HISTORIES = {
    api: histories_with(OWN.get(api, CHAT_OWN) | COMMON_PARTS)
    | st.just([user(), *EDGES.get(api, [model(tool_call()), tool(tool_result())])])
    for api in GRAMMARS
}
VARIANTS: Mapping[str, list[tuple[dict[str, Any], dict[str, bool]]]] = {
    "openai-chat": [
        ({"server": name}, {"short_ids": CHAT_PROFILES[name].short_call_ids})
        for name in CHAT_PROFILES
    ],
    "openai-responses": [
        ({"server": name}, {"typed": RESPONSES_PROFILES[name].typed_messages})
        for name in RESPONSES_PROFILES
    ],
    "anthropic": [({"web_search": True}, {})],
    "google": [({"model": "gemini-2.5-pro"}, {"signs": False})],
    "ollama": [({"calls_tools": False}, {"tools": False})],
}
"""Settings of a backend, and what its requests differ in from the API's usual grammar."""


@each_api
@given(st.data())
def test_every_history_is_written_as_a_strict_server_wants_it(api, data):
    history = data.draw(HISTORIES[api.name])
    options, rules = data.draw(st.sampled_from([({}, {}), *VARIANTS[api.name]]))
    images, tools = data.draw(st.booleans()), data.draw(st.sampled_from([(), (TOOL,)]))
    payload = write(api.name, *history, **options, images=images, system="s", tools=tools)
    GRAMMARS[api.name](payload, **rules)
    text, is_own = json.dumps(payload), any(message.origin == OURS for message in history)
    if not is_own:
        for secret in ("secret", "theirs", SIGNED["thoughtSignature"]):
            assert secret not in text
    if not (images or (is_own and api.name == "google")):  # it gets its own pictures back
        assert PICTURE_DATA not in text


@pytest.mark.long(but=2)
@each_api
@given(st.data())
def test_a_longer_history_is_written_as_if_new(api, data):
    start = data.draw(HISTORIES[api.name])
    rests = data.draw(st.lists(HISTORIES[api.name], min_size=1, max_size=2))
    backend = backend_of(api.name)
    for rest in (*rests, rests[0]):
        history = start + rest
        for length in range(len(history) + 1):
            request = Request(messages=history[:length])
            again, new = (each.payload(request) for each in (backend, backend_of(api.name)))
            assert encoded(again) == encoded(new)


@each_api
def test_a_request_costs_the_same_however_many_calls_its_history_has(api):
    assert steps(api.name, calls=20) == steps(api.name, calls=200)


def steps(api: str, calls: int) -> int:
    """Count the calls of functions for one request of a chat with so many calls before."""
    backend, history = backend_of(api), [user()]
    events: list[str] = []
    for number in range(calls + 1):
        history += model(tool_call(str(number))), tool(tool_result(str(number)))
        events.clear()
        sys.setprofile(lambda _frame, event, _arg: events.append(event))
        try:
            backend.payload(Request(messages=[*history]))
        finally:
            sys.setprofile(None)
    return sum(event.endswith("call") for event in events)


ONE = {"raw": '{"n":1}', "arguments": {"n": 1}}
FOREIGN = [
    user(),
    model(
        h.ReasoningPart(text="secret", opaque={"type": "reasoning", "signature": "secret"}),
        "Said \n",
        h.ServerToolPart(kind="web_search", raw={"type": "web_search_call", "id": "secret"}),
        PICTURE,
        h.BlockPart(raw={"type": "message", "phase": "secret"}),
        tool_call("c", provider_id="secret", opaque={"caller": "secret", "part": SIGNED}, **ONE),
        origin=THEIRS,
    ),
    tool(tool_result("c", "no", is_error=True)),
]
PARALLEL = [
    user(),
    model(tool_call("a", "one", provider_id="p1", **ONE), tool_call("b", "two", provider_id="p2")),
    tool(tool_result("b", "boom", PICTURE, is_error=True), tool_result("a", "r", PICTURE)),
    user("and?"),
]
FILES = user(
    "See",
    PICTURE,
    file("a.pdf", "application/pdf", b"%PDF"),
    file("b.md", "text/markdown", b"# B"),
    file("c.txt", "text/plain", b" "),
    file("d.zip", "application/zip", b"z"),
)
CALLS = [["Hello"], ["one{'n': 1}", "two{}"]]
INSIDE = [["one: r, <image/png>", "two failed: boom, <image/png>"], ["and?"]]
IN_NEXT, AFTER = "[shown in the next message]", "[shown after the results]"
PICTURES = ["<image/png>", "<image/png>", "and?"]
CANNOT = "[file {} omitted: its type cannot be read{}]"
NO_PDF = CANNOT.format("a.pdf", " (application/pdf)")
NO_BLANK, NO_ZIP = (
    CANNOT.format("c.txt", " (text/plain)"),
    CANNOT.format("d.zip", " (application/zip)"),
)
SEE = ["See", "<image/png>"]
IMAGE = "[image generated by you]"

SENT = {
    "openai-chat": [
        [f"Said \n[used web_search]{IMAGE}", "f{'n': 1}"],
        [[f"one: r\n{IN_NEXT}", f"two failed: boom\n{IN_NEXT}"], PICTURES],
        [*SEE, NO_PDF, "b.md:\n\n# B", "c.txt:\n\n ", NO_ZIP],
    ],
    "openai-responses": [
        [f"Said \n[used web_search]{IMAGE}", "f{'n': 1}"],
        [[f"one: r\n\n{AFTER}", f"two failed: boom\n\n{AFTER}"], PICTURES],
        [*SEE, *(f"<{kind}>" for kind in (PDF, "text/markdown", "text/plain", ZIP))],
    ],
    "anthropic": [
        ["Said", "[used web_search]", IMAGE, "f{'n': 1}"],
        [["one: r, <image/png>", f"two failed: boom, {AFTER}"], PICTURES[1:]],
        [*SEE, f"<{PDF}>", "<text/plain>", NO_BLANK, NO_ZIP],
    ],
    "google": [
        ["Said \n", "[used web_search]", IMAGE, "f{'n': 1}"],
        INSIDE,
        [
            *SEE,
            *("The file a.pdf:", f"<{PDF}>", "The file b.md:\n\n# B", "The file c.txt:\n\n "),
            CANNOT.format("d.zip", ""),
        ],
    ],
    "ollama": [
        [f"Said \n[used web_search]{IMAGE}", "f{'n': 1}"],
        INSIDE,
        [f"See\n\n{NO_PDF}\n\nb.md:\n\n# B\n\n{NO_BLANK}\n\n{NO_ZIP}", "<image/png>"],
    ],
}
"""Outlines of a foreign answer, of the results of parallel calls, and of the user's files."""


def outline(history: Sequence[h.Message]) -> list[list[str]]:
    """Return each message as texts; a call has its name, as its result has."""
    names: dict[str, str] = {}

    def words(part: Any) -> str:
        match part:
            case h.TextPart(text):
                return text
            case h.ToolCallPart():
                names[part.id] = part.name
                return f"{part.name}{part.arguments}"
            case h.ToolResultPart():
                outcome = " failed" if part.is_error else ""
                return f"{names[part.call_id]}{outcome}: {', '.join(map(words, part.parts))}"
        return f"<{part.media_type}>"

    return [[*map(words, message.parts)] for message in history]


@each_api
def test_each_api_is_sent_what_it_can_read(api):
    answer, results, files = SENT[api.name]
    for history, expected in (
        (FOREIGN, [["Hello"], answer, ["f failed: no"]]),
        (PARALLEL, [["Hello"], ["one{'n': 1}", "two{}"], *results]),
        ([FILES], [files]),
    ):
        payload = write(api.name, *history, system="s", tools=[TOOL])
        assert outline(read_history(api.name, payload)) == expected


HELLO = {"role": "user", "content": "Hello"}
DECLARED = {"name": "f", "description": "d", "parameters": {"type": "object"}}
FUNCTION = {"type": "function", "function": DECLARED}
SYSTEM = {"role": "system", "content": "Be."}
MARKED = {"cache_control": {"type": "ephemeral"}}
BODIES = {
    "openai-chat": {
        "model": "m",
        "messages": [SYSTEM, HELLO],
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [FUNCTION],
        "max_tokens": 9,
    },
    "openai-responses": {
        "model": "m",
        "input": [HELLO],
        "stream": True,
        "store": False,
        "instructions": "Be.",
        "tools": [{"type": "function", **DECLARED, "strict": False}],
        "max_output_tokens": 9,
    },
    "anthropic": {
        "model": "m",
        "max_tokens": 9,
        "stream": True,
        "tools": [{"name": "f", "description": "d", "input_schema": {"type": "object"}, **MARKED}],
        "system": [{"type": "text", "text": "Be.", **MARKED}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hello", **MARKED}]}],
    },
    "google": {
        "systemInstruction": {"parts": [{"text": "Be."}]},
        "tools": [{"functionDeclarations": [{"name": "f", "description": "d"}]}],
        "generationConfig": {"maxOutputTokens": 9, "thinkingConfig": {"includeThoughts": True}},
        "contents": [{"role": "user", "parts": [{"text": "Hello"}]}],
    },
    "ollama": {
        "model": "m",
        "messages": [SYSTEM, HELLO],
        "stream": True,
        "truncate": False,
        "shift": False,
        "options": {"num_ctx": 16_384, "num_predict": 9},
        "tools": [FUNCTION],
    },
}


PLAIN = {
    "openai-chat": {"model", "messages", "stream", "stream_options"},
    "openai-responses": {"model", "input", "stream", "store"},
    "anthropic": {"model", "messages", "stream", "max_tokens"},
    "google": {"contents", "generationConfig"},
    "ollama": {"model", "messages", "stream", "truncate", "shift", "options"},
}


@each_api
def test_a_request_has_what_was_asked_for_and_nothing_else(api):
    payload = write(api.name, user(), system="Be.", tools=[TOOL], max_output_tokens=9)
    assert payload == BODIES[api.name]
    assert write(api.name, user(), system=" ").keys() == PLAIN[api.name]


SHOWN = {"type": "adaptive", "display": "summarized"}
DISABLED = {"type": "disabled"}
REASONING_BACK = {"include": ["reasoning.encrypted_content"]}


def thinking(effort: str | None = None, kind: Any = SHOWN) -> dict:
    return {"thinking": kind, **({"output_config": {"effort": effort}} if effort else {})}


def budget(tokens: int) -> dict:
    return thinking(kind={"type": "enabled", "budget_tokens": tokens})


def google(**config: Any) -> dict:
    return {"generationConfig": {"thinkingConfig": {"includeThoughts": True, **config}}}


def reasoning(**fields: str) -> dict:
    back = REASONING_BACK if "summary" in fields else {}
    return {"reasoning": fields, **back}


EFFORT_FIELDS = {
    *("thinking", "output_config", "generationConfig", "reasoning", "include", "think"),
    *("reasoning_effort", "verbosity"),
}
SONNET_5 = {"thinking": frozenset({"adaptive"}), "efforts": ("low", "max")}
EFFORTS = {
    "anthropic": [
        ("claude-opus-4-7", None, {}),
        ("claude-opus-4-7", "none", thinking(kind=DISABLED)),
        ("claude-opus-4-7", "xhigh", thinking("xhigh")),
        ("claude-opus-4-7-20260401", "minimal", thinking("low")),
        ("claude-sonnet-4-6", "xhigh", thinking("high")),
        ("claude-sonnet-4-6", "default", thinking()),
        ("claude-opus-5-5", None, thinking()),
        ("claude-opus-5-5", "none", thinking()),
        ("claude-fable-5-1", "low", thinking("low")),
        ("claude-fable-5", None, {}),
        ("claude-new", "high", thinking("high")),
        ("us.anthropic.claude-haiku-4-5-20251001-v1:0", "low", budget(4_096)),
        ("claude-sonnet-4@20250514", "medium", budget(10_000)),
        ("anthropic/claude-3.7-sonnet", "high", budget(20_000)),
        ("claude-3-7-sonnet-latest", "max", budget(27_904)),
        ("claude-3-5-sonnet-20241022", "high", {}),
        ("claude-3-opus-20240229", "high", {}),
        ("glm-5", "high", budget(20_000)),
        ("kimi-k3", None, {}),
        # what the endpoint says counts more than the name
        ("claude-3-opus", "xhigh", thinking("max"), SONNET_5),
        ("claude-opus-4-7", "high", {}, {"thinking": frozenset()}),
        # a budget leaves tokens for the answer
        ("claude-haiku-4-5", "max", budget(3_000), {"max_output_tokens": 6_000}),
        ("claude-haiku-4-5", "max", {}, {"max_output_tokens": 2_000}),
    ],
    "google": [
        ("gemini-3.1-pro-preview", None, google()),
        ("gemini-3.1-pro-preview", "medium", google(thinkingLevel="MEDIUM")),
        ("gemini-3.1-pro-preview", "none", google(thinkingLevel="LOW")),
        ("gemini-3-pro-preview", "max", google(thinkingLevel="HIGH")),
        ("gemini-3.8-flash", "none", google(thinkingLevel="MINIMAL")),
        ("gemini-flash-latest", "low", google(thinkingLevel="LOW")),
        ("gemini-3-flash-preview", "warp", google()),
        ("gemini-2.5-flash", "none", google(thinkingBudget=0)),
        ("gemini-2.5-flash-lite", "max", google(thinkingBudget=24_576)),
        ("gemini-2.5-pro", "none", google(thinkingBudget=128)),
        ("gemini-2.5-pro", "max", google(thinkingBudget=32_768)),
        ("gemini-2.0-flash", "high", {}),
        ("gemma-3-27b-it", "high", {}),
        # what the endpoint says counts more than the name
        (
            "gemini-4-pro",
            "max",
            google(thinkingLevel="HIGH"),
            {"efforts": ("low", "HIGH", "ultra")},
        ),
        ("custom", None, google(), {"reasoning": True}),
    ],
    "openai-responses": [
        ("m", None, {}, {"server": "openai"}),
        ("m", None, reasoning(summary="auto"), {"server": "openai", "reasoning": True}),
        ("m", "high", reasoning(effort="high", summary="auto"), {"server": "openai"}),
        ("m", "none", reasoning(effort="none"), {"server": "openai", "reasoning": True}),
        ("m", "low", reasoning(effort="low")),
    ],
    "openai-chat": [
        ("gpt-5.2", "xhigh", {"reasoning_effort": "xhigh"}),
        ("gpt-5.2", "none", {"reasoning_effort": "none"}),
        ("deepseek-v4-pro", "max", {"reasoning_effort": "max"}),
        ("deepseek-v4-pro", "none", thinking(kind=DISABLED)),
        ("m", "low", {}, {"server": "z-ai"}),
        ("openai/gpt-5.2", "high", reasoning(effort="high"), {"server": "openrouter"}),
        ("anthropic/claude-opus-4.7", "none", reasoning(effort="none"), {"server": "openrouter"}),
        (
            "anthropic/claude-opus-4.7",
            "max",
            {"reasoning": {"enabled": True}, "verbosity": "max"},
            {"server": "openrouter"},
        ),
    ],
    "ollama": [("m", None, {}), ("m", "high", {"think": True}), ("m", "none", {"think": False})],
}


@pytest.mark.parametrize(
    ("api", "name", "effort", "fields", "options"),
    [(api, *row[:3], *(row[3:] or [{}])) for api, rows in EFFORTS.items() for row in rows],
)
def test_an_effort_is_asked_for_as_the_model_takes_it(api, name, effort, fields, options):
    payload = write(api, user(), model=name, reasoning_effort=effort, **options)
    written = {name: value for name, value in payload.items() if name in EFFORT_FIELDS}
    assert written == fields
