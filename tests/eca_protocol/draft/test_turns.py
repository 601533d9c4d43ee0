"""A turn's contents in the draft: written by a server, read by a client (W-50, W-52)."""

import difflib
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_protocol import messages as m
from eca_protocol.draft import DRAFT, DraftCodec
from eca_protocol.draft.code_blocks import MAX_BLOCK, CodeBlocks
from eca_protocol.draft.file_changes import parse_changes
from eca_protocol.draft.models import Change, CodeBlock, LineRange
from eca_protocol.errors import DecodeError
from eca_protocol.fold import Fold
from eca_protocol.revisions import Revision
from eca_protocol.testing import strategies as eca
from tests.eca_protocol.draft.letter import assert_is

CONTENT = "chat/contentReceived"
RUNNING = m.ChatProgressContent(state="running", text="Generating")
FINISHED = m.ChatProgressContent(state="finished")
NAMES: dict[str, Any] = {"name": "eca_write_file", "server": "eca", "origin": "native"}
WRITES = m.FileChangeDetails(path="/p/a", diff="@@ -0,0 +1 @@\n+x", lines_added=1, lines_removed=0)

RoleContent = tuple[m.ChatRole, m.ChatContent]


def says(text: str, role: m.ChatRole = "assistant") -> RoleContent:
    return role, m.ChatTextContent(text=text)


def write(codec: DraftCodec, *contents: RoleContent | m.ChatContent, chat: str = "c") -> list[Any]:
    """Return the draft contents of a server's contents, checked against the draft's text."""
    raw_contents: list[Any] = []
    for each in contents:
        role, content = each if isinstance(each, tuple) else ("system", each)
        params = m.ChatContentReceivedParams(chat_id=chat, role=role, content=content)
        for method, raw in codec.outgoing(CONTENT, params):
            assert method == CONTENT
            assert_is("ChatContentReceivedParams", raw)
            raw_contents.append(raw)
    return raw_contents


def call(what: str, call_id: str = "1", **more: Any) -> m.ChatContent:
    classes: dict[str, Any] = {
        "run": m.ChatToolCallRunContent,
        "running": m.ChatToolCallRunningContent,
        "called": m.ChatToolCalledContent,
        "rejected": m.ChatToolCallRejectedContent,
    }
    return classes[what](**{**NAMES, "id": call_id, "summary": "Writing a", **more})


def texts(written: Sequence[Any]) -> list[str]:
    return [raw["content"]["text"] for raw in written if raw["content"]["type"] == "text"]


def changes(written: Sequence[Any]) -> list[Any]:
    return [raw["content"] for raw in written if raw["content"]["type"] == "fileChange"]


ROLES = st.sampled_from(["user", "system", "assistant"])
STREAMS = st.lists(st.tuples(st.sampled_from("ab"), ROLES, eca.contents()), max_size=8)


@pytest.mark.requirement("W-50c")
@given(st.lists(st.tuples(ROLES, st.text("ab\n", min_size=1, max_size=4)), max_size=8))
def test_no_text_is_lost_and_pieces_are_not_torn_apart(pieces):
    written = write(DraftCodec(), *(says(text, role) for role, text in pieces), FINISHED)
    result = "".join(texts(written))
    expected = "".join(text for role, text in pieces if role != "user")
    assert result.replace("\n", "") == expected.replace("\n", "")
    if all(role == "assistant" for role, _ in pieces):
        assert result == expected


def test_a_turn_is_deltas_without_echo_and_a_closing_text_with_its_tokens():
    usage = m.ChatUsageContent(session_tokens=900, tokens_used=12)
    contents = (RUNNING, says("hello", "user"), says("Hel"), says("lo!"), usage, FINISHED)
    written = write(DraftCodec(), *contents)
    shown = [(raw["content"]["text"], raw["isComplete"]) for raw in written]
    assert shown == [("Hel", False), ("lo!", False), ("", True)]
    assert [raw.get("metadata") for raw in written] == [None, None, {"tokensUsed": 12}]


@pytest.mark.parametrize("of_turn", [[], [m.ChatUsageContent(session_tokens=912, tokens_used=7)]])
def test_the_tokens_of_a_replay_are_not_those_of_the_turn_behind_it(of_turn):
    replay = (says("hello", "user"), says("Hi."))
    usage = m.ChatUsageContent(session_tokens=905, tokens_used=12)
    contents = (*replay, usage, RUNNING, says("go on", "user"), *of_turn, RUNNING, FINISHED)
    closing = write(DraftCodec(), *contents)[-1]
    assert closing["metadata"] == {"tokensUsed": 7 if of_turn else 0}


BROKE = says("It broke off.", "system")


@pytest.mark.parametrize(
    ("contents", "expected"),
    [
        ([says("The provider is down.", "system"), m.ChatUsageContent(session_tokens=1)],
         ["The provider is down."]),
        ([says("half"), BROKE], ["half", "\n\nIt broke off."]),
        ([says("a note", "system"), RUNNING, says("text")], ["a note", "\n\ntext", ""]),
        ([says("one\n", "system"), says("two", "system")], ["one\n", "two"]),
        ([says("a"), m.ChatReasonStartedContent(id="1"), says("b")], ["a", "\n\nb", ""]),
        ([says("a"), m.ChatMetadataContent(title="t"), says("b")], ["a", "b", ""]),
    ],
)  # fmt: skip
def test_the_server_s_closing_text_closes_the_turn(contents, expected):
    assert texts(write(DraftCodec(), *contents, FINISHED)) == expected


@pytest.mark.parametrize(
    ("contents", "blocks"),
    [
        (
            map(says, ["Look:\n``", "`py\nx = 1\n", "```", "\nDone. ~~~\n~~~sh\nls"]),
            [[], [], [], [{"code": "x = 1", "language": "py"}], [{"code": "ls", "language": "sh"}]],
        ),
        ([says("```py\nx ="), BROKE], [[], [{"code": "x =", "language": "py"}]]),
        ([says("~~~\na"), call("run"), says("b\n~~~\nc")], [[], [{"code": "a"}], [{"code": "c"}]]),
    ],
)
def test_a_block_of_code_is_reported_once_with_the_delta_that_ends_it(contents, blocks):
    written = write(DraftCodec(), *contents, FINISHED)
    assert [raw["content"].get("codeBlocks", []) for raw in written] == blocks


def test_nothing_of_a_deleted_chat_is_left_to_one_of_its_id():
    codec = DraftCodec()
    write(codec, says("```py\nx = 1\n"), m.ChatUsageContent(session_tokens=9, tokens_used=9))
    codec.decode_params("chat/delete", {"chatId": "c"})
    first, closing = write(codec, says("words"), BROKE, FINISHED)
    assert first["content"] == {"type": "text", "text": "words"}
    assert closing["content"] == {"type": "text", "text": "\n\nIt broke off."}
    assert closing["metadata"] == {"tokensUsed": 0}


PENDING_CALL = call("run", manual_approval=True)


@pytest.mark.requirement("W-50b")
@pytest.mark.parametrize(
    ("contents", "expected", "expected_texts"),
    [
        ([call("run"), call("running"), call("called", details=WRITES)], [False], []),
        ([call("run"), call("running"), call("called", error=True, details=WRITES)], [], []),
        ([call("run"), call("rejected", reason="user-config", details=WRITES)], [], []),
        ([call("run"), call("running"), call("called")], [], []),
        ([call("called", name="eca_preview_file_change", details=WRITES)], [], []),
        ([PENDING_CALL, call("called", details=WRITES)], [True], []),
        ([PENDING_CALL, call("called", error=True)], [True], ["Failed: Writing a."]),
        ([PENDING_CALL, call("rejected", reason="user-choice")], [True], ["Rejected: Writing a."]),
    ],
)
def test_a_change_is_reported_when_it_waits_or_when_it_is_made(contents, expected, expected_texts):
    written = write(DraftCodec(), *contents, FINISHED)
    assert [change["manualApproval"] for change in changes(written)] == expected
    assert texts(written) == [*expected_texts, ""]


def test_a_change_names_its_file_and_lines_or_says_how_many_they_are():
    cut = m.FileChangeDetails(path="/p/a", diff="@@ -1 +1 @@", lines_added=7, lines_removed=1)
    written = write(DraftCodec(), call("called", details=WRITES), call("called", details=cut))
    change = {"type": "fileChange", "manualApproval": False, "file": "/p/a"}
    too_long = "Writing a (too long to be shown: 7 lines added, 1 removed)"
    created = {"changes": [{"kind": "create", "content": "x\n"}]}
    assert changes(written) == [
        {**change, "description": "Writing a", **created},
        {**change, "description": too_long},
    ]


@pytest.mark.parametrize("what", ["Approve", "Reject"])
@pytest.mark.parametrize(
    ("waiting", "named", "meant"),
    [
        (["1"], None, "1"),
        (["1"], "anything", "1"),
        (["1", "2"], "2", "2"),
        (["1", "2"], "anything", "anything"),
        ([], "anything", "anything"),
    ],
)
def test_a_decision_means_the_chat_s_only_call_that_waits(what, waiting, named, meant):
    codec = DraftCodec()
    write(codec, *(call("run", each, manual_approval=True) for each in waiting))
    write(codec, call("run", "done", manual_approval=True), call("running", "done"))
    write(codec, call("run", "never asked"))
    raw = {"chatId": "c"} | ({} if named is None else {"toolCallId": named})
    ((_, read),) = codec.incoming(f"chat/toolCall{what}", raw)
    assert (read.chat_id, read.tool_call_id) == ("c", meant)


def read(codec: DraftCodec, *raw: Any) -> list[RoleContent]:
    return [
        (params.role, params.content)
        for each in raw
        for _, params in codec.incoming(CONTENT, {"chatId": "c", "isComplete": False, **each})
    ]


CHANGE = {
    "type": "fileChange",
    "description": "Add x",
    "manualApproval": True,
    "file": "/p/a",
    "changes": [{"kind": "create", "content": "x", "odd": 1}],
}


@given(eca.broken(eca.raw_params(CONTENT, revision=Revision.DRAFT, table=DRAFT)))
def test_what_a_draft_server_says_wrong_is_refused_and_no_more(raw):
    codec = DraftCodec()
    read(codec, {"content": {"type": "text", "text": "a turn runs"}})
    same_chat = {**raw, "chatId": "c"} if isinstance(raw, dict) and "chatId" in raw else raw
    for params in (raw, same_chat):
        try:
            assert all(name == CONTENT for name, _ in codec.incoming(CONTENT, params))
        except DecodeError:
            continue


@given(st.sampled_from([m.ChatToolCallApproveParams, m.ChatToolCallRejectParams]), st.data())
def test_a_decision_in_any_shape_does_no_harm(kind, data):
    codec = DraftCodec()
    write(codec, call("run", "1", manual_approval=True))
    method = f"chat/toolCall{kind.__name__.removeprefix('ChatToolCall').removesuffix('Params')}"
    raw = data.draw(
        eca.json_values() | eca.json_objects().map(lambda more: {"chatId": "c", **more})
    )
    try:
        ((_, read),) = codec.incoming(method, raw)
    except DecodeError:
        return
    assert read.tool_call_id == "1"


def test_a_draft_server_s_turn_is_heard_as_a_turn():
    codec = DraftCodec()
    text = {"content": {"type": "text", "text": "Hi", "codeBlocks": [{"code": "x"}]}}
    end = {"content": {"type": "text", "text": ""}, "isComplete": True}
    running, finished = ("system", RUNNING), ("system", FINISHED)
    assert read(codec, text, text, end) == [running, says("Hi"), says("Hi"), finished]
    counted = end | {"metadata": {"tokensUsed": 5}}
    contents = [content for _, content in read(codec, counted) + read(codec, counted)]
    usages = [each for each in contents if isinstance(each, m.ChatUsageContent)]
    assert [each.session_tokens for each in usages] == [5, 10]


@pytest.mark.parametrize("approved", [None, False, True])
def test_a_draft_server_s_change_is_heard_as_a_call_with_an_end(approved):
    codec = DraftCodec()
    change = CHANGE | {"manualApproval": approved is not None}
    contents = [content for _, content in read(codec, {"content": change})]
    (run,) = [each for each in contents if isinstance(each, m.ChatToolCallRunContent)]
    assert run.arguments == {"file": "/p/a", "changes": CHANGE["changes"]}
    assert (run.summary, run.manual_approval) == ("Add x", approved is not None)
    if approved:
        params = m.ChatToolCallApproveParams(chat_id="c", tool_call_id=run.id)
        assert codec.outgoing("chat/toolCallApprove", params) == (
            ("chat/toolCallApprove", {"chatId": "c", "toolCallId": run.id}),
        )
    end = {"content": {"type": "text", "text": ""}, "isComplete": True}
    contents += [content for _, content in read(codec, end)]
    types = [each.type for each in contents if not isinstance(each, m.ChatProgressContent)]
    ends = ["toolCallRejected"] if approved is False else ["toolCallRunning", "toolCalled"]
    assert types == ["toolCallPrepare", "toolCallRun", *ends]


@given(STREAMS)
def test_what_one_side_sends_the_other_reads_as_turns_with_one_end(stream):
    server, client = DraftCodec(), DraftCodec()
    written = []
    for chat, role, content in [*stream, ("a", "system", FINISHED), ("b", "system", FINISHED)]:
        raws = write(server, (role, content), chat=chat)
        is_end = isinstance(content, m.ChatProgressContent) and content.state == "finished"
        assert [raw["isComplete"] for raw in raws if raw["isComplete"]] == [True] * is_end
        if is_end:
            (closing,) = raws
            assert closing["content"]["type"] == "text"
            assert isinstance(closing["metadata"]["tokensUsed"], int)
        assert all(raw["chatId"] == chat for raw in raws)
        written += raws
    contents = [params for raw in written for _, params in client.incoming(CONTENT, raw)]
    shown = Fold()
    for params in contents:
        shown.on_prompt(params.chat_id)
        assert shown.take(CONTENT, params) == ()
    for chat in "ab":
        ends = [raw["isComplete"] for raw in written if raw["chatId"] == chat]
        mine = [params.content for params in contents if params.chat_id == chat]
        assert sum(content == FINISHED for content in mine) == sum(ends)
        assert sum(content == RUNNING for content in mine) - sum(ends) in (0, 1)
        text = "".join(each.text for each in mine if isinstance(each, m.ChatTextContent))
        assert text == "".join(texts([raw for raw in written if raw["chatId"] == chat]))


def diff(before: Sequence[str], after: Sequence[str], context: int = 3) -> str:
    lines = difflib.unified_diff(before, after, "old", "new", n=context, lineterm="")
    return "\n".join(lines)


def applied(before: Sequence[str], changes: Sequence[Change]) -> str:
    """Apply the changes to a file, as an editor does."""
    text = [f"{line}\n" for line in before]
    for change in reversed(changes):
        if change.range is None:
            assert change.kind == "create"
            assert not before
            text = [change.content or ""]
        else:
            assert (change.kind == "delete") == (change.content is None)
            assert change.range.start_line <= change.range.end_line
            text[change.range.start_line - 1 : change.range.end_line] = [change.content or ""]
    return "".join(text)


TEXTS = st.lists(st.sampled_from("abc"), max_size=12)


@given(TEXTS, TEXTS, st.integers(1, 3))
def test_applying_the_changes_gives_the_new_file(before, after, context):
    changes = parse_changes(diff(before, after, context))
    assert applied(before, changes) == "".join(f"{line}\n" for line in after)


def change(content: str | None, start: int, end: int) -> tuple[Change]:
    kind: Any = "delete" if content is None else "change"
    return (Change(kind=kind, content=content, range=LineRange(start_line=start, end_line=end)),)


NO_NEWLINE = "\\ No newline at end of file"


@pytest.mark.parametrize(
    ("hunks", "expected"),
    [
        ("", ()),
        ("@@ -0,0 +1,2 @@\n+a\n+b", (Change(kind="create", content="a\nb\n"),)),
        (f"@@ -0,0 +1 @@\n+a\n{NO_NEWLINE}", (Change(kind="create", content="a"),)),
        ("@@ -1,2 +0,0 @@\n-a\n-b", change(None, 1, 2)),
        ("@@ -1,3 +1,2 @@\n a\n-b\n c", change(None, 2, 2)),
        ("@@ -4,3 +4,4 @@\n a\n-b\n+x\n+y\n c", change("x\ny\n", 5, 5)),
        ("@@ -1,2 +1,3 @@\n+x\n a\n b", change("x\na\n", 1, 1)),
        (f"@@ -7 +7 @@\n-a\n{NO_NEWLINE}\n+b", change("b\n", 7, 7)),
    ],
)
def test_a_hunk_is_a_change(hunks, expected):
    assert parse_changes(hunks) == expected


@pytest.mark.parametrize(
    "cut",
    [
        "@@ -1,3 +1,3 @@\n a\n-b\n... cut, 10 bytes left out ...",
        "@@ -1 +1 @@\n-a\n+b\n... cut, 99 bytes left out ...",
        "... cut, 99 bytes left out ...",
        "@@ -1,3 +1,3 @@\n a",
        "@@ -1 +1 @@\n-a\n+b\n more",
        "@@ -5,0 +6 @@\n+nothing to hang it on",
        "no diff",
    ],
)
def test_what_is_not_whole_gives_no_changes(cut):
    assert parse_changes(cut) is None


def blocks(*pieces: str) -> list[tuple[str | None, str]]:
    finder = CodeBlocks()
    blocks = [block for piece in pieces for block in finder.feed(piece)]
    return [(block.language, block.code) for block in (*blocks, *finder.close())]


@pytest.mark.requirement("W-50d")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("no code `here`", []),
        ("a\n```python\nx = 1\n\ny\n```\nb", [("python", "x = 1\n\ny")]),
        ("```\nplain\n```", [(None, "plain")]),
        ("```js title=x\r\na\r\n```\r\n", [("js", "a")]),
        ("~~~\n```\n~~~", [(None, "```")]),
        ("````md\n```\nin\n```\n````\n", [("md", "```\nin\n```")]),
        ("- item\n  ```sh\n  ls\n    deep\n  ```", [("sh", "ls\n  deep")]),
        ("```a``` is no fence\n", []),
        ("```py\nnever closed", [("py", "never closed")]),
        ("```\n```\n```x\n1\n```", [(None, ""), ("x", "1")]),
        ("```\n" + "y\n" * MAX_BLOCK + "```", []),
    ],
)
def test_the_fences_of_a_text_are_its_blocks(text: str, expected: list[object]) -> None:
    assert blocks(text) == expected


def test_a_block_is_given_with_the_piece_that_holds_the_last_of_it() -> None:
    finder = CodeBlocks()
    assert [len(finder.feed(piece)) for piece in ("``", "`x\n1", "\n`", "``", "\nafter")] == [
        0, 0, 0, 0, 1,
    ]  # fmt: skip
    assert finder.feed("\n```\nopen") == ()
    assert finder.close() == (CodeBlock(code="open"),)
    assert finder.close() == ()


FENCES = st.lists(st.sampled_from(["```", "```py", "~~~~", "  ```", "x", "", "`"]), max_size=8)


@given(FENCES.map("\n".join), st.data())
def test_how_a_text_is_cut_does_not_matter(text: str, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(text)))
    assert blocks(text[:cut], text[cut:]) == blocks(*text) == blocks(text)
