"""`tap`: stands between an editor and a server and keeps what they say; or plays it again.

What looks like a secret is masked in the record, never on its way: an editor sends the keys that a
user types in, and people send records to each other.
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

from eca_protocol import json
from eca_protocol.errors import ECAError, InvalidJSON, StartFailed
from eca_protocol.process import spawn
from eca_protocol.streams import FdTransport, owned_stdio
from eca_protocol.transcript import Mask, Recorder, Transcript, new_file, play, read_transcript, tap
from eca_server.config.folders import data_folder, make_data_folder
from eca_server.printable import printable_lines
from eca_server.secret import HIDDEN, Secret, mask

__all__ = ["masker", "play_again", "tap_stdio"]

_SECRET_NAME = re.compile(
    r"(?i).*(api|secret|private|access)[-_]?key|.*(password|passphrase|secret|token)"
    r"|(proxy-)?authorization|(set-)?cookie"
)
"""Names, of members and of environment variables, whose text is a secret whatever it looks like."""

_SIGNS = (
    b"key", b"passw", b"passphr", b"secret", b"token", b"auth", b"cookie", b"bearer", b"basic",
    b"login", b"sk-", b"sk_", b"hf_", b"xai-", b"pplx-", b"ghp_", b"gho_", b"ghs_", b"ghu_",
    b"ghr_", b"github_", b"glpat-", b"nvapi-", b"aiza", b"eyj", b"@",
)  # fmt: skip
"""One of these is in whatever `mask` or `_SECRET_NAME` hides; nearly every message has none."""

_ESCAPES = (b"\\/", b"\\u")
"""With these a JSON text may spell a secret otherwise than we do."""

_LOGIN = re.compile(r"(?s)(.*?/login\s+\S+\s+)(\S.{7,})")
"""A login that names the provider and gives the key at once."""

_SWITCH_SECONDS = 0.0005
"""How long the thread that writes the record may hold up a message, at most."""

_SHORTEST = 8
"""Characters of a variable's value that is hidden wherever it stands; shorter ones are words."""


def tap_stdio(
    command: Sequence[str], *, out: Path | None, masked: bool, page: Sequence[str] | None = None
) -> int:
    """Run a server behind the standard streams of this process; its exit code.

    Args:
        command: starts the server.
        out: where the conversation is kept; None: a new file in the usual place.
        masked: what looks like a secret is taken out of it.
        page: show it meanwhile, by `inspect` with these arguments.
    """
    sys.setswitchinterval(_SWITCH_SECONDS)
    file, path = _record_file(out)
    _say(f"tap: keeping the conversation in {path}")
    recorder = Recorder(
        file,
        command=command,
        mask=masker(os.environ) if masked else None,
        on_failure=lambda why: _say(f"tap: {path}: {why}"),
    )
    try:
        with (
            contextlib.nullcontext() if page is None else _inspected(path, page),
            owned_stdio(for_good=True) as (read_fd, write_fd),
        ):
            code = trio.run(_tap, command, read_fd, write_fd, recorder)
    except StartFailed as error:
        _say(f"tap: {error}")
        return 1
    return code if code >= 0 else 128 - code


@contextlib.contextmanager
def _inspected(transcript: Path, page: Sequence[str]) -> Iterator[None]:
    """Have a process of its own show the transcript; it ends soon after the block, by itself.

    It reads the file, and gets nothing of ours but one end of a pipe that tells it when to end.
    """
    inspector = subprocess.Popen(
        [sys.executable, "-P", "-m", "eca_server", "inspect", "--beside-tap", *page, transcript],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert inspector.stdin is not None
    with inspector.stdin:
        yield


async def _tap(command: Sequence[str], read_fd: int, write_fd: int, recorder: Recorder) -> int:
    client = FdTransport(read_fd, write_fd)
    return await tap(command, client, recorder, handles_signals=True)


def play_again(path: Path, command: Sequence[str], *, deadline: float) -> int:
    """Play the client of a transcript to a server, or without a command the server to a client."""
    try:
        transcript = read_transcript(path)
    except ValueError as error:
        _say(f"tap: {error}")
        return 2
    try:
        said = trio.run(_play, transcript, command, deadline)
    except ECAError as error:
        _say(f"tap: {error}")
        return 1
    _say(f"tap: played to the end; {len(said)} messages came")
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
    data = data_folder(os.environ)
    make_data_folder(data)
    folder = data / "transcripts"
    folder.mkdir(mode=0o700, exist_ok=True)
    return new_file(folder / f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{os.getpid()}.jsonl")


def masker(environ: Mapping[str, str]) -> Mask:
    """What takes secrets out of the messages of one conversation, or of bytes that are none.

    Hidden is what looks like a key, what stands under a name like `api_key`, what a user typed in
    for a login, and what the environment holds under such a name.
    """
    return _Masker(
        value
        for name, value in environ.items()
        if len(value) >= _SHORTEST and _SECRET_NAME.fullmatch(name)
    )


class _Masker:
    """Is called with what passes, in order; it remembers where a key was asked for, and the key.

    A server may say it back, as the user's words.
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
            return [self._masked(item) for item in value]
        if not isinstance(value, dict):
            return value
        return {
            name: HIDDEN
            if isinstance(item, str) and _SECRET_NAME.fullmatch(name)
            else self._masked(item)
            for name, item in value.items()
        }

    def _without_input(self, message: Any) -> Any:
        """The message without what the user typed in for a login."""
        if not isinstance(message, dict):
            return message
        self._see_login(message.get("result"))
        params = message.get("params")
        if not isinstance(params, dict):
            return message
        match message.get("method"):
            case "chat/statusChanged":
                self._see_login(params)
            case "providers/loginInput" if isinstance(params.get("data"), dict):
                params = {**params, "data": dict.fromkeys(params["data"], HIDDEN)}
            case "chat/prompt" | "chat/inlinePrompt" if isinstance(params.get("message"), str):
                params = {**params, "message": self._without_key(params)}
        return {**message, "params": params}

    def _see_login(self, told: Any) -> None:
        """A chat whose status is `login` waits for a key."""
        if isinstance(told, dict) and isinstance(told.get("chatId"), str):
            if told.get("status") == "login":
                self._logging_in.add(told["chatId"])
            elif "status" in told:
                self._logging_in.discard(told["chatId"])

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


def _say(words: str) -> None:
    """Tell the user; that nobody reads it is no reason to end a conversation."""
    with contextlib.suppress(OSError):
        sys.stderr.write(f"{printable_lines(words)}\n")
        sys.stderr.flush()
