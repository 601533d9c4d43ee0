"""The conversion of the draft's requests to the canonical types and back (W-50, W-51).

Reading `initialize` drops the capabilities to answer the server's requests, since the draft has
none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, get_args

import attrs

from eca_protocol import messages as m
from eca_protocol.codec import Codec, converter
from eca_protocol.codec.read import Mismatch
from eca_protocol.draft import models as d
from eca_protocol.draft.methods import DRAFT
from eca_protocol.errors import INTERNAL_ERROR, LocalProtocolError, RequestFailed
from eca_protocol.revisions import Revision

LITERALS: tuple[str, ...] = get_args(get_args(d.ChatModel)[0])
"""The draft's models; `auto` leaves the choice to the server."""

PLAIN = "text"
"""The language of a context without a language."""

_DRAFT = Codec(DRAFT, Revision.DRAFT)
_OCTOBER = converter(Revision.R2025_10)


def read_initialize(params: d.InitializeParams) -> m.InitializeParams:
    """Convert a draft client's params."""
    raw = _DRAFT.encode_params("initialize", attrs.evolve(params, initialization_options=None))
    read = _OCTOBER.structure(raw, m.InitializeParams)
    return attrs.evolve(read, initialization_options=_read_options(params.initialization_options))


def _read_options(raw: Any) -> m.InitializationOptions | None:
    """Read options of any type; an object is read as in the other editions, if it fits."""
    if not isinstance(raw, dict):
        return None
    try:
        return _OCTOBER.structure(raw, m.InitializationOptions)
    except Mismatch:
        return m.InitializationOptions(extras=raw)


def write_initialize(params: m.InitializeParams) -> d.InitializeParams:
    """Convert our params for a draft server.

    The only true capability is `chat`; servers recognize a draft client by the presence of `doc`,
    `edit` and `fix` (W-12).
    """
    assistant = params.capabilities.code_assistant
    capabilities = d.CodeAssistantCapabilities(
        chat=None if assistant is None else assistant.chat, doc=False, edit=False, fix=False
    )
    written = _DRAFT.decode_params("initialize", _OCTOBER.unstructure(params))
    assert isinstance(written, d.InitializeParams)
    return attrs.evolve(written, capabilities=d.ClientCapabilities(code_assistant=capabilities))


def read_prompt(params: d.ChatPromptParams, offered: Collection[str]) -> m.ChatPromptParams:
    """Convert a draft client's prompt; `offered` are the server's models."""
    return m.ChatPromptParams(
        chat_id=params.chat_id,
        message=params.message,
        model=_read_model(params.model, offered),
        contexts=tuple(each for context in params.context for each in _read_context(context))
        if params.context
        else (),
    )


def _read_model(name: str | None, offered: Collection[str]) -> str | None:
    """Return the offered model with this name, with or without the provider's name (W-51)."""
    if name is None or name in offered:
        return name
    matches = (known for known in offered if known.partition("/")[2] == name)
    return next(matches, None if name in LITERALS else name)


def _read_context(context: d.ChatContext) -> Iterator[m.ChatContext]:
    match context:
        case d.FileContext(path=path, selection=selection, cursor=cursor):
            yield m.FileContext(path=path, lines_range=_read_lines(selection))
            if cursor is not None:
                place = m.Position(line=cursor.line, character=cursor.character)
                yield m.CursorContext(path=path, position=m.Range(start=place, end=place))
        case d.WebContext(url=url):
            yield m.WebContext(url=url)
        case d.CodeContext(content=content, language=language, description=description):
            yield m.TextContext(label=_label(description, language), content=content)
        case m.UnknownContext():
            yield context


def _read_lines(selection: d.LineRange | None) -> m.LinesRange | None:
    if selection is None:
        return None
    return m.LinesRange(start=selection.start_line, end=selection.end_line)


def _label(description: str | None, language: str) -> str:
    label = "code" if description is None else description
    return label if language in ("", PLAIN) else f"{label} ({language})"


def write_prompt(params: m.ChatPromptParams) -> d.ChatPromptParams:
    """Convert our prompt for a draft server.

    Raises:
        LocalProtocolError: the draft has no such model or context.
    """
    return d.ChatPromptParams(
        chat_id=params.chat_id,
        message=params.message,
        model=_write_model(params.model),
        context=_write_contexts(params.contexts),
    )


def _write_model(name: str | None) -> d.ChatModel | None:
    if name is None:
        return None
    for spelling in (name, name.partition("/")[2]):
        if spelling in LITERALS:
            return m.UnknownValue(spelling)
    known = ", ".join(LITERALS)
    raise LocalProtocolError(f"expected a model that the draft knows ({known}), got {name!r}")


def _write_contexts(contexts: Sequence[m.ChatContext]) -> tuple[d.ChatContext, ...]:
    """Convert the contexts; a cursor becomes a member of its file's context."""
    if not contexts:
        return ()
    cursors = {each.path: each for each in contexts if isinstance(each, m.CursorContext)}
    files = {each.path for each in contexts if isinstance(each, m.FileContext)}
    written: list[d.ChatContext] = []
    for context in contexts:
        match context:
            case m.FileContext(path=path, lines_range=lines):
                selection, cursor = _write_lines(lines), _write_cursor(cursors.get(path))
                written.append(d.FileContext(path=path, selection=selection, cursor=cursor))
            case m.CursorContext(path=path):
                if path not in files:
                    written.append(d.FileContext(path=path, cursor=_write_cursor(context)))
            case m.WebContext(url=url):
                written.append(d.WebContext(url=url))
            case m.TextContext(label=label, content=content):
                written.append(d.CodeContext(content=content, language=PLAIN, description=label))
            case m.UnknownContext():
                written.append(context)
            case _:
                raise LocalProtocolError(f"the draft has no {type(context).__name__}")
    return tuple(written)


def _write_lines(lines: m.LinesRange | None) -> d.LineRange | None:
    return None if lines is None else d.LineRange(start_line=lines.start, end_line=lines.end)


def _write_cursor(context: m.CursorContext | None) -> d.Cursor | None:
    if context is None:
        return None
    start = context.position.start
    return d.Cursor(line=start.line, character=start.character)


def write_response(params: m.ChatPromptResponse) -> d.ChatPromptResponse:
    """Convert the answer to a draft client; the message names the model, which has no member."""
    model = params.model or "the model"
    if params.status == "error":
        return d.ChatPromptResponse(
            chat_id=params.chat_id,
            status="connection-error",
            result_message=f"The prompt could not be sent to {model}.",
        )
    message = (
        "The provider needs a key: send it as the next message."
        if params.status == "login"
        else f"The prompt was sent to {model}."
    )
    return d.ChatPromptResponse(chat_id=params.chat_id, status="success", result_message=message)


def read_response(params: d.ChatPromptResponse) -> m.ChatPromptResponse:
    """Convert a draft server's answer.

    Raises:
        RequestFailed: the turn cannot start; no closing content has to follow.
    """
    if params.status == "connection-error":
        raise RequestFailed(INTERNAL_ERROR, params.result_message, method="chat/prompt")
    return m.ChatPromptResponse(chat_id=params.chat_id, status="prompting")
