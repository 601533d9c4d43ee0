"""The built-in model: no network, no key, every event on demand.

`simulator/echo` streams the user's last text back, word by word. `simulator/script` runs the text
as a script, one directive a line, in order (`DIRECTIVES`).

An unknown directive is answered with an error text. A request for a title or a summary (the first
line of its instruction contains that word; a directory's name may do so further down) is answered
with the first words of the user's text by both models.
"""

from __future__ import annotations

import math
import re
import secrets
import struct
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import get_args

import trio

from eca_server.models.backend import BackendError, ErrorKind, Request
from eca_server.models.calls import read_arguments
from eca_server.models.error_kinds import TRANSIENT
from eca_server.models.events import (
    Event,
    Finished,
    FinishReason,
    Progress,
    ReasoningDelta,
    ReasoningFinished,
    ReasoningStarted,
    Started,
    TextDelta,
    ToolCallArguments,
    ToolCallFinished,
    ToolCallStarted,
    Usage,
)
from eca_server.models.facts import Capabilities
from eca_server.models.history import CitationPart, ImagePart, Origin, TextPart

PROVIDER = "simulator"
MODELS = ("echo", "script")
DEFAULT = f"{PROVIDER}/{MODELS[0]}"
"""The selected model if none is configured."""

DIRECTIVES = {
    "say TEXT": "visible text, word by word",
    "think TEXT": "a block of reasoning, word by word",
    "repeat N TEXT": "TEXT as N deltas",
    "speed N": "N deltas a second from then on; 0, the default, is full speed",
    "wait SECONDS": "no event for a while; `wait forever` until the turn is stopped",
    "progress": "a sign of life that is no answer",
    "cite URL [TITLE]": "a web citation",
    "draw [COLOR]": "a picture of one color, six hexadecimal digits",
    "call NAME [JSON]": "a tool call; the lines after it follow once its result is there",
    "usage IN OUT": "token counts, in place of the counted words",
    "fail KIND [TEXT]": "an error of a class (`overloaded`, `auth`, `quota`, ...)",
    "crash": "an unexpected exception, as from a bug",
    "finish REASON": "the end with this reason (`length`, `content_filter`, ...)",
    "cut": "an end without its marker, as no backend should send",
    "empty": "no content",
    "help": "this list",
}
"""The directives of `simulator/script`; `\\n` in a TEXT is a line end."""

_PIECES = re.compile(r"\s*\S+\s*?(?=\s|$)|\s+")
_SIDE_REQUEST = re.compile("title|summary", re.IGNORECASE)
_TITLE_WORDS = 6
_SIDE = 32  # pixels
_KINDS: Mapping[str, ErrorKind] = {kind: kind for kind in get_args(ErrorKind)}
_REASONS: Mapping[str, FinishReason] = {reason: reason for reason in get_args(FinishReason)}


class Simulator:
    """A `Backend` for `echo` and `script`."""

    def __init__(self, model: str) -> None:
        self.origin = Origin(api=PROVIDER, provider=PROVIDER, model=model)
        self.capabilities = Capabilities(reasoning=True, context=1_000_000)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[Event]]:
        """Stream the answer; `crash` raises an unexpected exception."""
        async with aclosing(self._events(request)) as events:
            yield events

    async def _events(self, request: Request) -> AsyncGenerator[Event, None]:
        yield Started(response_id=f"sim_{secrets.token_hex(6)}", model=self.origin.model)
        text, step = _last_user_text(request)
        run = _ScriptRun(request)
        if _SIDE_REQUEST.search(request.system.partition("\n")[0]):
            lines = ["say " + " ".join(text.split()[:_TITLE_WORDS])]
        elif self.origin.model == "echo":
            lines = ["say " + text.replace("\\", "\\\\").replace("\n", "\\n")]
        else:
            segments = _segments(text)
            lines = segments[step] if step < len(segments) else []
        for line in lines:
            async with aclosing(run.line(line)) as events:
                async for event in events:
                    yield event
                    await trio.lowlevel.checkpoint()
            if run.ended:
                return
        yield run.usage
        yield Finished(reason="tool_calls" if run.called else "stop")


class _ScriptRun:
    def __init__(self, request: Request) -> None:
        self.usage = Usage(input=_words_in(request), output=0)
        self.called = False
        self.ended = False
        self._pause = 0.0
        self._reasonings = 0

    async def line(self, line: str) -> AsyncGenerator[Event, None]:
        verb, _, rest = line.lstrip().partition(" ")
        match verb, rest.split(maxsplit=1):
            case ("speed", [rate]) if (number := _number(rate)) is not None:
                self._pause = 1 / number if number else 0.0
            case ("wait", [seconds]) if (number := _number(seconds)) is not None:
                await trio.sleep(number)
            case ("fail", [kind, *words]) if kind in _KINDS:
                text = " ".join(words) or "the simulator fails, as the script says"
                raise BackendError(_KINDS[kind], text, retryable=kind in TRANSIENT)
            case ("crash", []):
                raise RuntimeError("the simulator crashed, as the script says")
            case ("usage", [_, _]) if re.fullmatch(r"\d{1,12} +\d{1,12}", rest.strip()):
                prompt, output = map(int, rest.split())
                self.usage = Usage(input=prompt, output=output)
            case ("finish", [raw]) if raw in _REASONS:
                self.ended = True
                yield self.usage
                yield Finished(reason=_REASONS[raw])
            case ("cut", []):
                self.ended = True
            case ("" | "empty", []):
                return
            case _:
                for event in self._content(verb, rest):
                    yield event
                    if self._pause:
                        await trio.sleep(self._pause)

    def _content(self, verb: str, rest: str) -> Iterator[Event]:
        match verb, rest.split(maxsplit=1):
            case ("say", _):
                yield from map(TextDelta, self._counted(rest))
            case ("repeat", [count, text]) if count.isdecimal() and len(count) < 9:
                piece = TextDelta(_unescaped(text))
                for _ in range(int(count)):
                    yield piece
            case ("think", _):
                self._reasonings += 1
                key = f"reasoning_{self._reasonings}"
                yield ReasoningStarted(key)
                for piece_of_thought in self._counted(rest):
                    yield ReasoningDelta(key, piece_of_thought)
                yield ReasoningFinished(key=key)
            case ("cite", [url, *title]):
                yield CitationPart(url=url, title=" ".join(title))
            case ("draw", []):
                yield _picture("808080")
            case ("draw", [color]) if re.fullmatch(r"[0-9a-fA-F]{6}", color.strip()):
                yield _picture(color)
            case ("call", [name, *arguments]):
                yield from self._call(name, " ".join(arguments))
            case ("progress", []):
                yield Progress("loading")
            case ("help", []):
                rows = (f"    {form:<18} {meaning}" for form, meaning in DIRECTIVES.items())
                yield TextDelta("\n".join(["The directives, one a line:", "", *rows, ""]))
            case _:
                words = f"simulator/script: no such directive: {verb} {rest}".strip()
                yield from map(TextDelta, self._counted(words + " (help lists them)\\n"))

    def _call(self, name: str, raw: str) -> Iterator[Event]:
        self.called = True
        key = f"call_{secrets.token_hex(12)}"
        yield ToolCallStarted(key=key, name=name)
        if raw:
            yield ToolCallArguments(key, raw)
        arguments, error = read_arguments(raw, truncated=False)
        yield ToolCallFinished(key=key, raw=raw or "{}", arguments=arguments, error=error)

    def _counted(self, text: str) -> list[str]:
        pieces = _PIECES.findall(_unescaped(text))
        self.usage = Usage(input=self.usage.input, output=(self.usage.output or 0) + len(pieces))
        return pieces


def _segments(script: str) -> list[list[str]]:
    """Return the lines of each step: a run of calls ends a step."""
    segments: list[list[str]] = [[]]
    for line in script.splitlines():
        is_call = line.strip().startswith("call ")
        if not is_call and segments[-1] and segments[-1][-1].strip().startswith("call "):
            segments.append([])
        segments[-1].append(line)
    return segments


def _last_user_text(request: Request) -> tuple[str, int]:
    """Return the user's last text, and the number of answers after it."""
    answers = 0
    for message in reversed(request.messages):
        if message.role == "user":
            texts = [part.text for part in message.parts if isinstance(part, TextPart)]
            return (texts[-1] if texts else "", answers)
        answers += message.role == "assistant"
    return "", answers


def _words_in(request: Request) -> int:
    texts = [request.system]
    for message in request.messages:
        texts += [part.text for part in message.parts if isinstance(part, TextPart)]
    return sum(len(text.split()) for text in texts)


def _number(text: str) -> float | None:
    if text == "forever":
        return math.inf
    return float(text) if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", text) else None


def _picture(color: str) -> ImagePart:
    """Draw a square of one color, as PNG."""
    row = b"\0" + bytes.fromhex(color) * _SIDE
    head = struct.pack(">IIBBBBB", _SIDE, _SIDE, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(row * _SIDE)), (b"IEND", b""))
    data = b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        for name, body in chunks
    )
    return ImagePart(media_type="image/png", data=b"\x89PNG\r\n\x1a\n" + data)


def _unescaped(text: str) -> str:
    return re.sub(r"\\(n|\\)", lambda match: "\n" if match.group(1) == "n" else "\\", text)
