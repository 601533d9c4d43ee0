"""Images and documents over every API: models receive them, or a note in their place.

They come from the user or from a tool, in this request or an earlier one. A refused one costs one
request, not the chat.
"""

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest

from eca_server.models.attachments import (
    attachments_in,
    make_attachment,
    media_type_of,
    suspected_attachments,
    without_attachments,
)
from eca_server.models.backend import BackendError, Request
from eca_server.models.events import Event
from eca_server.models.history import FilePart, ImagePart, Message, Origin
from eca_server.models.http_backend import HTTPBackend
from tests.eca_server.models.every_api import API, ScriptedAnswer, ScriptedAPI, each_api
from tests.eca_server.models.histories import OURS, file, model, tool, tool_call, tool_result, user
from tests.eca_server.models.reading import TOOL, ask, failure, notes

SHOWN = ImagePart(media_type="image/png", data=b"\x89PNG\r\n\x1a\nby the user")
MADE = ImagePart(media_type="image/jpeg", data=b"\xff\xd8\xffby a tool")
READ = file("plan.pdf", "application/pdf", b"%PDF-1.7 in a tool's result")
DOCUMENT = file("spec.pdf", "application/pdf", b"%PDF-1.7 by the user")
ALL = (SHOWN, MADE, READ, DOCUMENT)
ELSEWHERE = Origin(api="x", provider="y", model="z")
HI = ScriptedAnswer(text=["Hi"])
OMITTED = "this model does not accept images"


def history(*, origin: Origin = ELSEWHERE) -> list[Message]:
    """Return a history with all attachments, from the user and from a tool."""
    return [
        user("What is this?", SHOWN, DOCUMENT),
        model(tool_call(), origin=origin),
        tool(tool_result("c", "Look:", MADE, READ)),
    ]


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for member in value.values():
            yield from strings(member)
    elif isinstance(value, list):
        for member in value:
            yield from strings(member)


def times(part: ImagePart | FilePart, body: Any) -> int:
    data = base64.b64encode(part.data).decode()
    return sum(string.count(data) for string in strings(body))


def asking(messages: list[Message]) -> Request:
    return Request(messages=messages, tools=[TOOL])


async def events_of(backend: HTTPBackend, messages: list[Message]) -> list[Event]:
    return (await ask(backend, asking(messages)))[1]


async def body_of(api: ScriptedAPI, **options: Any) -> Any:
    """Return the request for the history with all attachments."""
    async with api.talking([api.reply(HI)], **options) as (provider, backend):
        await events_of(backend, history())
        return provider.requests[0].body


@each_api
async def test_pictures_and_documents_are_seen_once_each_by_those_that_can(api):
    body = await body_of(api)
    can_read = api.name in ("anthropic", "google", "openai-responses")
    assert [times(part, body) for part in ALL] == [1, 1, int(can_read), int(can_read)]
    assert all(any(name in each for each in strings(body)) for name in ("plan.pdf", "spec.pdf"))
    if api.name != "ollama":  # which asks the server
        assert all(kind in json.dumps(body) for kind in ("image/png", "image/jpeg"))


@each_api
async def test_a_model_that_sees_none_reads_a_note_for_each(api):
    body = await body_of(api, image_input=False)
    assert [times(part, body) for part in (SHOWN, MADE)] == [0, 0]
    assert sum(string.count(OMITTED) for string in strings(body)) == 2


@pytest.mark.parametrize(("known", "count"), [("openai", 1), ("openrouter", 1), ("groq", 0)])
async def test_over_chat_completions_documents_are_for_the_servers_that_take_them(known, count):
    body = await body_of(API["openai-chat"], known=known)
    assert [times(part, body) for part in (READ, DOCUMENT)] == [count, count]


@each_api
async def test_what_is_refused_is_left_out_of_one_more_try_and_from_then_on(api):
    refused = api.refusing(400, words=f"Could not process image (plain-key-{api.name})")
    async with api.talking([refused, api.reply(HI), api.reply(HI)]) as (provider, backend):
        messages = history()
        events = await events_of(backend, messages)
        again = await events_of(backend, messages)
        bodies = [request.body for request in provider.requests]
    assert [times(SHOWN, body) for body in bodies] == [1, 0, 0]
    assert any("the provider did not accept it" in each for each in strings(bodies[1]))
    [note] = notes(events)
    assert "Could not process image" in note
    assert "plain-key" not in note
    assert notes(again) == []


@each_api
async def test_what_was_taken_before_is_not_blamed(api):
    refused = api.refusing(400, words="this document is encrypted")
    new = file("x.pdf", "application/pdf", b"%PDF-1.4 locked")
    async with api.talking([refused, api.reply(HI)]) as (provider, backend):
        messages = [*history(), model("A cat.", origin=api.origin), user("And?", new)]
        events = await events_of(backend, messages)
        first, second = (request.body for request in provider.requests)
    assert len(notes(events)) == 1
    assert times(new, second) == 0
    assert [times(part, second) for part in ALL] == [times(part, first) for part in ALL]


@each_api
async def test_what_an_earlier_server_left_out_does_not_block_the_chat(api):
    words = "At least one of the image dimensions exceed max allowed size: 8000 pixels"
    refused = api.refusing(400, words=words)
    new = ImagePart(media_type="image/jpeg", data=b"\xff\xd8\xffnew")
    async with api.talking([refused, refused, api.reply(HI)]) as (provider, backend):
        messages = [*history(), model("No picture?", origin=api.origin), user("And?", new)]
        events = await events_of(backend, messages)
        bodies = [request.body for request in provider.requests]
    assert [times(new, body) for body in bodies] == [1, 0, 0]
    assert [times(SHOWN, body) for body in bodies] == [1, 1, 0]
    assert len(notes(events)) == 1


@each_api
async def test_a_refusal_that_was_about_something_else_is_an_error_and_no_picture_is_lost(api):
    refused = api.refusing(400, words=f"messages: something is wrong (plain-key-{api.name})")
    async with api.talking([refused, refused, api.reply(HI)]) as (provider, backend):
        error = await failure(backend, asking(history()))
        assert "something is wrong (***)" in error.message
        assert len(provider.requests) == 2
        await events_of(backend, history())
        assert times(SHOWN, provider.requests[-1].body) == 1


@pytest.mark.parametrize(
    ("status", "kind", "is_new", "suspected"),
    [
        (400, "invalid_request", True, set(ALL)),
        (400, "invalid_request", False, set()),
        (413, "request_too_large", False, set(ALL)),
        (529, "overloaded", True, set()),
    ],
)
def test_only_what_is_new_is_suspected_but_where_the_sum_is_too_much(
    status, kind, is_new, suspected
):
    messages = history() if is_new else [*history(), model("a"), user("b")]
    error = BackendError(kind, "no", status=status)
    assert suspected_attachments(messages, error, OURS) == suspected


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (500, "image input is not supported - you may need to provide the mmproj"),
        (404, "No endpoints found that support image input"),
        (500, "failed to process inputs: image: unknown format"),  # from Ollama
    ],
)
def test_a_refusal_that_names_images_has_any_status(status, words):
    error = BackendError("overloaded", words, status=status)
    assert suspected_attachments([user(SHOWN)], error, OURS) == {SHOWN}


def test_a_history_without_some_of_them_is_otherwise_the_same():
    messages = history()
    rest = without_attachments(messages, {SHOWN, READ})
    assert set(attachments_in(rest)) == {MADE, DOCUMENT}
    assert rest[1] is messages[1]
    assert without_attachments(messages, frozenset()) == messages
    assert [len(message.parts) for message in rest] == [len(each.parts) for each in messages]


@pytest.mark.parametrize(
    ("head", "media_type"),
    [
        (b"\x89PNG\r\n\x1a\n....", "image/png"),
        (b"\xff\xd8\xff\xe0....", "image/jpeg"),
        (b"GIF89a....", "image/gif"),
        (b"RIFF\x0a\0\0\0WEBPVP8 ", "image/webp"),
        (b"%PDF-1.7\n", "application/pdf"),
        (b"BM....", None),
        (b"<svg xmlns=", None),
        (b"", None),
    ],
)
def test_what_a_file_is_its_content_says(head, media_type):
    assert media_type_of(head) == media_type
    if media_type is not None:
        part = make_attachment(media_type, "name", head)
        assert part.media_type == media_type
        assert isinstance(part, FilePart) == (media_type == "application/pdf")
