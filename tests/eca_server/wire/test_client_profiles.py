"""Each client is written to as it reads: what the process puts into one write, and how often.

Its output is a socket here that keeps writes apart, so each read is what the server wrote at once.
"""

from __future__ import annotations

import itertools
import json
import time
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from eca_protocol import messages as m
from eca_protocol.server.texts import pieces
from eca_server.client.content_formatting import ContentFormatter
from eca_server.client.profiles import DEFAULT_PROFILE, ClientProfile, profile_for
from eca_server.client.session import Session
from tests.eca_server.conftest import Start
from tests.eca_server.stranger import Stranger, content_of, frame, frames_in, message, text_of

OLD_EMACS = {"clientInfo": {"name": "emacs"}, "capabilities": {"codeAssistant": {"chat": True}}}
EMACS = {
    "clientInfo": {"name": "emacs", "version": "GNU Emacs 30.1\n of 2026"},
    "capabilities": {"codeAssistant": {"chat": True, "chatCapabilities": {"askQuestion": True}}},
}
NEOVIM = {"clientInfo": {"name": "Neovim"}, "capabilities": {"codeAssistant": {"chat": True}}}
ANSWERS = 8


def conversation(server: Stranger, client: dict[str, Any]) -> float:
    """Much text, a long prompt, and answers in its middle; the seconds it took."""
    server.introduced(**client)
    begun = time.monotonic()
    said = ("word " * 1500).strip()
    prompt = {"message": f"repeat 300 delta\nsay {said}", "model": "simulator/script"}
    server.write(
        frame(message("chat/prompt", prompt, request_id="prompt"))
        + b"".join(frame(message("chat/queryContext", request_id=n)) for n in range(100, 108))
    )
    server.expect_finished()
    seconds = time.monotonic() - begun
    assert text_of(server.seen) == "delta" * 300 + said
    assert text_of(server.seen, "user") == prompt["message"]
    return seconds


def answers_in(read: bytes) -> list[int]:
    """The places of the answers among a write's messages."""
    return [place for place, value in enumerate(frames_in(read)) if "method" not in value]


def echoes(server: Stranger) -> list[Any]:
    return [seen for seen in server.seen if content_of(seen).get("contentId")]


@pytest.mark.requirement("W-6d")
def test_writes_hold_whole_frames_of_64_kib_at_most(start_server: Start) -> None:
    server = start_server(keeps_writes_apart=True)
    conversation(server, {})
    long = "x" * 100_000
    server.prompt(long, model="no/such")
    server.expect_finished()
    assert any(len(frames_in(read)) > 10 for read in server.reads)
    larger = [read for read in server.reads if len(read) > 65_536]
    assert [content_of(value)["text"] for read in larger for value in frames_in(read)] == [long]
    assert len(echoes(server)) == 2
    assert all(len(json.dumps(text)) <= 4096 + 2 for text in said_by_the_model(server))


def said_by_the_model(server: Stranger) -> list[str]:
    contents = [seen for seen in server.seen if seen.get("params", {}).get("role") == "assistant"]
    return [content_of(seen)["text"] for seen in contents if "text" in content_of(seen)]


def test_an_old_emacs_gets_little_at_a_time(start_server: Start) -> None:
    server = start_server(keeps_writes_apart=True)
    seconds = conversation(server, OLD_EMACS)
    assert all(frames_in(read) for read in server.reads)
    assert max(map(len, server.reads)) <= 4096
    for read in server.reads:
        assert answers_in(read) in ([], [len(frames_in(read)) - 1])
    assert len(echoes(server)) == 8
    assert len({content_of(seen)["contentId"] for seen in echoes(server)}) == 1
    assert seconds >= 0.004 * (len(server.reads) - 10)


def test_a_newer_emacs_gets_nothing_behind_an_answer(start_server: Start) -> None:
    server = start_server(keeps_writes_apart=True)
    seconds = conversation(server, EMACS)
    for read in server.reads:
        assert answers_in(read) in ([], [len(frames_in(read)) - 1])
    assert seconds >= 0.01 * ANSWERS
    assert len(echoes(server)) == 1


def test_neovim_gets_no_more_than_it_reads_at_once(start_server: Start) -> None:
    server = start_server(keeps_writes_apart=True)
    conversation(server, NEOVIM)
    chat = server.prompt("repeat 600 " + "x" * 100)
    server.expect_finished()
    assert len(echoes(server)) == 2
    server.result("chat/open", {"chatId": chat})  # its contents are not paced as an answer's are
    assert all(frames_in(read) for read in server.reads)
    assert 16_384 < max(map(len, server.reads)) <= 32_768


@pytest.mark.requirement("W-6e")
@pytest.mark.parametrize(
    "params",
    [
        None,
        [],
        {},
        {"clientInfo": None},
        {"clientInfo": 7, "capabilities": []},
        {"clientInfo": {"name": ["emacs"]}},
        {"clientInfo": {"name": "Emacs"}},
        {"capabilities": {"codeAssistant": {"chatCapabilities": {}}}},
    ],
)
def test_an_unknown_client_is_written_to_as_all_others(params: Any) -> None:
    assert profile_for(params) == DEFAULT_PROFILE


def test_the_clients_that_lose_something_are_known() -> None:
    old, new, neovim = map(profile_for, (OLD_EMACS, EMACS, NEOVIM))
    assert old.splits_echo
    assert not new.splits_echo
    assert old.finishes_deleted
    assert new.finishes_deleted
    assert not neovim.finishes_deleted
    assert old.shape.size == 4096
    assert old.shape.pause_after_answer >= 0.005 <= new.shape.pause_after_answer
    for capabilities in (None, [], {"codeAssistant": None}, {"codeAssistant": []}):
        named = {"clientInfo": {"name": "emacs"}, "capabilities": capabilities}
        assert profile_for(named) == profile_for(OLD_EMACS)


TEXTS = st.text(
    st.one_of(
        st.characters(exclude_categories=["Cs"]), st.sampled_from('\n"\\\x00\x1f\x7füの\U0001f600')
    ),
    max_size=300,
)


def cost(text: str) -> int:
    return len(json.dumps(text, ensure_ascii=False).encode()) - 2


@pytest.mark.requirement("W-6c")
@given(text=TEXTS, limit=st.integers(6, 200))
@example(text="\n0\x1f", limit=6)
def test_pieces_join_to_the_text_and_each_is_within_the_limit(text: str, limit: int) -> None:
    cut = list(pieces(text, limit))
    assert "".join(cut) == text
    assert all(cut)
    assert all(cost(piece) <= limit for piece in cut)
    for piece, following in itertools.pairwise(cut):
        assert "\n" in piece or cost(piece + following[0]) > limit


@pytest.mark.requirement("W-6a")
@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=3000))
def test_cutting_loses_less_than_half_of_a_piece(text: str) -> None:
    cut = list(pieces(text, 100))
    assert len(cut) <= 1 + cost(text) // 47


class FakePeer:
    """Keeps what a session notifies of."""

    closed = False
    transport = None

    def __init__(self) -> None:
        self.params: list[m.ChatContentReceivedParams] = []

    def notify(
        self, method: str, params: m.ChatContentReceivedParams, *, codec: Any = None
    ) -> None:
        assert method == "chat/contentReceived"
        self.params.append(params)


@given(text=TEXTS, limit=st.integers(6, 200), splits_echo=st.booleans())
@example(text="\x00" * 10, limit=40, splits_echo=True)
def test_contents_are_cut_as_the_profile_says(text: str, limit: int, splits_echo: bool) -> None:
    peer = FakePeer()
    session = Session(peer)
    session.profile = ClientProfile(text_limit=limit, splits_echo=splits_echo)
    session.emit("c", "user", m.ChatTextContent(text=text, content_id="id"))
    echo, peer.params = peer.params, []
    session.emit("c", "assistant", m.ChatTextContent(text=text))
    said, peer.params = peer.params, []
    session.emit("c", "assistant", m.ChatReasonTextContent(id="r", text=text))
    thought, peer.params = peer.params, []
    call = {"origin": "native", "id": "t", "name": "n", "server": "eca"}
    session.emit("c", "assistant", m.ChatToolCallPrepareContent(arguments_text=text, **call))
    written, peer.params = peer.params, []
    session.emit("c", "system", m.ChatProgressContent(state="finished", text=""))
    assert len(peer.params) == 1
    for contents, role in ((echo, "user"), (said, "assistant"), (thought, "assistant")):
        assert "".join(params.content.text for params in contents) == text
        assert all(params.role == role for params in contents)
        if role != "user" or splits_echo:
            assert all(cost(params.content.text) <= limit for params in contents)
        else:
            assert len(contents) == 1
    assert all(params.content.content_id == "id" for params in echo)
    assert all(params.content.id == "r" for params in thought)
    assert "".join(params.content.arguments_text for params in written) == text
    assert all(cost(params.content.arguments_text) <= limit for params in written)
    assert all(params.content.id == "t" for params in written)


def test_a_page_that_cuts_lines_is_written_code_that_wraps() -> None:
    page = profile_for({"clientInfo": {"name": "VsCode"}})
    text = m.ChatTextContent(text="List:\n\n```\n- a\n- b ``x``\n\n```\nEnd.")
    [written] = ContentFormatter(page).messages("c", "system", text)
    assert written.role == "assistant"
    assert written.content == m.ChatTextContent(
        text="\n\nList:\n\n\n` - a `  \n``` - b ``x`` ```  \n\n\nEnd.\n\n"
    )
    [plain] = ContentFormatter(DEFAULT_PROFILE).messages("c", "system", text)
    assert (plain.role, plain.content) == ("system", text)
