"""Models listed over the network: fetched with deadlines, cached, offered while offline."""

import json
import logging
import stat
from collections.abc import Sequence
from typing import Any

import pytest
import trio
import trio.testing

from eca_protocol.http import HTTPClient
from eca_protocol.http_server import HTTPRequest, Responder, serve
from eca_protocol.testing.provider import Provider
from eca_server.models import discovery
from eca_server.models.backend import BackendError, ModelInfo
from eca_server.models.discovery import LIST_SECONDS, LIST_TTL, Discovery
from eca_server.models.errors import error_from_page
from eca_server.models.facts import ModelFacts
from eca_server.models.listings import Endpoint

FAR = Endpoint("p", "https://far.example/v1")
A, B = ModelInfo(name="a", facts=ModelFacts(context=7)), ModelInfo(name="b")


class Lists:
    """A backend that only lists models: an answer, an error, or nothing ever."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    async def models(self) -> Sequence[ModelInfo]:
        if isinstance(self._answer, BaseException):
            raise self._answer
        if self._answer is None:
            await trio.sleep_forever()
        return self._answer


async def ask(discovery: Discovery, answer: Any, endpoint: Endpoint = FAR) -> bool:
    return await discovery.ask(endpoint, Lists(answer))


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Replace the time of day; the value can be set."""
    time = [1_000_000.0]
    monkeypatch.setattr(discovery.time, "time", lambda: time[0])
    return time


async def test_a_list_is_stored_for_the_next_start_and_announced_only_if_it_changed(tmp_path, now):
    first = Discovery(tmp_path)
    assert first.listing(FAR) is None
    assert await ask(first, [A, B])
    assert not await ask(first, [A, B])
    assert await ask(first, [B, A])
    second = Discovery(tmp_path)
    listing = second.listing(FAR)
    assert listing.models == (B, A)
    assert second.listing(Endpoint("q", FAR.url)) is None
    assert second.listing(Endpoint("p", f"{FAR.url}/")) is None
    (file,) = (tmp_path / "models").glob("*.json")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


async def test_who_was_asked_just_now_is_not_asked_again_by_the_next_server(tmp_path, now):
    await ask(Discovery(tmp_path), [A])
    assert not Discovery(tmp_path).is_due(FAR)
    now[0] += LIST_TTL
    assert Discovery(tmp_path).is_due(FAR)
    now[0] -= 10 * LIST_TTL  # the clock was set back: that time is not past
    assert Discovery(tmp_path).is_due(FAR)


@pytest.mark.parametrize(
    ("fault", "is_unreachable"),
    [
        (BackendError("auth", "no"), False),
        (BackendError("protocol", "no list"), False),
        (ValueError("port"), False),
        (OSError("refused"), True),
        (BackendError("network", "a redirect of the hotel"), True),
        (BackendError("tls", "the certificate of the hotel"), True),
        (BackendError("timeout", "no byte"), True),
        (error_from_page("text/html", b"<html>the login of the hotel"), True),
        (None, True),
    ],
)
async def test_who_does_not_answer_in_time_is_shown_as_before(
    tmp_path, fault, is_unreachable, autojump_clock, now
):
    discovery = Discovery(tmp_path)
    await ask(discovery, [A])
    now[0] += 1e9
    later = Discovery(tmp_path)
    began = trio.current_time()
    assert not await ask(later, fault)
    assert trio.current_time() - began <= LIST_SECONDS
    assert later.is_due(FAR) is is_unreachable
    later.asked_at.clear()
    assert later.is_due(FAR)
    listing = later.listing(FAR)
    assert listing.models == (A,)


async def test_an_incomprehensible_answer_ends_nothing(tmp_path, caplog):
    with caplog.at_level(logging.ERROR):
        assert not await ask(Discovery(tmp_path), ZeroDivisionError())
    assert "unreadable" in caplog.text


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "null",
        '{"version": 2, "at": 1, "models": []}',
        '{"version": 1, "at": "x", "models": []}',
        '{"version": 1, "at": 1, "models": {}}',
        '{"version": 1, "at": 1, "models": [{"name": "a"',
        '{"version": 1, "at": 1, "models": [' + '{"name": "a"},' * 100_000 + "{}]}",
    ],
)
async def test_a_file_that_is_broken_or_half_written_is_as_good_as_none(tmp_path, content):
    await ask(Discovery(tmp_path), [A])
    (file,) = (tmp_path / "models").glob("*.json")
    file.write_text(content)
    discovery = Discovery(tmp_path)
    assert discovery.listing(FAR) is None
    assert await ask(discovery, [A])
    assert Discovery(tmp_path).listing(FAR) is not None


async def test_where_nothing_can_be_stored_it_is_learned_all_the_same(tmp_path):
    (tmp_path / "models").write_text("a file")
    discovery = Discovery(tmp_path)
    assert await ask(discovery, [A])
    assert discovery.listing(FAR) is not None


async def test_what_is_on_this_machine_is_asked_each_time_and_only_if_it_listens(tmp_path):
    async with Provider() as server:
        here = Endpoint("p", server.url)
        discovery = Discovery(tmp_path)
        assert await ask(discovery, [A], here)
        assert discovery.is_due(here)
    assert not await ask(discovery, [B], here)
    assert list(tmp_path.iterdir()) == []


class Mirror:
    """A server with a catalogue of one provider's models."""

    def __init__(self) -> None:
        self.etags: list[str | None] = []
        self.context = 7
        self.fails = False

    async def answer(self, request: HTTPRequest, responder: Responder) -> None:
        self.etags.append(request.headers.get("if-none-match"))
        etag = f'"{self.context}"'
        models = {"gpt-5": {"limit": {"context": self.context}}}
        if self.fails:
            await responder.respond(500, b"")
        elif self.etags[-1] == etag:
            await responder.respond(304, b"", {"etag": etag})
        else:
            body = json.dumps({"openai": {"models": models}}).encode()
            await responder.respond(200, body, {"etag": etag})


async def test_the_catalogue_is_fetched_once_a_day_and_only_if_it_changed(tmp_path, now):
    mirror = Mirror()
    async with serve(mirror.answer) as server, HTTPClient() as http:

        async def context() -> int | None:
            """Return the context size that a newly started server knows."""
            discovery = Discovery(tmp_path)
            assert discovery.catalog.facts("openai", "gpt-5").context == 400_000
            await discovery.load_catalog(http, server.url)
            assert not await discovery.load_catalog(http, server.url)
            return discovery.catalog.facts("openai", "gpt-5").context

        assert await context() == 7
        assert await context() == 7
        assert mirror.etags == [None]
        now[0] += 86_400
        assert await context() == 7
        assert await context() == 7
        assert mirror.etags == [None, '"7"']
        now[0] += 86_400
        mirror.context = 8
        assert await context() == 8
        now[0] += 1e9
        mirror.fails = True
        assert await context() == 8
        (tmp_path / "catalog.json").write_text('{"version": 1, "providers": {"openai": {')
        assert await context() == 400_000
        mirror.fails = False
        assert await context() == 8
        assert mirror.etags[-1] is None
    assert await context() == 8
    assert stat.S_IMODE((tmp_path / "catalog.json").stat().st_mode) == 0o600


async def test_a_catalogue_of_another_address_is_another_one(tmp_path):
    mirror = Mirror()
    async with serve(mirror.answer) as server, HTTPClient() as http:
        await Discovery(tmp_path).load_catalog(http, server.url)
        await Discovery(tmp_path).load_catalog(http, f"{server.url}/other")
    assert mirror.etags == [None, None]
