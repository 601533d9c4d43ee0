"""A different model or API in the middle of a chat: the parts of the history that it receives.

The histories consist of answers from each API's own decoder, complete and broken ones. So their
opaque data is that of a provider.
"""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import attrs
from hypothesis import given
from hypothesis import strategies as st

from eca_server.models.answer import Answer
from eca_server.models.backend import BackendError, Request, Tool
from eca_server.models.encoding import encoded
from eca_server.models.history import (
    ImagePart,
    Message,
    Origin,
    ReasoningPart,
    TextPart,
    ToolCallPart,
)
from eca_server.models.http_backend import HTTPBackend
from tests.eca_server.models.every_api import (
    EVERY_API,
    ScriptedAnswer,
    ScriptedAPI,
    ScriptedCall,
    each_api,
)
from tests.eca_server.models.grammars import GRAMMARS
from tests.eca_server.models.histories import file, tool, tool_result, user
from tests.eca_server.models.providers import models_of

SAID = re.compile(r"(?:text|prompt)-[0-9-]+\.")
SECRETS = ("openai-responses", "anthropic", "google")
"""APIs that want opaque data back."""

TOOLS = [Tool(name=name, description="d", parameters={"type": "object"}) for name in "fg"]
PICTURE = ImagePart(media_type="image/png", data=b"\x89PNG")
FILE = file("f.txt", "text/plain", b"text of a file")


@attrs.frozen(kw_only=True)
class Turn:
    """A prompt, one answer to it, and the results of its calls.

    Attributes:
        by: the API of the model that answers.
        model: its name.
        texts: the number of pieces of text.
        thoughts: the number of pieces of reasoning.
        calls: the number of tool calls.
        came: the received part of the answer's bytes, in a thousand; less than all is an answer
            that broke off, or was stopped.
        results: the number of calls with a result.
        shows: whether prompt and results have images and files.
    """

    by: ScriptedAPI
    model: str
    texts: int
    thoughts: int
    calls: int
    came: int
    results: int
    shows: bool

    @property
    def origin(self) -> Origin:
        return attrs.evolve(self.by.origin, model=self.model)

    def said(self, number: int) -> ScriptedAnswer:
        return ScriptedAnswer(
            text=[f"text-{number}-{n}. " for n in range(self.texts)],
            thoughts=[f"thought-{number}-{n}. " for n in range(self.thoughts)],
            calls=[
                ScriptedCall("fg"[n % 2], {"n": f"call-{number}-{n}"}) for n in range(self.calls)
            ],
            secret=secret_of(number),
        )

    def messages(self, number: int) -> list[Message]:
        shown = (PICTURE, FILE) if self.shows else ()
        prompt = user(*shown, f"prompt-{number}.")
        answer = self._answer(number)
        if not answer.parts:
            return [prompt]
        calls = [part for part in answer.parts if isinstance(part, ToolCallPart)][: self.results]
        results = [tool_result(call.id, f"result-{number}.", *shown[:1]) for call in calls]
        return [prompt, answer, *([tool(*results)] if results else [])]

    def _answer(self, number: int) -> Message:
        answer, body = Answer(), self.by.body(f"key{number}-")
        stream = b"".join(self.by.say(self.said(number)))
        with suppress(BackendError):  # without any content
            for event in body.feed(stream[: len(stream) * self.came // 1000]):
                answer.feed(event)
        return answer.message(self.origin, interrupted=answer.finished is None)


def secret_of(number: int) -> str:
    """Return opaque data of at least four characters of base 64."""
    return f"secret{number:02}"


turns = st.builds(
    Turn,
    by=st.sampled_from(EVERY_API),
    model=st.just("other"),
    texts=st.integers(0, 2),
    thoughts=st.integers(0, 2),
    calls=st.integers(0, 2),
    came=st.just(1000) | st.integers(0, 1000),
    results=st.integers(0, 2),
    shows=st.booleans(),
)
own_turns = turns.map(lambda turn: attrs.evolve(turn, model=turn.by.model))


def backend_of(api: ScriptedAPI, *, images: bool) -> HTTPBackend:
    models = models_of({api.name: api.settings("http://localhost", image_input=images)})
    backend = models.backend(f"{api.name}/{api.model}")
    assert isinstance(backend, HTTPBackend)
    return backend


def requested(backend: HTTPBackend, history: Sequence[Message]) -> tuple[dict[str, Any], str]:
    request = Request(system="Be.", messages=history, tools=TOOLS)
    text = encoded(backend.payload(request)).decode()
    return json.loads(text), text


@each_api
@given(st.lists(turns | own_turns | own_turns, min_size=1, max_size=5), st.booleans())
def test_any_answer_before_the_next_request_is_legal(api, chat, images):
    backend = backend_of(api, images=images)
    history: list[Message] = []
    for number, turn in enumerate(chat):
        history += turn.messages(number)
        after = [*history, user("And now?")]
        payload, text = requested(backend, after)
        GRAMMARS[api.name](payload)
        check_carried(text, history, api.origin)
        if not images:
            assert "iVBORw" not in text


def check_carried(text: str, history: Sequence[Message], reader: Origin) -> None:
    """Check that the request has all content in order, without opaque data of other models."""
    content = [
        words
        for message in history
        for part in message.parts
        if isinstance(part, TextPart)
        for words in SAID.findall(part.text)
    ]
    assert SAID.findall(text) == content
    for number, answer in answers(history):
        if answer.origin != reader:
            assert f"thought-{number}-" not in text
            assert secret_of(number) not in text
        elif not answer.interrupted and reader.api in SECRETS and has(answer, ReasoningPart):
            says_more = has(answer, TextPart) or has(answer, ToolCallPart)
            assert (secret_of(number) in text) == says_more
        if not answer.interrupted:
            for call in answer.parts:
                assert not isinstance(call, ToolCallPart) or call.arguments["n"] in text


def answers(history: Sequence[Message]) -> Iterator[tuple[int, Message]]:
    """Yield each answer, and the number of its turn."""
    number = -1
    for message in history:
        number += message.role == "user"
        if message.role == "assistant":
            yield number, message


def has(message: Message, kind: type) -> bool:
    return any(isinstance(part, kind) for part in message.parts)
