"""A draft connection: canonical types in the program, the draft's messages on the wire."""

from collections.abc import Mapping
from typing import Any

import attrs
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from docs.draft_counterparts import CONTENTS, CONTEXTS, DRAFT_ONLY, METHODS
from eca_protocol import messages as m
from eca_protocol.codec import Codec, explain
from eca_protocol.draft import DRAFT, DraftCodec, codec_for
from eca_protocol.errors import DecodeError, LocalProtocolError, RequestFailed
from eca_protocol.messages.shapes import fields_of, shape_of
from eca_protocol.methods import ECA
from eca_protocol.revisions import Revision
from eca_protocol.testing import strategies as eca
from tests.eca_protocol.draft.letter import NOTIFICATIONS, REQUESTS, assert_is

HELLO = m.InitializeParams(
    process_id=7,
    client_info=m.ClientInfo(name="me", version="1"),
    initialization_options=m.InitializationOptions(extras={"some": {"key": 1}}),
    capabilities=m.ClientCapabilities(code_assistant=m.CodeAssistantCapabilities(chat=True)),
    workspace_folders=(m.WorkspaceFolder(uri="file:///a", name="a"),),
)
HERE = m.Position(line=3, character=9)
RANGE = m.LinesRange(start=2, end=5)


def cursor(path: str) -> m.CursorContext:
    return m.CursorContext(path=path, position=m.Range(start=HERE, end=HERE))


@pytest.mark.requirement("W-50a")
def test_the_handshake_is_the_draft_s_and_a_codec_its_connection_s_own():
    assert codec_for(Revision.DRAFT) is not codec_for(Revision.DRAFT)
    others = [codec_for(each) for each in Revision if each is not Revision.DRAFT]
    assert [codec.revision for codec in others if isinstance(codec, Codec)] == list(Revision)[1:]
    raw = DraftCodec().encode_params("initialize", HELLO)
    assert_is(REQUESTS["initialize"][0], raw)
    assert raw["capabilities"]["codeAssistant"].keys() >= {"chat", "doc", "edit", "fix"}
    assert DraftCodec().decode_params("initialize", raw) == HELLO
    answer = m.InitializeResponse(chat_welcome_message="Hello!")
    assert DraftCodec().encode_result("initialize", answer) == {}
    assert DraftCodec().decode_result("initialize", {}) == m.InitializeResponse()
    assert DraftCodec().outgoing("initialized", m.InitializedParams()) == (("initialized", {}),)


@pytest.mark.requirement("W-51b")
@given(eca.json_values(), st.sampled_from([{"doc": True}, {"edit": None}, {"fix": False, "x": 1}]))
def test_options_of_any_type_and_the_draft_s_capabilities_are_read(options, assistant):
    members = {field.wire for field in fields_of(m.InitializationOptions)}
    assume(not isinstance(options, dict) or members.isdisjoint(options))
    raw = {"initializationOptions": options, "capabilities": {"codeAssistant": assistant}}
    read = DraftCodec().decode_params("initialize", raw)
    if isinstance(options, dict):
        assert read.initialization_options.extras == options
    else:
        assert read.initialization_options is None


def test_what_fits_no_edition_is_the_configuration_s_and_no_editor_is_asked_in_the_draft():
    options = {"chatBehavior": 5, "rules": []}
    able = {"codeAssistant": {"fix": True, "editor": {"diagnostics": True}}}
    raw = {"initializationOptions": options, "capabilities": able}
    read = DraftCodec().decode_params("initialize", raw)
    assert read.initialization_options == m.InitializationOptions(extras=options)
    assert read.capabilities.code_assistant == m.CodeAssistantCapabilities()


LINES = {"selection": {"startLine": 2, "endLine": 5}, "cursor": {"line": 3, "character": 9}}
FILE = {"type": "file", "path": "/a"}
CODE = {"type": "code", "content": "x = 1", "language": "python"}
TERMINAL = {"type": "terminal", "any": 1}


@pytest.mark.requirement("W-51a")
@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (FILE, [m.FileContext(path="/a")]),
        (FILE | LINES, [m.FileContext(path="/a", lines_range=RANGE), cursor("/a")]),
        ({"type": "web", "url": "https://x"}, [m.WebContext(url="https://x")]),
        (
            CODE | {"description": "a test"},
            [m.TextContext(label="a test (python)", content="x = 1")],
        ),
        (CODE, [m.TextContext(label="code (python)", content="x = 1")]),
        (TERMINAL, [m.UnknownContext(type="terminal", raw=TERMINAL)]),
    ],
)
def test_contexts_are_read(raw, expected):
    read = DraftCodec().decode_params("chat/prompt", {"message": "x", "context": [raw]})
    assert list(read.contexts) == expected


@pytest.mark.parametrize(
    ("context", "path"),
    [
        ({"type": "code", "language": "x"}, "params.context[0].content"),
        ({"type": "file", "path": 1}, "params.context[0].path"),
        ({"type": "file", "path": "", "cursor": {"line": 1}}, "params.context[0].cursor.character"),
        (5, "params.context[0]"),
    ],
)
def test_a_context_that_means_nothing_is_refused_with_its_place(context, path):
    with pytest.raises(DecodeError) as refused:
        DraftCodec().decode_params("chat/prompt", {"message": "x", "context": [context]})
    assert refused.value.path == path


@pytest.mark.requirement("W-51c")
@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("auto", None),
        (None, None),
        ("gpt-4", "mine/gpt-4"),
        ("claude-2", None),
        ("mine/gpt-4", "mine/gpt-4"),
        ("mine/other", "mine/other"),
        ("some/unknown", "some/unknown"),
        ("other", "mine/other"),
    ],
)
def test_a_model_is_one_that_is_offered_or_the_default(model, expected):
    codec = DraftCodec()
    for chat in (m.ChatConfig(models=("mine/gpt-4", "mine/other")), m.ChatConfig()):
        assert codec.outgoing("config/updated", m.ConfigUpdatedParams(chat=chat)) == ()
    assert codec.decode_params("chat/prompt", {"message": "x", "model": model}).model == expected


PROMPT = m.ChatPromptParams(
    chat_id="c",
    message="x",
    model="openai/gpt-4",
    contexts=(
        m.FileContext(path="/a", lines_range=RANGE),
        cursor("/a"),
        m.WebContext(url="https://x"),
        m.TextContext(label="a note", content="y"),
    ),
)


def test_our_prompt_is_the_draft_s():
    raw = DraftCodec().encode_params("chat/prompt", PROMPT)
    assert_is(REQUESTS["chat/prompt"][0], raw)
    assert raw["model"] == "gpt-4"
    assert len(raw["context"]) == 3
    assert DraftCodec().decode_params("chat/prompt", raw).contexts == PROMPT.contexts
    alone = m.ChatPromptParams(message="x", contexts=(cursor("/b"), m.FileContext(path="/c")))
    assert DraftCodec().encode_params("chat/prompt", alone)["context"] == [
        {"type": "file", "path": "/b", "cursor": {"line": 3, "character": 9}},
        {"type": "file", "path": "/c"},
    ]


def test_a_member_of_a_wrong_type_is_named_in_our_initialize():
    for params, expected in (
        (m.InitializeParams(process_id="x"), 'processId: expected an integer, got "x"'),
        (
            m.InitializeParams(client_info=m.ClientInfo(name=3)),
            "clientInfo.name: expected a string",
        ),
    ):
        with pytest.raises(LocalProtocolError, match=f"initialize: params.{expected}"):
            DraftCodec().encode_params("initialize", params)


@given(eca.params("chat/prompt", unknown=False), st.lists(eca.contexts(unknown=False), max_size=3))
def test_a_prompt_is_the_draft_s_or_refused_with_the_context_it_cannot_say(params, contexts):
    params = attrs.evolve(params, contexts=tuple(contexts))
    unsayable = [each for each in params.contexts if CONTEXTS[each.type].draft is None]
    if params.model is None and unsayable:
        with pytest.raises(LocalProtocolError, match=type(unsayable[0]).__name__):
            DraftCodec().encode_params("chat/prompt", params)
        return
    try:
        raw = DraftCodec().encode_params("chat/prompt", params)
    except LocalProtocolError:
        assert params.model is not None
        return
    assert not unsayable
    assert_is(REQUESTS["chat/prompt"][0], raw)
    spoken = {each["type"] for each in raw.get("context", ())}
    assert spoken == {CONTEXTS[each.type].draft for each in params.contexts}


@pytest.mark.requirement("W-50e")
@pytest.mark.parametrize(
    ("status", "expected"),
    [("prompting", "success"), ("login", "success"), ("error", "connection-error")],
)
def test_a_prompt_is_answered_by_the_draft_s_messages(status, expected):
    answer = m.ChatPromptResponse(chat_id="c", model="p/m", status=status)
    raw = DraftCodec().encode_result("chat/prompt", answer)
    assert_is(REQUESTS["chat/prompt"][1], raw)
    assert (raw["chatId"], raw["status"]) == ("c", expected)
    assert "p/m" in raw["resultMessage"] or status == "login"


def test_a_server_that_cannot_start_a_turn_fails_our_prompt_with_its_own_message():
    answer = {"chatId": "c", "status": "success", "resultMessage": "no network today"}
    read = DraftCodec().decode_result("chat/prompt", answer)
    assert read == m.ChatPromptResponse(chat_id="c", status="prompting")
    with pytest.raises(RequestFailed, match="no network today"):
        DraftCodec().decode_result("chat/prompt", answer | {"status": "connection-error"})


@given(eca.messages(direction="server_to_client", kind="notification"))
def test_nothing_but_the_draft_s_messages_is_written(message):
    for method, raw in DraftCodec().outgoing(*message):
        assert_is(NOTIFICATIONS[method], raw)


def test_october_s_requests_of_a_draft_client_are_answered_as_in_october():
    codec, october = DraftCodec(), Codec(ECA, Revision.R2025_10)
    for method in ("chat/queryContext", "chat/queryCommands", "chat/delete"):
        assert codec.decode_params(method, {}) == october.decode_params(method, {})
    answer = m.ChatQueryCommandsResponse(commands=())
    assert codec.encode_result("chat/queryCommands", answer) == {"commands": []}
    for method in ("chat/delete", "chat/queryContext", "editor/getDiagnostics"):
        with pytest.raises(LocalProtocolError, match="does not exist in revision 2025-06"):
            codec.encode_params(method, m.ChatDeleteParams())


def test_the_kit_takes_the_draft_s_table_like_any_other():
    assert explain("initialize", {}, Revision.DRAFT, table=DRAFT)
    prompt = {"message": "x", "model": "gpt-5", "context": [{"type": "terminal"}], "contexts": []}
    departures = explain("chat/prompt", prompt, Revision.DRAFT, table=DRAFT)
    assert [(each.path, each.kind) for each in departures] == [
        ("params.model", "unknown value"),
        ("params.context[0].type", "unknown type"),
        ("params.contexts", "unknown key"),
    ]


@given(eca.messages(revision=Revision.DRAFT, table=DRAFT, kind="request"))
def test_what_the_kit_makes_in_the_draft_is_its_letter(message):
    method, params = message
    raw = Codec(DRAFT, Revision.DRAFT).encode_params(method, params)
    departures = explain(method, raw, Revision.DRAFT, table=DRAFT)
    if not any(each.kind.startswith("unknown") for each in departures):
        assert_is(REQUESTS[method][0], raw)
    DraftCodec().decode_params(method, raw)


def types_of(union: Any) -> set[str]:
    shape = shape_of(union)
    return set(shape.members)


def test_every_method_content_and_context_has_its_row_and_no_row_is_of_another() -> None:
    where = "a row in docs/draft_counterparts.py says what becomes of it in the draft"
    assert METHODS.keys() == {method.name for method in ECA}, where
    assert CONTENTS.keys() == types_of(m.ChatContent), where
    assert CONTEXTS.keys() == types_of(m.ChatContext), where
    assert {method.name for method in DRAFT} <= {row.draft for row in METHODS.values()}
    rows = [*METHODS.values(), *CONTENTS.values(), *CONTEXTS.values()]
    assert all(row.note.endswith(".") for row in rows)
    assert all(DRAFT_ONLY.values())


@given(eca.messages())
def test_a_method_is_written_where_its_row_says_so(message: tuple[str, Any]) -> None:
    method, params = message
    codec = DraftCodec()
    if isinstance(params, m.ChatContentReceivedParams | m.ChatPromptParams):
        return  # by content and by context, below
    if ECA[method].kind == "notification":
        assert bool(codec.outgoing(method, params)) == (METHODS[method].draft is not None)
    elif METHODS[method].draft is None:
        with pytest.raises(LocalProtocolError):
            codec.encode_params(method, params)
    else:
        codec.encode_params(method, params)


CALL: Mapping[str, Any] = {"id": "1", "name": "x", "server": "eca", "origin": "native"}
RUN = m.ChatToolCallRunContent(**CALL, manual_approval=True)
WRITES = m.FileChangeDetails(path="/a", diff="", lines_added=0, lines_removed=0)
FINISHED = m.ChatProgressContent(state="finished")
WRITTEN_CONTENTS = {
    "text": m.ChatTextContent(text="x"),
    "progress": FINISHED,
    "usage": m.ChatUsageContent(session_tokens=1, tokens_used=3),
    "toolCallRun": RUN,
    "toolCalled": m.ChatToolCalledContent(**CALL, details=WRITES),
    "toolCallRejected": m.ChatToolCallRejectedContent(**CALL, reason="user-choice"),
}
"""One content of each type that the draft has, after a call that waits."""


def written(codec: DraftCodec, content: m.ChatContent) -> list[Any]:
    params = m.ChatContentReceivedParams(chat_id="c", role="assistant", content=content)
    return [raw for _, raw in codec.outgoing("chat/contentReceived", params)]


def test_a_content_is_sent_as_its_row_says() -> None:
    assert {type_ for type_, row in CONTENTS.items() if row.draft} == WRITTEN_CONTENTS.keys()
    for type_, content in WRITTEN_CONTENTS.items():
        codec = DraftCodec()
        if type_ == "toolCallRejected":
            written(codec, RUN)
        contents = [*written(codec, content), *written(codec, FINISHED)]
        assert CONTENTS[type_].draft == contents[0]["content"]["type"]
        assert contents[-1]["metadata"]["tokensUsed"] == (3 if type_ == "usage" else 0)


@given(eca.contents(unknown=False))
def test_a_content_without_a_counterpart_is_not_written(content: m.ChatContent) -> None:
    assert not isinstance(content, m.UnknownContent)
    if CONTENTS[content.type].draft is None:
        assert written(DraftCodec(), content) == []
