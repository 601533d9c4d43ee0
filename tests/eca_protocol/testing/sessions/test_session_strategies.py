"""Generated sessions: conforming ones pass each gate, broken ones have the error they name."""

import json

import pytest
from hypothesis import given, settings

from eca_protocol.framing import ContentLengthDecoder
from eca_protocol.revisions import Revision
from eca_protocol.testing.sessions.strategies import broken_sessions, sessions, writes
from eca_protocol.testing.watching import Watcher

EDITIONS = [Revision.R2025_09, Revision.R2025_10, Revision.CURRENT]


@pytest.mark.parametrize("revision", EDITIONS)
def test_the_editions_own_watcher_finds_nothing_in_a_legal_session(revision):
    @settings(max_examples=6)
    @given(sessions(revision=revision, max_size=4))
    def check(messages: tuple[dict[str, object], ...]) -> None:
        watcher = Watcher(revision=revision)
        for message in messages:
            findings = watcher.feed("client", message)
            assert not [each for each in findings if each.requirement.startswith("FIELD:")], (
                findings
            )
            if message["method"] == "initialize":
                watcher.feed("server", {"jsonrpc": "2.0", "id": message["id"], "result": {}})
        names = [message["method"] for message in messages]
        assert names[:2] == ["initialize", "initialized"]
        assert names[-2:] == ["shutdown", "exit"]
        ids = [message["id"] for message in messages if "id" in message]
        assert len(ids) == len(set(ids))

    check()


@settings(max_examples=15)
@given(broken_sessions(revision=Revision.R2025_10))
def test_a_broken_session_is_legal_without_the_message_it_names(broken):
    message = broken.messages[broken.at]
    rest = [each for place, each in enumerate(broken.messages) if place != broken.at]
    assert rest[0]["method"] == "initialize"
    assert rest[-1]["method"] == "exit"
    if isinstance(message, dict):
        assert json.dumps(message.get("id")) in ('"wrong"', '["wrong", 1]')
        assert ("jsonrpc" in message) == (broken.wrong != "no version")


@settings(max_examples=6)
@given(writes(sessions(revision=Revision.R2025_10, max_size=2)))
def test_writes_are_the_frames_of_a_session_however_they_are_cut(pieces):
    decoder = ContentLengthDecoder()
    bodies = [body for piece in pieces for body in decoder.feed(piece)]
    assert len(bodies) >= 4
