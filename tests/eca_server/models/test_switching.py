"""A different model or API in the middle of a chat: the parts of the history that it receives.

The histories consist of answers from each API's own decoder, complete and broken ones. So their
opaque data is that of a provider.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

import attrs
from hypothesis import given
from hypothesis import strategies as st

from eca_server.models import history as h
from eca_server.models.answer import Answer
from eca_server.models.backend import BackendError, Request, Tool
from tests.eca_server.models.every_api import (
    EVERY_API,
    ScriptedAnswer,
    ScriptedAPI,
    ScriptedCall,
    each_api,
)
from tests.eca_server.models.grammars import GRAMMARS
from tests.eca_server.models.histories import file, tool, tool_result, user
from tests.eca_server.models.reading import backend_of, payload_of

TEXT = re.compile(r"(?:text|prompt)-[0-9-]+\.")
SECRETS = ("openai-responses", "anthropic", "google")
"""APIs that want opaque data back."""

TOOLS = [Tool(name=name, description="d", parameters={"type": "object"}) for name in "fg"]
PICTURE = h.ImagePart(media_type="image/png", data=b"\x89PNG")
FILE = file("f.txt", "text/plain", b"text of a file")

Turn = Callable[[int], list[h.Message]]
"""Makes the messages of the turn with a number."""


def turn_of(
    by: ScriptedAPI,
    *,
    own: bool,
    texts: int,
    thoughts: int,
    calls: int,
    came: int,
    results: int,
    shows: bool,
) -> Turn:
    """Return a turn: a prompt, one answer to it, and the results of its calls.

    Args:
        by: the API of the model that answers.
        own: whether it is the API's usual model.
        texts: the number of pieces of text.
        thoughts: the number of pieces of reasoning.
        calls: the number of tool calls.
        came: the received part of the answer's bytes, in a thousand; less than all is an answer
            that broke off, or was stopped.
        results: the number of calls with a result.
        shows: whether prompt and results have images and files.
    """
    origin = by.origin if own else attrs.evolve(by.origin, model="other")

    def messages(number: int) -> list[h.Message]:
        script = ScriptedAnswer(
            text=[f"text-{number}-{n}. " for n in range(texts)],
            thoughts=[f"thought-{number}-{n}. " for n in range(thoughts)],
            calls=[ScriptedCall("fg"[n % 2], {"n": f"call-{number}-{n}"}) for n in range(calls)],
            secret=secret_of(number),
        )
        answer, body = Answer(), by.body(f"key{number}-")
        stream = b"".join(by.say(script))
        with suppress(BackendError):  # without any content
            for event in body.feed(stream[: len(stream) * came // 1000]):
                answer.feed(event)
        made = answer.message(origin, interrupted=answer.finished is None)
        prompt = user(*((PICTURE, FILE) if shows else ()), f"prompt-{number}.")
        called = [part.id for part in made.parts if isinstance(part, h.ToolCallPart)][:results]
        picture = [PICTURE] if shows else []
        results_given = [tool_result(each, f"result-{number}.", *picture) for each in called]
        return [
            prompt,
            *([made] if made.parts else []),
            *([tool(*results_given)] if results_given else []),
        ]

    return messages


def secret_of(number: int) -> str:
    """Return opaque data of at least four characters of base 64."""
    return f"secret{number:02}"


turns = st.builds(
    turn_of,
    by=st.sampled_from(EVERY_API),
    own=st.sampled_from([True, True, False]),
    texts=st.integers(0, 2),
    thoughts=st.integers(0, 2),
    calls=st.integers(0, 2),
    came=st.just(1000) | st.integers(0, 1000),
    results=st.integers(0, 2),
    shows=st.booleans(),
)


@each_api
@given(st.lists(turns, min_size=1, max_size=5), st.booleans())
def test_any_answer_before_the_next_request_is_legal(api, chat, images):
    backend = backend_of(api.name, model=api.model, origin=api.origin, images=images)
    history: list[h.Message] = []
    for number, turn in enumerate(chat):
        history += turn(number)
        after = [*history, user("And now?")]
        payload = payload_of(backend, Request(system="Be.", messages=after, tools=TOOLS))
        GRAMMARS[api.name](payload)
        text = json.dumps(payload)
        check_carried(text, history, api.origin)
        if not images:
            assert "iVBORw" not in text


def check_carried(text: str, history: Sequence[h.Message], reader: h.Origin) -> None:
    """Check that the request has all content in order, without opaque data of other models."""
    content = [
        words
        for message in history
        for part in message.parts
        if isinstance(part, h.TextPart)
        for words in TEXT.findall(part.text)
    ]
    assert TEXT.findall(text) == content
    for number, answer in answers(history):
        if answer.origin != reader:
            assert f"thought-{number}-" not in text
            assert secret_of(number) not in text
        elif not answer.interrupted and reader.api in SECRETS and has(answer, h.ReasoningPart):
            says_more = has(answer, h.TextPart) or has(answer, h.ToolCallPart)
            assert (secret_of(number) in text) == says_more
        if not answer.interrupted:
            for call in answer.parts:
                assert not isinstance(call, h.ToolCallPart) or call.arguments["n"] in text


def answers(history: Sequence[h.Message]) -> Iterator[tuple[int, h.Message]]:
    """Yield each answer, and the number of its turn."""
    number = -1
    for message in history:
        number += message.role == "user"
        if message.role == "assistant":
            yield number, message


def has(message: h.Message, kind: type) -> bool:
    return any(isinstance(part, kind) for part in message.parts)
