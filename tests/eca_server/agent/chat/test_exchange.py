"""Chats that go to a file and come back, and files that others wrote."""

import threading
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from eca_protocol.testing.strategies import json_values
from eca_server.agent.chat.exchange import edn
from eca_server.agent.chat.exchange.reading import BadExport, read_export
from eca_server.agent.chat.exchange.written import envelope, markdown
from eca_server.agent.chat.flags import Flag
from eca_server.agent.commands import exchange
from eca_server.models import history as h
from tests.eca_server.agent.chat.current import current, since
from tests.eca_server.agent.chat.editor import SCRIPT

UPSTREAM = r"""
{:eca/version "0.155.1", :eca/export-version 1, :exported-at 1700000000000,
 :chat ; all that is kept
 {:id "chat-1" :title "Fix  the Bug!" :title-custom? true :status :idle :trust true
  :model "anthropic/claude" :variant "high" :last-api :anthropic
  :prompt-id #uuid "00000000-0000-0000-0000-000000000001" #_ :gone #_ {:a 1}
  :usage {:total-input-tokens 100 :cost 1.5M :big 12N :nothing nil}
  :task {:next-id 2 :tasks [{:id 1 :blocked-by #{2 3}}]}
  :messages
  [{:role "user" :content "hello \"there\"\nü \uD83D\uDE00 \\" :content-id "c1" :created-at 1}
   {:role "flag" :content {:text "here"} :content-id "f1"}
   {:role "reason" :content {:id "r" :external-id "sig" :text "hm"}}
   {:role "assistant" :content [{:type :text :text "I look."}] :content-id "c2"}
   {:role "tool_call" :content {:id "t1" :name "read_file" :full-name "eca__read_file"
     :server "eca" :origin :native :arguments {:path "/project/x" "deep" [{:a (1 2)}]}}}
   {:role "tool_call" :content {:id "t2" :name "f" :server "srv" :arguments nil}}
   {:role "tool_call_output" :content {:id "t1" :name "read_file" :error false
     :output {:error false :contents [{:type :text :text "x is 1"}]}}}
   {:role "tool_call_output" :content {:id "t2" :name "f" :output {:error true :contents []}}}
   {:role "tool_call_output" :content {:id "t9" :output {}}}
   {:role "server_tool_use" :content {}}
   {:role "assistant" :content [{:type :text :text "Done."}]}
   {:role "compact_marker" :content {:auto? false}}
   {:role "user" :content
    [{:type :text
      :text "The conversation was compacted/summarized, consider this summary:\nshort"}]}
   {:role "user" :content [{:type :text :text "go on"}
     {:type :image :media-type "image/png" :base64 "aGk="}] :content-id "c1"}]}}
"""


def test_what_upstream_writes_is_read() -> None:
    chat = read_export(UPSTREAM)
    assert (chat.title, chat.model, chat.variant) == ("Fix the Bug!", "anthropic/claude", "high")
    assert chat.is_named_by_user
    assert [*chat.flags.values()] == [Flag(after="c1", text="here")]
    assert chat.skipped == {"tool_call_output": 1, "server_tool_use": 1}
    first, answer, results, done, summary, last = chat.messages
    assert first.parts == (h.TextPart('hello "there"\nü 😀 \\'),)
    assert first.content_id == "c1"
    assert answer.parts == (
        h.ReasoningPart(text="hm", id="r"),
        h.TextPart("I look."),
        h.ToolCallPart(
            id="t1", name="eca_read_file", raw='{"path":"/project/x","deep":[{"a":[1,2]}]}',
            arguments={"path": "/project/x", "deep": [{"a": [1, 2]}]},
            server="eca", tool="eca_read_file",
        ),
        h.ToolCallPart(id="t2", name="srv_f", raw="{}", arguments={}, server="srv", tool="f"),
    )  # fmt: skip
    assert results.parts == (
        h.ToolResultPart(call_id="t1", parts=(h.TextPart("x is 1"),)),
        h.ToolResultPart(call_id="t2", parts=(h.TextPart("(no output)"),), is_error=True),
    )
    assert done.parts == (h.TextPart("Done."),)
    assert summary.parts == (h.CompactionPart("short"),)
    assert last.parts == (h.TextPart("go on"), h.ImagePart(media_type="image/png", data=b"hi"))
    assert last.content_id is None  # of two messages with one id the first has it


def test_what_is_written_is_read_again() -> None:
    chat = read_export(UPSTREAM)
    for write in (edn.dumps, lambda whole: edn.json.dumps(edn.plain(whole)).decode()):
        whole = envelope(
            chat.messages, {"id": "c", "title": "T"}, version="1", exported_at=1,
            flags=chat.flags, hide=lambda text: text.replace("hello", "***"),
        )  # fmt: skip
        again = read_export(write(whole))
        assert again.title == "T"
        assert [*again.flags.values()] == [*chat.flags.values()]
        first, *rest = [each.parts for each in again.messages]
        assert first == (h.TextPart('*** "there"\nü 😀 \\'),)
        assert rest == [each.parts for each in chat.messages[1:]]
    shown = markdown(chat.messages, "A \n title", hide=lambda text: text)
    assert shown.startswith("# A title\n\n## User\n\nhello")
    assert "> hm" in shown
    assert "**Called `eca/eca_read_file`**" in shown


def test_a_key_is_hidden_in_an_argument_of_any_name() -> None:
    call = h.ToolCallPart(id="1", name="f", raw="", arguments={"base64": "sk-1"})
    message = h.Message(role="assistant", parts=(call,))
    about = {"version": "1", "exported_at": 1, "flags": {}}
    whole = envelope([message], {}, **about, hide=lambda text: text.replace("sk", ""))
    assert "sk-1" not in edn.dumps(whole)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("", "neither EDN nor JSON: expected a value, got something else or the end, in line 1"),
        ("{:a", "neither EDN nor JSON"),
        ("{:a 1} 2", "expected the end"),
        ("[" * 200, "expected at most 128 collections"),
        ("#_" * 2000, "expected at most 128 collections"),
        ("#_[" * 2000, "expected at most 128 collections"),
        ("{:a 1e999}", "expected a value, got something else"),
        ('{"a": 1', "neither EDN nor JSON"),
        ("{:a 1}", "without eca/export-version"),
        ("{:eca/export-version 2 :chat {}}", "expected version 1 of an exported chat, got 2"),
        ("{:eca/export-version 1 :chat {:messages 3}}", "a list of messages"),
        ("{:eca/export-version 1 :chat {:messages [1]}}", "chat.messages[0]: expected a map"),
        ('{:eca/export-version 1 :chat {:messages [{:role "user" :content [{:type :image}]}]}}',
            "chat.messages[0]: expected the content of a 'user'"),
    ],
)  # fmt: skip
def test_what_is_no_exported_chat_is_refused(written: str, expected: str) -> None:
    with pytest.raises(BadExport) as refused:
        read_export(written)
    assert expected in str(refused.value)


@given(json_values())
def test_every_value_of_json_comes_back_from_edn(value: Any) -> None:
    assert edn.loads(edn.dumps(value)) == value


@given(st.text('{}[]()#_:"\\ \n;a1,nilu0') | st.text())
def test_every_text_is_read_or_refused(written: str) -> None:
    try:
        edn.loads(written)
    except edn.BadEDN:
        with pytest.raises(BadExport):
            read_export(written)


async def test_a_chat_is_exported_and_imported_as_a_new_one(tmp_path: Path) -> None:
    key, header = "sk-1234567890abcdef", "planted-header-of-a-server"
    server = {"url": "http://x/mcp", "headers": {"X-Team": header}, "disabled": True}
    config = {"mcpServers": {"one": server}}
    async with current(data=tmp_path / "data", folder=tmp_path, config=config) as ours:
        assert "nothing to export" in (await ours.turn("/export")).text
        await ours.turn(f"think hm\nsay one {key} {header}", model=SCRIPT)
        await ours.ask("chat/update", {"chatId": "c", "title": "My Chat: Größe!"})
        assert "Exported 2 messages" in (await ours.turn("/export", model=SCRIPT)).text
        written = tmp_path / "eca-chat-my-chat-größe.edn"
        assert written.stat().st_mode & 0o777 == 0o600
        assert key not in written.read_text()
        assert header not in written.read_text()
        for command, phrase in (
            ("/export", "eca-chat-my-chat-größe-2.edn"),
            (f"/export {written}", "already exists"),
            ("/export sub/chat.md", "chat.md`. Keys are masked in it."),
            ("/export sub", "sub/eca-chat-my-chat-größe.edn"),
            ("/export chat.json", "/import"),
            ("/import", "The path is missing"),
            ("/import none.edn", "No such file"),
            ("/import sub/chat.md", "neither EDN"),
            ("/import sub", "Expected a file"),
        ):
            assert phrase in (await ours.turn(command, model=SCRIPT)).text
        for path in ("sub/eca-chat-my-chat-größe.edn", "chat.json"):
            begun = len(ours.received)
            assert "Imported 2 messages" in (await ours.turn(f"/import {path}")).text
            messages = since(ours, begun)
            names = [name for name, _ in messages]
            opened = names.index("chat/opened")
            assert messages[opened + 1 :][:5] == [
                ("text", "think hm\nsay one *** ***"), ("reasonStarted", None),
                ("reasonText", "hm"), ("reasonFinished", None), ("text", "one *** ***"),
            ]  # fmt: skip
            new = messages[opened][1]["chatId"]
            assert (await ours.prompt("say on", new))["model"] == SCRIPT
            await ours.expect_finished(new)
        assert len((await ours.ask("chat/list"))["chats"]) == 3


@pytest.mark.parametrize("suffix", ["edn", "md"])
async def test_a_stopped_export_of_a_large_chat_ends_its_thread(
    ours, tmp_path, monkeypatch, suffix
):
    begun, may_continue, masked = threading.Event(), threading.Event(), []

    def mask(text: str, _: object) -> str:
        masked.append(text)
        begun.set()
        may_continue.wait(5)
        return text

    monkeypatch.setattr(exchange, "mask_keys", mask)
    await ours.turn("repeat 3 one", model=SCRIPT)
    await ours.prompt(f"/export {tmp_path / f'chat.{suffix}'}", model=SCRIPT)
    await trio.to_thread.run_sync(begun.wait, 5)
    await ours.stop()
    await ours.ask("chat/list")  # behind the stop
    may_continue.set()
    await ours.expect_finishes(2)  # a slow stop leaves the thread alone and ends at once
    assert len(masked) == 1
    assert "oneone" not in masked[0]  # a chat is masked in parts
    assert not [*tmp_path.glob("chat.*")]


async def test_older_editions_import_into_the_chat_at_hand(ours, tmp_path: Path):
    path = tmp_path / "chat.edn"
    path.write_text(UPSTREAM)
    await ours.turn("before")
    report = (await ours.turn(f"/import {path}")).text
    assert "Added 2 messages to this chat" in report  # a summary, and what followed it
    sent = ours.connection.chats.open("c").history.model_context
    assert ["before" in str(sent), "short" in str(sent)] == [True, True]
    left_out = "Left out, since only the server that wrote them can read them: "
    assert f"{left_out}1 tool_call_output, 1 serv" in report
    assert "anthropic/claude, is not available here" in report
    assert ours.notified("chat/opened") == []
