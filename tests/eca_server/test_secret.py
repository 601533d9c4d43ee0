import copy
import io
import json
import logging
import pickle
import re
import sys
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eca_server.secret import MaskingFilter, Secret, mask, parse_key, secrets_in

KEY = "planted-0123456789-key"
KEYS = st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=8)


@pytest.mark.parametrize(
    "shown",
    [
        repr(Secret(KEY)),
        str(Secret(KEY)),
        f"{Secret(KEY)}",
        f"{Secret(KEY):>40}",
        f"{Secret(KEY)!r}",
        f"{[Secret(KEY)]}",
        "%s %r" % (Secret(KEY), {"key": Secret(KEY)}),  # noqa: UP031 - the spelling under test
    ],
)
def test_no_spelling_of_a_secret_shows_it(shown: str) -> None:
    assert KEY not in shown
    assert "***" in shown


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_secret_is_neither_pickled_nor_written_as_json(protocol: int) -> None:
    with pytest.raises(TypeError):
        pickle.dumps(Secret(KEY), protocol)
    with pytest.raises(TypeError):
        json.dumps(Secret(KEY))


def test_secrets_compare_by_text_copy_as_themselves_and_only_reveal_gives_the_text() -> None:
    secret = Secret(KEY)
    assert secret == Secret(KEY)
    assert secret not in (Secret("another"), KEY)
    assert len({secret, Secret(KEY)}) == 1
    assert copy.copy(secret) is secret
    assert copy.deepcopy([secret])[0] is secret
    assert secret.reveal() == KEY
    assert not hasattr(secret, "__dict__")


@given(st.text(), KEYS, st.text())
def test_a_known_secret_never_survives_masking(before: str, key: str, after: str) -> None:
    assert key not in mask(f"{before}{key}{after}", Secret(key)).replace("***", "")


ANY_KEYS = st.text(st.characters(codec="utf-8"), min_size=8)


@given(st.text(), ANY_KEYS, st.text(), st.booleans(), st.sampled_from([quote, quote_plus]))
def test_a_known_secret_survives_masking_in_no_other_spelling(
    before: str, key: str, after: str, is_small: bool, spell: Callable[[str], str]
) -> None:
    spelled = spell(key)
    if is_small:
        spelled = re.sub("%..", lambda match: match[0].lower(), spelled)
    assert spelled not in mask(f"{before}{spelled}{after}", Secret(key)).replace("***", "")


@given(st.binary(max_size=9), ANY_KEYS, st.binary(max_size=9))
def test_a_known_secret_survives_masking_in_no_base64(
    before: bytes, key: str, after: bytes
) -> None:
    for encode in (b64encode, urlsafe_b64encode):
        encoded = encode(before + key.encode() + after).decode()
        start, end = -(-len(before) * 4 // 3), (len(before) + len(key.encode())) * 4 // 3
        masked = mask(f"refused: {encoded}.", Secret(key))
        assert encoded[start:end] not in masked
        assert masked.startswith("refused: ")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Authorization: Basic {}", "Authorization: Basic ***"),
        ("?token={}&a=b", "?token=***&a=b"),
        ("https://host/{}/x", "https://host/***/x"),
        ('"{}", "{}"', '"***", "***"'),
        ("an unpaired \ud800", "an unpaired \ud800"),
    ],
)
def test_a_key_in_base64_is_hidden_as_a_whole_word(text: str, expected: str) -> None:
    encoded = b64encode(f"user:{KEY}".encode()).decode()
    assert mask(text.replace("{}", encoded), Secret(KEY), Secret("\ud800" * 8)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "sk-planted0123456789",
        "sk-proj-planted_0123456789",
        "refused: sk-ant-api03-planted0123456789!",
        "AIzaPlanted0123456789planted",
        "ghp_planted0123456789",
        "gho_planted0123456789",
        "github_pat_planted0123456789",
        "gsk_planted0123456789",
        "Authorization: Bearer planted0123456789",
        "authorization: basic cGxhbnRlZDA0MTIz",
        "GET https://host/v1?alt=sse&key=planted0123456789&x=1",
        "https://host/v1?api_key=planted",
        "x-api-key: planted0123456789",
        '{"api_key": "planted0123456789"}',
        "https://user:planted@host/v1",
    ],
)
def test_what_looks_like_a_key_is_masked(text: str) -> None:
    masked = mask(text)
    assert "***" in masked
    assert "lanted0" not in masked
    assert ":planted" not in masked
    assert "=planted" not in masked
    assert "cGxhbnRlZDA0MTIz" not in masked


PATTERNS = (  # as one would write them; `mask` searches for the words with which they begin
    r"(?<![\w-])()(?:sk[-_]|gsk_|hf_|xai-|pplx-|nvapi-|AIza|gh[opsur]_|github_pat_|glpat-|eyJ)[\w.-]{8,}",
    r"(?i)(\b(?:bearer|basic)\s+)(?=[^\s\"',]{0,200}\d)[^\s\"',]{8,}",
    r"(?i)([?&;](?:api[-_]?|access[-_]?)?(?:key|token)=)[^&;\s\"']+",
    r"(?i)(api[-_]?key[\"']?\s?[:=]\s?[\"']?)(?=[^\s\"',]{0,200}\d)[^\s\"',;&}]+",
    r"(://)[^/\s:@]{0,200}:[^/\s@]+(?=@)",
)
WORDS = st.sampled_from(
    [
        *("sk-", "gsk_", "gho_", "eyJ", "AIza", "bearer", "Basic", "BAS\u0131C", "api", "API"),
        *("ap\u0130", "key", "\u212aey", "token=", "access", "-", "_", "?", "&", ";", "=", ":"),
        *("@", '"', "'", "/", ".", "x", "1", "planted0123456789", "\xe9", "\u017f", "\u1e9e"),
        *("://", " ", "\n"),
    ]
)


@settings(max_examples=300)
@given(st.lists(WORDS, max_size=30).map("".join))
def test_masking_finds_what_its_patterns_match(text: str) -> None:
    expected = text
    for pattern in PATTERNS:
        expected = re.sub(pattern, r"\1***", expected)
    assert mask(text) == expected


def test_a_pattern_takes_few_other_letters_for_those_of_its_words() -> None:
    letters = sorted(set("bearerbasicapikeytoken"))
    every = "".join(map(chr, range(sys.maxunicode)))
    taken = set(re.findall(f"[{''.join(letters)}]", every, re.IGNORECASE))
    assert {each.lower() for each in taken - set("\u0130\u0131\u017f\u212a")} == set(letters)


PROSE = [
    "Missing bearer or basic authentication in header",
    "the task-force-of-many met",
    "api_key: expected a string",
    "http://localhost:11434/v1 answered",
    "a file at path/to/key=value.txt",
    "model gpt-4o-mini-2024-07-18 is overloaded",
]


def test_prose_stays_readable_and_a_known_secret_is_hidden_as_a_word() -> None:
    assert [mask(text) for text in PROSE] == PROSE
    assert mask("ollama runs ollamas: ollama!", Secret("ollama")) == "*** runs ollamas: ***!"
    short, long = Secret("planted-01"), Secret("planted-0123456789")
    assert mask("planted-0123456789", short, long) == "***"


def test_a_key_is_stripped_and_a_blank_one_is_none() -> None:
    assert [parse_key(text) for text in ("", " \t\n")] == [None, None]
    assert parse_key(f"  {KEY}\r\n") == Secret(KEY)


@pytest.mark.parametrize(
    ("text", "place"), [("ab\ncd", 3), ("ab\x00", 3), ("schlüssel", 5), ("a\u200bb", 2)]
)
def test_a_key_no_header_can_carry_is_refused_without_being_shown(text: str, place: int) -> None:
    with pytest.raises(ValueError) as caught:
        parse_key(text)
    assert str(caught.value).endswith(f"at position {place}")
    assert text not in str(caught.value)


def test_the_log_shows_no_secret_in_message_arguments_or_traceback() -> None:
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    masking = MaskingFilter(Secret(KEY))
    handler.addFilter(masking)
    logger = logging.Logger("root-of-this-test")  # noqa: LOG001 - apart from the real tree
    logger.addHandler(handler)
    logger.warning("sent %s to %r", KEY, {"key": KEY})
    logger.warning(f"plain {KEY}")  # noqa: G004 - the careless form
    logger.warning("the stack quotes this line: %s", "planted-0123456789-key", stack_info=True)
    try:
        {}[KEY]
    except KeyError:
        logger.exception("failed with %s", KEY)
    assert written.getvalue().count("***") == 7
    assert "KeyError" in written.getvalue()
    masking.hide(Secret("learnt-later-01"))
    logger.warning("learnt-later-01 and %s", KEY)
    logger.warning(f"%d of {KEY}", "three")  # noqa: G004 - the careless form
    assert "do not fit" in written.getvalue()
    logger.warning("%s", "100%s done")  # which is formatted once
    assert written.getvalue().endswith("\n100%s done\n")
    assert not [text for text in (KEY, "learnt") if text in written.getvalue()]


@pytest.mark.parametrize(
    ("headers", "secrets"),
    [
        ({"Authorization": f"Bearer {KEY}"}, {f"Bearer {KEY}", KEY}),
        ({"x-api-key": f" {KEY}\n"}, {KEY}),
        ({"Cookie": f"session={KEY}"}, {f"session={KEY}"}),
        ({"X-Own-Token": KEY, "x-title": "ours"}, {KEY}),
        ({"X-Portkey-Virtual-Key": KEY, "apikey": KEY, "X-Api-Key-2": KEY}, {KEY}),
        ({"accept": "text/plain", "authorization": " "}, set()),
        ({"x-portkey-provider": "openai"}, set()),
    ],
)
def test_headers_that_carry_a_key_are_known_by_their_names(headers, secrets) -> None:
    assert set(secrets_in(headers)) == set(map(Secret, secrets))
