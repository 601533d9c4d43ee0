"""A content notification to a typed message and back, beside lsprotocol, pydantic and cattrs.

Each contender starts from bytes and ends in bytes, the JSON-RPC envelope included, on the same JSON
engine. lsprotocol has no such message: nearest in shape is `textDocument/didOpen`, an object with
texts inside another, nearest in meaning `$/progress`, whose inner object it leaves untyped. Bounds:
both ways less than lsprotocol and than pydantic. Aims: reading at most 0.55 of lsprotocol's time,
writing 0.4.
"""

import json as stdlib_json
from collections.abc import Callable
from typing import Annotated, Any, Literal

import attrs
import cattrs
import orjson
import pydantic
from cattrs.strategies import configure_tagged_union
from lsprotocol import converters, types
from report import Row, compare, machine

from eca_protocol.codec import Codec
from eca_protocol.jsonrpc import Notification, classify
from eca_protocol.messages import ChatContent
from eca_protocol.messages.shapes import Nullable, Scalar, Tagged, fields_of, shape_of
from eca_protocol.methods import ECA
from eca_protocol.revisions import Revision

COUNT = 20_000
METHOD = "chat/contentReceived"
DELTA = {
    "jsonrpc": "2.0",
    "method": METHOD,
    "params": {
        "chatId": "chat-1",
        "role": "assistant",
        "content": {"type": "text", "text": "words of it"},
    },
}
DID_OPEN = {
    "jsonrpc": "2.0",
    "method": "textDocument/didOpen",
    "params": {
        "textDocument": {"uri": "chat-1", "languageId": "text", "version": 1, "text": "words of it"}
    },
}
PROGRESS = {
    "jsonrpc": "2.0",
    "method": "$/progress",
    "params": {"token": "chat-1", "value": {"kind": "report", "message": "words of it"}},
}
CODEC = Codec(ECA, Revision.R2025_10)
LSP = converters.get_converter()

Engine = tuple[Callable[[bytes], Any], Callable[[Any], bytes]]
ENGINES: dict[str, Engine] = {
    "orjson": (orjson.loads, orjson.dumps),
    "stdlib": (stdlib_json.loads, lambda value: stdlib_json.dumps(value).encode()),
}


def pydantic_models() -> type[pydantic.BaseModel]:
    """The same messages: the thirteen contents, distinguished by `type`, in the same envelope."""
    python = {"string": str, "integer": int, "number": float, "boolean": bool}
    shape = shape_of(ChatContent)
    assert isinstance(shape, Tagged)
    contents: list[Any] = []
    for tag, cls in shape.members.items():
        fields: dict[str, Any] = {"type": (Literal[tag], tag)}
        for field in fields_of(cls):
            inner = field.shape.inner if isinstance(field.shape, Nullable) else field.shape
            hint: Any = python[inner.names[0]] if isinstance(inner, Scalar) else Any
            fields[field.wire] = (hint, ...) if field.rules.required else (hint | None, None)
        contents.append(pydantic.create_model(cls.__name__, **fields))
    union = contents[0]
    for content in contents[1:]:
        union |= content
    params = pydantic.create_model(
        "Params",
        chatId=(str, ...),
        role=(Literal["user", "system", "assistant"], ...),
        content=(Annotated[union, pydantic.Field(discriminator="type")], ...),
    )
    return pydantic.create_model(
        "Message", jsonrpc=(Literal["2.0"], "2.0"), method=(str, ...), params=(params, ...)
    )


@attrs.frozen(kw_only=True)
class Text:
    text: str
    contentId: str | None = None  # noqa: N815  # cattrs as it comes, without renaming


@attrs.frozen(kw_only=True)
class Url:
    title: str
    url: str


@attrs.frozen(kw_only=True)
class Params:
    chatId: str  # noqa: N815  # as above
    role: str
    content: Text | Url


@attrs.frozen(kw_only=True)
class Message:
    jsonrpc: str
    method: str
    params: Params


def plain_cattrs() -> cattrs.Converter:
    """cattrs as it comes: it coerces, and two contents in place of thirteen."""
    converter = cattrs.Converter(detailed_validation=False, omit_if_default=True)
    names = {Text: "text", Url: "url"}
    configure_tagged_union(Text | Url, converter, tag_name="type", tag_generator=names.__getitem__)
    return converter


def repeated(run: Callable[[], object]) -> Callable[[], None]:
    def loop() -> None:
        for _ in range(COUNT):
            run()

    return loop


def both_ways(read: Callable[[], object], write: Callable[[], object]) -> Callable[[], object]:
    return lambda: (read(), write())


def readers(engine: Engine) -> dict[str, Callable[[], object]]:
    loads, dumps = engine
    delta, did_open, progress = dumps(DELTA), dumps(DID_OPEN), dumps(PROGRESS)
    model, converter = pydantic_models(), plain_cattrs()

    def ours() -> object:
        message = classify(loads(delta))
        assert isinstance(message, Notification)
        return CODEC.incoming(message.method, message.params)

    return {
        "lsprotocol, didOpen": lambda: LSP.structure(
            loads(did_open), types.DidOpenTextDocumentNotification
        ),
        "lsprotocol, $/progress": lambda: LSP.structure(
            loads(progress), types.ProgressNotification
        ),
        "ours": ours,
        "ours, without the envelope": lambda: CODEC.decode_params(METHOD, loads(delta)["params"]),
        "pydantic": lambda: model.model_validate(loads(delta)),
        "cattrs as it comes": lambda: converter.structure(loads(delta), Message),
        "the JSON alone": lambda: loads(delta),
    }


def writers(engine: Engine) -> dict[str, Callable[[], object]]:
    _, dumps = engine
    typed = CODEC.decode_params(METHOD, DELTA["params"])
    opened = LSP.structure(DID_OPEN, types.DidOpenTextDocumentNotification)
    progress = LSP.structure(PROGRESS, types.ProgressNotification)
    model = pydantic_models().model_validate(DELTA)
    converter = plain_cattrs()
    message = converter.structure(DELTA, Message)

    def ours() -> bytes:
        ((method, params),) = CODEC.outgoing(METHOD, typed)
        return dumps(Notification(method=method, params=params).to_json())

    return {
        "lsprotocol, didOpen": lambda: dumps(LSP.unstructure(opened)),
        "lsprotocol, $/progress": lambda: dumps(LSP.unstructure(progress)),
        "ours": ours,
        "ours, without the envelope": lambda: dumps(CODEC.encode_params(METHOD, typed)),
        "pydantic": lambda: dumps(model.model_dump(exclude_none=True)),
        "cattrs as it comes": lambda: dumps(converter.unstructure(message)),
        "the JSON alone": lambda: dumps(DELTA),
    }


def main() -> list[Row]:
    print(machine("attrs", "cattrs", "lsprotocol", "orjson", "pydantic"))
    rows = []
    for name, engine in ENGINES.items():
        read, written = readers(engine), writers(engine)
        both = {contender: both_ways(read[contender], written[contender]) for contender in read}
        for title, contenders in {"read": read, "written": written, "both ways": both}.items():
            ratios = compare(
                f"One content {title}, {name}",
                {contender: repeated(run) for contender, run in contenders.items()},
                baseline="lsprotocol, didOpen",
                number=COUNT,
            )
        # The last ratios are those of both ways.
        for other in ("lsprotocol, didOpen", "pydantic"):
            ratio = ratios["ours"] / ratios[other]
            what = f"typed content both ways beside {other}, {name}"
            rows.append(Row(what, "< 1x", f"{ratio:.2f}x", ratio < 1))
    return rows
