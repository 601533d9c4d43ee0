"""`tap`: records the messages between an editor and a server, or replays a recording.

Secrets are masked in the recording, not in transit: an editor sends keys that the user types, and
people share recordings.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import trio

from eca_protocol import json, platforms
from eca_protocol.errors import ECAError, InvalidJSON, StartFailed
from eca_protocol.process import spawn
from eca_protocol.streams import FdTransport, owned_stdio
from eca_protocol.transcript import Mask, Recorder, Transcript, new_file, play, read_transcript, tap
from eca_server.config.directories import data_directory, make_data_directory
from eca_server.printable import printable_lines
from eca_server.secret import HIDDEN, Secret, mask
from eca_server.system.threads import SWITCH_SECONDS

_SECRET_NAME = re.compile(
    r"(?i).*(api|secret|private|access)[-_]?key|.*(password|passphrase|secret|token)"
    r"|(proxy-)?authorization|(set-)?cookie|(.*[-_])?(pass|passwd)|.*credentials?"
)
"""Names of members, options and environment variables whose value is always a secret."""

_HEADERS = re.compile(r"(?i).*headers")
"""Names of members with the headers of a server, each of which may be a secret."""

_OPTION = re.compile(r"(?s)((?:-{0,2}[\w-]+=)?-{0,2}([\w-]+)(?:=|:\s*)).+")
"""A word of a command line with a name and a value; the value may be a header."""

_FLAG = re.compile(r"--?([\w-]+)")
"""A word of a command line with a name; its value is the next word."""

_SIGNS = (
    b"key", b"pass", b"credential", b"secret", b"token", b"auth", b"cookie", b"bearer", b"basic",
    b"header", b"login", b"sk-", b"sk_", b"hf_", b"xai-", b"pplx-", b"ghp_", b"gho_", b"ghs_",
    b"ghu_", b"ghr_", b"github_", b"glpat-", b"nvapi-", b"aiza", b"eyj", b"@",
)  # fmt: skip
"""Every text that `mask` or `_SECRET_NAME` hides contains one of these; few messages do."""

_ESCAPES = (b"\\/", b"\\u")  # escapes by which a JSON text may encode a secret differently
_LOGIN = re.compile(r"(?s)(.*?/login\s+\S+\s+)(\S.{7,})")
"""A `/login` command with both the provider and the key."""

_SHORTEST = 8
"""Shortest value of a variable that is hidden everywhere; shorter ones may be ordinary words."""


def tap_stdio(
    command: Sequence[str], *, out: Path | None, masked: bool, page: Sequence[str] | None = None
) -> int:
    """Run a server behind the standard streams of this process, and return its exit code.

    Args:
        command: starts the server.
        out: the file of the recording; None: a new file in the default directory.
        masked: whether secrets are masked in the recording.
        page: arguments for `inspect`, which shows the recording live; None: no page.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
    file, path = _record_file(out)
    _say(f"recording the conversation in {path}")
    recorder = Recorder(
        file,
        command=command,
        mask=masker(os.environ) if masked else None,
        on_failure=lambda why: _say(f"{path}: {why}"),
    )
    try:
        with (
            contextlib.nullcontext() if page is None else _inspected(path, page),
            owned_stdio(for_good=True) as (read_fd, write_fd),
        ):
            code = trio.run(_tap, command, read_fd, write_fd, recorder)
    except StartFailed as error:
        _say(str(error))
        return 1
    return code if code >= 0 else 128 - code


@contextlib.contextmanager
def _inspected(transcript: Path, page: Sequence[str]) -> Iterator[None]:
    """Show the transcript in a process of its own, which exits soon after the block.

    It reads the file, and shares only a pipe whose end tells it to exit.
    """
    inspector = subprocess.Popen(
        [sys.executable, "-P", "-m", "eca_server", "inspect", "--beside-tap", *page, transcript],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        **platforms.START_OF_A_GROUP,
    )
    assert inspector.stdin is not None
    with inspector.stdin:
        yield


async def _tap(command: Sequence[str], read_fd: int, write_fd: int, recorder: Recorder) -> int:
    client = FdTransport(read_fd, write_fd)
    return await tap(command, client, recorder, handles_signals=True)


def replay(path: Path, command: Sequence[str], *, deadline: float) -> int:
    """Replay a transcript's client to a server, or without a command its server to a client."""
    try:
        transcript = read_transcript(path)
    except ValueError as error:
        _say(str(error))
        return 2
    except OSError as error:
        _say(f"{path}: {error.strerror or error}")
        return 2
    try:
        messages = trio.run(_play, transcript, command, deadline)
    except ECAError as error:
        _say(str(error))
        return 1
    _say(f"replay finished; {len(messages)} messages received")
    return 0


async def _play(
    transcript: Transcript, command: Sequence[str], deadline: float
) -> list[dict[str, Any]]:
    if not command:
        with owned_stdio(for_good=True) as (read_fd, write_fd):
            return await play(
                transcript, FdTransport(read_fd, write_fd), "server", deadline=deadline
            )
    child = spawn(command)
    try:
        return await play(transcript, child.transport, "client", deadline=deadline)
    finally:
        await child.end()


def _record_file(out: Path | None) -> tuple[int, Path]:
    if out is not None:
        return new_file(out)
    data = data_directory(os.environ)
    make_data_directory(data)
    directory = data / "transcripts"
    directory.mkdir(mode=0o700, exist_ok=True)
    return new_file(directory / f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{os.getpid()}.jsonl")


def masker(environ: Mapping[str, str]) -> Mask:
    """Return a function that masks the secrets in messages of one conversation.

    Secrets are texts that look like a key, values of members and options with names like `api_key`,
    the user's input for a login, and values of environment variables with such names.
    """
    return _Masker(
        value
        for name, value in environ.items()
        if len(value) >= _SHORTEST and _SECRET_NAME.fullmatch(name)
    )


class _Masker:
    """A masker, called with each message in order.

    It remembers which chats wait for a key, and the key, since a server may echo it.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        self._known: set[Secret] = set()
        self._spelled: set[bytes] = set()
        for each in secrets:
            self._learn(each)
        self._logging_in: set[str] = set()  # chats whose next prompt is a key

    def _learn(self, secret: str) -> None:
        if len(secret) >= _SHORTEST:
            self._known.add(Secret(secret))
            self._spelled.add(json.dumps(secret)[1:-1])

    def __call__(self, data: bytes) -> bytes:
        if not self._may_hold_a_secret(data):
            return data
        try:
            value = json.loads(data)
        except InvalidJSON:
            text = mask(data.decode("utf-8", "surrogateescape"), *self._known)
            return text.encode("utf-8", "surrogateescape")
        masked = self._masked(self._without_input(value))
        return data if masked == value else json.dumps(masked)

    def _may_hold_a_secret(self, data: bytes) -> bool:
        lowered = data.lower()
        return (
            any(sign in lowered for sign in _SIGNS)
            or any(spelled in data for spelled in self._spelled)
            or (self._known != set() and any(escape in data for escape in _ESCAPES))
            or (self._logging_in != set() and b"prompt" in data)
        )

    def _masked(self, value: Any) -> Any:
        if isinstance(value, str):
            return mask(value, *self._known)
        if isinstance(value, list):
            return [self._masked_item(*pair) for pair in zip([None, *value], value, strict=False)]
        if not isinstance(value, dict):
            return value
        name = value.get("name")  # a pair of an environment or of headers has a name and a value
        is_pair = isinstance(name, str) and _SECRET_NAME.fullmatch(name) is not None
        return {
            member: self._hidden(item)
            if _SECRET_NAME.fullmatch(member) or (is_pair and member == "value")
            else self._without_headers(item)
            if _HEADERS.fullmatch(member)
            else self._masked(item)
            for member, item in value.items()
        }

    def _without_headers(self, headers: Any) -> Any:
        """Return headers without their values: an object, or a list of pairs."""
        if isinstance(headers, dict):
            return {name: self._hidden(value) for name, value in headers.items()}
        if isinstance(headers, list) and all(isinstance(each, dict) for each in headers):
            hidden = {"value": HIDDEN}
            return [each | hidden if "value" in each else each for each in headers]
        return self._masked(headers)

    def _hidden(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._hidden(item) for item in value]
        return HIDDEN if isinstance(value, str) else self._masked(value)

    def _masked_item(self, previous: Any, item: Any) -> Any:
        """Return a list's item masked; in a command line, `previous` may be the item's option."""
        if not isinstance(item, str):
            return self._masked(item)
        if _is_secret_option(previous):
            return HIDDEN
        option = _OPTION.fullmatch(item)
        if option is not None and _SECRET_NAME.fullmatch(option[2]):
            return option[1] + HIDDEN
        return self._masked(item)

    def _without_input(self, message: Any) -> Any:
        """Return the message without the user's input for a login."""
        if not isinstance(message, dict):
            return message
        self._track_login(message.get("result"))
        params = message.get("params")
        if not isinstance(params, dict):
            return message
        match message.get("method"):
            case "chat/statusChanged":
                self._track_login(params)
            case "providers/loginInput" if isinstance(params.get("data"), dict):
                params = {**params, "data": dict.fromkeys(params["data"], HIDDEN)}
            case "chat/prompt" | "chat/inlinePrompt" if isinstance(params.get("message"), str):
                params = {**params, "message": self._without_key(params)}
        return {**message, "params": params}

    def _track_login(self, status: Any) -> None:
        """Track the chats that wait for a key: their status is `login`."""
        if isinstance(status, dict) and isinstance(status.get("chatId"), str):
            if status.get("status") == "login":
                self._logging_in.add(status["chatId"])
            elif "status" in status:
                self._logging_in.discard(status["chatId"])

    def _without_key(self, prompt: Mapping[str, Any]) -> str:
        message: str = prompt["message"]
        awaited = isinstance(prompt.get("chatId"), str) and prompt["chatId"] in self._logging_in
        if awaited and not message.startswith("/"):
            self._learn(message.strip())
            return HIDDEN
        if (login := _LOGIN.fullmatch(message)) is None:
            return message
        self._learn(login[2].strip())
        return login[1] + HIDDEN


def _is_secret_option(word: Any) -> bool:
    """Return True for an option such as `--token`, whose value is the next word."""
    option = _FLAG.fullmatch(word) if isinstance(word, str) else None
    return option is not None and _SECRET_NAME.fullmatch(option[1]) is not None


def _say(text: str) -> None:
    """Write a text for the user; an unreadable stderr does not end the conversation."""
    with contextlib.suppress(OSError):
        sys.stderr.write(f"eca-server tap: {printable_lines(text)}\n")
        sys.stderr.flush()
