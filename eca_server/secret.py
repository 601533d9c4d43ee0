"""Protection of keys and tokens: the `Secret` type, `mask` for texts, a filter for the log.

Invariant: a key leaves its `Secret` only on its way to the wire, by `reveal()`. Texts for people
(log, errors, `doctor`) go through `mask`, which also hides anything that looks like a key, because
an endpoint may quote one.
"""

from __future__ import annotations

import binascii
import functools
import heapq
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, NoReturn
from urllib.parse import quote, quote_plus, urlsplit, urlunsplit

HIDDEN = "***"
_ANYWHERE = 8  # known secrets from this length on are also hidden inside longer words
_PART = 4  # shorter beginnings of a secret are shown

_CARRIES_A_KEY = re.compile(r"auth|cookie|(?<!port)key|secret|token")  # not x-portkey-provider
_PREFIXES = (
    *("sk-", "sk_", "gsk_", "hf_", "xai-", "pplx-", "nvapi-", "AIza", "github_pat_", "glpat-"),
    *("gho_", "ghp_", "ghs_", "ghu_", "ghr_", "eyJ"),
)
_AFTER_A_NAME = "|".join(  # after the beginning of a parameter of a URL
    f"(?<=[?&;]{beginning})" for beginning in ("", "api", "api[-_]", "access", "access[-_]")
)
# Each pattern, in which group 1 stays and the rest of a match is hidden, and the words with which
# its matches begin: Python finds words much faster than the beginning of a pattern.
_LOOKS_LIKE_A_KEY = (
    (rf"(?<![\w-])()(?:{'|'.join(_PREFIXES)})[\w.-]{{8,}}", _PREFIXES),
    # The digit keeps prose readable: "missing bearer authentication" names no token.
    (
        r"(?i)(\b(?:bearer|basic)\s+)(?=[^\s\"',]{0,200}\d)[^\s\"',]{8,}",
        ("bearer", "basic"),
    ),
    (
        rf"(?i)((?:{_AFTER_A_NAME})(?:key|token)=)[^&;\s\"']+",
        ("key=", "token="),
    ),
    (
        r"(?i)(api[-_]?key[\"']?\s?[:=]\s?[\"']?)(?=[^\s\"',]{0,200}\d)[^\s\"',;&}]+",
        ("api",),
    ),
    (r"(://)[^/\s:@]{0,200}:[^/\s@]+(?=@)", ("://",)),
)
_ODD_CASES = "\u0130\u0131\u017f\u212a"  # letters that a pattern takes for i, s or k


class _Spellings(NamedTuple):
    """A secret with percent signs, if it has such a spelling, and its parts in base64."""

    in_percents: tuple[str, ...]
    in_base64: tuple[str, ...]


def _in_percents(text: str) -> tuple[str, ...]:
    raw = text.encode("utf-8", "surrogatepass")
    quoted = {quote(raw, safe=""), quote(raw), quote_plus(raw)}
    in_small_letters = {re.sub("%..", lambda match: match[0].lower(), each) for each in quoted}
    return tuple(sorted((quoted | in_small_letters) - {text}, key=len, reverse=True))


def _in_base64(text: str) -> tuple[str, ...]:
    """Return the characters of base64 that depend on the text alone, whatever is around it.

    Three bytes are four characters, so there are three positions: `user:KEY` is as well known as
    the key alone.
    """
    cores = []
    for before, first in ((0, 0), (1, 2), (2, 3)):
        data = bytes(before) + text.encode("utf-8", "surrogatepass")
        core = binascii.b2a_base64(data)[first : len(data) * 8 // 6].decode()
        cores += [core, core.replace("+", "-").replace("/", "_")]
    return tuple(dict.fromkeys(cores))


class Secret:
    """A text hidden from `repr`, `str`, formats and pickles; `reveal()` returns it."""

    __slots__ = ("_spellings", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._spellings: _Spellings | None = None

    def reveal(self) -> str:
        """Return the text itself."""
        return self._text

    def spellings(self) -> _Spellings:
        """Return the other spellings in which an endpoint may quote the text."""
        if self._spellings is None:
            self._spellings = _Spellings(_in_percents(self._text), _in_base64(self._text))
        return self._spellings

    def __repr__(self) -> str:
        return f"Secret({HIDDEN!r})"

    def __str__(self) -> str:
        return HIDDEN

    def __format__(self, spec: str) -> str:
        return HIDDEN

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Secret:
        return self

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a Secret is not pickled: pass reveal() where the key itself is meant")


def parse_key(text: str) -> Secret | None:
    """Return the stripped key in `text`, or None if it is blank.

    Raises:
        ValueError: the text has a character that no HTTP header can carry. The message has its
            position, and nothing of the key.
    """
    key = text.strip()
    for position, char in enumerate(key, start=1):
        if not char.isascii() or not char.isprintable():
            kind = "a control character" if char.isascii() else "a non-ASCII character"
            raise ValueError(
                f"expected a key of printable ASCII, got {kind} at position {position}"
            )
    return Secret(key) if key else None


def secrets_in(headers: Mapping[str, str]) -> tuple[Secret, ...]:
    """Return the values of headers whose names suggest a key, and each key without its scheme."""
    values: list[str] = []
    for name, value in headers.items():
        if _CARRIES_A_KEY.search(name.lower()):
            values += [value.strip(), *value.split()[-1:]]
    return tuple(Secret(text) for text in dict.fromkeys(values) if text)


def mask(text: str, *secrets: Secret) -> str:
    """Return `text` with the secrets, and anything that looks like a key, hidden.

    A secret shorter than 8 characters (local servers accept any word) is hidden only as a whole
    word. Longer ones are hidden in base64 and with percent signs, too.
    """
    for secret in sorted(set(secrets), key=lambda secret: -len(secret.reveal())):
        known = secret.reveal()
        if len(known) >= _ANYWHERE:
            spellings = secret.spellings()
            text = text.replace(known, HIDDEN)
            for spelling in spellings.in_percents:
                text = text.replace(spelling, HIDDEN)
            for core in spellings.in_base64:
                if core in text:
                    text = _hide_base64(text, core)
        elif known:
            text = re.sub(rf"(?<!\w){re.escape(known)}(?!\w)", HIDDEN, text)
    lowered: str | None = None
    for pattern, words in _patterns():
        searched = text
        if pattern.pattern.startswith("(?i)"):
            searched = lowered = _lowered(text) if lowered is None else lowered
        hidden = _hide_matches(text, searched, pattern, words)
        if hidden != text:
            text, lowered = hidden, None
    return text


def _hide_base64(text: str, core: str) -> str:
    """Hide each word in base64 that contains these characters."""
    pieces: list[str] = []
    end = 0
    for place in _places(text, core):
        if place < end:
            continue
        start = place
        while start > end and _may_be_base64(text[start - 1]):
            start -= 1
        pieces += (text[end:start], HIDDEN)
        end = place + len(core)
        while end < len(text) and (text[end] == "=" or _may_be_base64(text[end])):
            end += 1
    return "".join((*pieces, text[end:]))


def _may_be_base64(character: str) -> bool:
    """Return whether a character may be one of base64; `/` more often separates words."""
    return character.isascii() and (character.isalnum() or character in "+-_")


def _hide_matches(text: str, searched: str, pattern: re.Pattern[str], words: Sequence[str]) -> str:
    """Hide the matches of a pattern, each of which begins with one of these words in `searched`."""
    if len(searched) != len(text):
        return pattern.sub(rf"\1{HIDDEN}", text)
    occurring = [word for word in words if word in searched]
    if not occurring:
        return text
    pieces: list[str] = []
    end = 0
    for start in heapq.merge(*(_places(searched, word) for word in occurring)):
        match = pattern.match(text, start) if start >= end else None
        if match is not None:
            pieces += (text[end : match.end(1)], HIDDEN)
            end = match.end()
    return "".join((*pieces, text[end:])) if pieces else text


def _lowered(text: str) -> str:
    """Return a text in small letters; an empty one if it has letters of odd cases."""
    if not text.isascii() and any(letter in text for letter in _ODD_CASES):
        return ""
    return text.lower()


def _places(text: str, word: str) -> Iterator[int]:
    place = text.find(word)
    while place >= 0:
        yield place
        place = text.find(word, place + 1)


def mask_cut(text: str, *secrets: Secret) -> str:
    """Return a cut `text` masked, without the beginning of a secret at its end."""
    text = mask(text, *secrets)
    for known in (secret.reveal() for secret in secrets):
        for length in range(len(known) - 1, _PART - 1, -1):
            if len(known) >= _ANYWHERE and text.endswith(known[:length]):
                return text[:-length] + HIDDEN
    return text


def mask_url(url: str) -> str:
    """Return a URL without its user information and the values of its query."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return mask(url)
    host = parts.netloc.rpartition("@")[2]
    query = re.sub(r"=[^&]*", f"={HIDDEN}", parts.query)
    return mask(urlunsplit((parts.scheme, host, parts.path, query, "")))


@functools.cache
def _patterns() -> tuple[tuple[re.Pattern[str], Sequence[str]], ...]:
    """Return the patterns, compiled at the first use, which keeps the start fast."""
    return tuple((re.compile(pattern), words) for pattern, words in _LOOKS_LIKE_A_KEY)


class MaskingFilter(logging.Filter):
    """A filter that masks the message, arguments, traceback and stack of every record.

    Add it to the handler: a logger's own filters do not see its children's records.
    """

    def __init__(self, *secrets: Secret) -> None:
        super().__init__()
        self._secrets = frozenset(secrets)

    def hide(self, *secrets: Secret) -> None:
        """Hide these secrets, too, from the next record on."""
        self._secrets |= frozenset(secrets)

    def filter(self, record: logging.LogRecord) -> bool:
        """Mask the record in place, and accept it."""
        record.msg = self._mask(_message(record.getMessage, fallback=record.msg))
        record.args = None
        if record.exc_info and not record.exc_text:
            record.exc_text = logging.Formatter().formatException(record.exc_info)
        if record.exc_text:
            record.exc_text = self._mask(record.exc_text)
        if record.stack_info:
            record.stack_info = self._mask(record.stack_info)
        return True

    def _mask(self, text: str) -> str:
        return mask(text, *self._secrets)


def _message(format_message: Callable[[], str], *, fallback: object) -> str:
    try:
        return format_message()
    except Exception as error:  # noqa: BLE001 - a filter that raises would end the caller
        return f"{fallback} (its arguments do not fit: {type(error).__name__})"
