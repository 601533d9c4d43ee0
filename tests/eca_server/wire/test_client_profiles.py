"""Each client is written to as it reads: what the process puts into one write, and how often.

Its output is a socket here that keeps writes apart, so each read is what the server wrote at once.
"""

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
from eca_server.client.profiles import DEFAULT_PROFILE, ClientProfile, Writing, profile_for
from eca_server.client.session import Session
from tests.eca_server.conftest import Start
from tests.eca_server.stranger import Stranger, content_of, frames_in, message, text_of

OLD_EMACS = {"clientInfo": {"name": "emacs"}, "capabilities": {"codeAssistant": {"chat": True}}}
EMACS = {
    "clientInfo": {"name": "emacs", "version": "GNU Emacs 30.1\n of 2026"},
    "capabilities": {"codeAssistant": {"chat": True, "chatCapabilities": {"askQuestion": True}}},
}
NEOVIM = {"clientInfo": {"name": "Neovim"}, "capabilities": {"codeAssistant": {"chat": True}}}
ANSWERS = 8


def conversation(start_server: Start, client: dict[str, Any]) -> tuple[Stranger, float]:
    """Exchange much text, a long prompt, and answers in its middle; return the seconds, too."""
    server = start_server(keeps_writes_apart=True)
    server.introduced(**client)
    begun = time.monotonic()
    words = ("word " * 1500).strip()
    prompt = {"message": f"repeat 300 delta\nsay {words}", "model": "simulator/script"}
    queries = (message("chat/queryContext", request_id=n) for n in range(100, 100 + ANSWERS))
    server.send(message("chat/prompt", prompt, request_id="prompt"), *queries)
    server.expect_finished()
    seconds = time.monotonic() - begun
    assert text_of(server.received) == "delta" * 300 + words
    line_end = "\n" * (client in (OLD_EMACS, NEOVIM))
    assert text_of(server.received, "user") == prompt["message"] + line_end
    return server, seconds


def has_nothing_behind_an_answer(read: bytes) -> bool:
    values = frames_in(read)
    return [place for place, value in enumerate(values) if "method" not in value] in (
        [],
        [len(values) - 1],
    )


def echoes(server: Stranger) -> list[Any]:
    return [message for message in server.received if content_of(message).get("contentId")]


@pytest.mark.requirement("W-6d")
def test_writes_hold_whole_frames_of_64_kib_at_most(start_server: Start) -> None:
    server, _ = conversation(start_server, {})
    long = "x" * 100_000
    server.prompt(long, model="no/such")
    server.expect_finished()
    assert any(len(frames_in(read)) > 10 for read in server.reads)
    larger = [read for read in server.reads if len(read) > 65_536]
    assert [content_of(value)["text"] for read in larger for value in frames_in(read)] == [long]
    assert len(echoes(server)) == 2
    answers = [
        message
        for message in server.received
        if message.get("params", {}).get("role") == "assistant"
    ]
    assert all(
        len(json.dumps(content_of(message).get("text", ""))) <= 4096 + 2 for message in answers
    )


def test_an_old_emacs_gets_little_at_a_time(start_server: Start) -> None:
    server, seconds = conversation(start_server, OLD_EMACS)
    assert max(map(len, server.reads)) <= 4096
    assert all(map(has_nothing_behind_an_answer, server.reads))
    assert len(echoes(server)) == 8
    assert len({content_of(message)["contentId"] for message in echoes(server)}) == 1
    assert seconds >= 0.004 * (len(server.reads) - 10)


def test_a_newer_emacs_gets_nothing_behind_an_answer(start_server: Start) -> None:
    server, seconds = conversation(start_server, EMACS)
    assert all(map(has_nothing_behind_an_answer, server.reads))
    assert seconds >= 0.01 * ANSWERS
    assert len(echoes(server)) == 1


def test_neovim_gets_no_more_than_it_reads_at_once(start_server: Start) -> None:
    server, _ = conversation(start_server, NEOVIM)
    chat = server.prompt("repeat 600 " + "x" * 100)
    server.expect_finished()
    assert len(echoes(server)) == 2
    server.result("chat/open", {"chatId": chat})  # its contents are not paced as an answer's are
    assert all(frames_in(read) for read in server.reads)
    assert 16_384 < max(map(len, server.reads)) <= 32_768


@pytest.mark.requirement("W-6e")
def test_the_clients_that_lose_something_are_known_and_all_others_alike() -> None:
    for params in (
        *(None, [], {}, {"clientInfo": None}, {"clientInfo": 7, "capabilities": []}),
        *({"clientInfo": {"name": name}} for name in (["emacs"], "Emacs")),
        {"capabilities": {"codeAssistant": {"chatCapabilities": {}}}},
    ):
        assert profile_for(params) == DEFAULT_PROFILE
    old, new, neovim = map(profile_for, (OLD_EMACS, EMACS, NEOVIM))
    assert [each.writing.splits_echo for each in (old, new)] == [True, False]
    assert [each.finishes_deleted for each in (old, new, neovim)] == [True, True, False]
    assert old.writing.shape.size == 4096
    assert old.writing.shape.pause_after_answer >= 0.005 <= new.writing.shape.pause_after_answer
    for capabilities in (None, [], {"codeAssistant": None}, {"codeAssistant": []}):
        named = {"clientInfo": {"name": "emacs"}, "capabilities": capabilities}
        assert profile_for(named) == old


ODD = st.sampled_from('\n"\\\x00\x1f\x7füの\U0001f600')
TEXTS = st.text(st.characters(exclude_categories=["Cs"]) | ODD, max_size=300)


def cost(text: str) -> int:
    return len(json.dumps(text, ensure_ascii=False).encode()) - 2


@pytest.mark.requirement("W-6a", "W-6c")
@given(text=TEXTS, limit=st.integers(6, 200))
@example(text="\n0\x1f", limit=6)
@example(text="é" * 3000, limit=100)
def test_pieces_join_to_the_text_and_each_is_within_the_limit(text: str, limit: int) -> None:
    cut = list(pieces(text, limit))
    assert "".join(cut) == text
    assert all(cut)
    assert all(cost(piece) <= limit for piece in cut)
    for piece, following in itertools.pairwise(cut):
        assert "\n" in piece or cost(piece + following[0]) > limit
    assert limit < 100 or len(cut) <= 1 + cost(text) // 47  # less than half of a piece is lost


class FakePeer:
    """Records the contents that a session sends."""

    closed = False
    transport = None

    def __init__(self) -> None:
        self.params: list[m.ChatContentReceivedParams] = []

    def notify(
        self, method: str, params: m.ChatContentReceivedParams, *, codec: Any = None
    ) -> None:
        assert method == "chat/contentReceived"
        self.params.append(params)


CALL = {"origin": "native", "id": "t", "name": "n", "server": "eca"}
CUT: list[tuple[str, str, type[Any], dict[str, Any]]] = [
    ("user", "text", m.ChatTextContent, {"content_id": "t"}),
    ("assistant", "text", m.ChatTextContent, {}),
    ("assistant", "text", m.ChatReasonTextContent, {"id": "t"}),
    ("assistant", "arguments_text", m.ChatToolCallPrepareContent, CALL),
]


@given(text=TEXTS, limit=st.integers(6, 200), splits_echo=st.booleans())
@example(text="\x00" * 10, limit=40, splits_echo=True)
def test_contents_are_cut_as_the_profile_says(text: str, limit: int, splits_echo: bool) -> None:
    for role, member, kind, others in CUT:
        peer = FakePeer()
        session = Session(peer)
        session.profile = ClientProfile(writing=Writing(text_limit=limit, splits_echo=splits_echo))
        session.emit("c", role, kind(**{member: text}, **others))
        session.emit("c", "system", m.ChatProgressContent(state="finished", text=""))
        *written, _ = peer.params
        texts = [getattr(params.content, member) for params in written]
        assert "".join(texts) == text
        for params, piece in zip(written, texts, strict=True):
            assert (params.role, params.content) == (role, kind(**{member: piece}, **others))
        if role != "user" or splits_echo:
            assert all(cost(each) <= limit for each in texts)
        else:
            assert len(texts) == 1


@pytest.mark.parametrize("is_old", [True, False])
def test_an_old_emacs_gets_a_rejected_change_without_its_details(is_old: bool) -> None:
    change = m.FileChangeDetails(path="/w/a.py", diff="@@", lines_added=1, lines_removed=0)
    rejected = m.ChatToolCallRejectedContent(
        id="1", name="eca_edit_file", server="eca", origin="native", arguments={},
        reason="user-choice", summary="Editing file a.py", details=change,
    )  # fmt: skip
    called = m.ChatToolCalledContent(
        id="2", name="eca_edit_file", server="eca", origin="native", arguments={},
        error=False, outputs=(), details=change,
    )  # fmt: skip
    formatter = ContentFormatter(profile_for(OLD_EMACS if is_old else EMACS))
    [written], [other] = (formatter.messages("c", "assistant", each) for each in (rejected, called))
    assert (written.content.details is None) is is_old
    assert written.content.summary == ("Editing file a.py" if is_old else "Editing file")
    assert other.content.details == change


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
