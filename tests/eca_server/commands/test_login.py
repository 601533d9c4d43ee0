"""What a prompt has to do with a login, and what of it may be shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_server.commands.login import MASKED, LoginPrompt, login_prompt
from eca_server.secret import Secret

KEY = "sk-planted-0123456789"
PROVIDERS = dict.fromkeys(("openai", "My-Corp"))


def read(message: str, awaited: str | None = None) -> LoginPrompt | None:
    return login_prompt(message, awaited=awaited, providers=PROVIDERS)


@pytest.mark.parametrize(
    ("message", "shown", "provider", "key"),
    [
        ("/login", "/login", None, None),
        (" /login \n", " /login \n", None, None),
        ("/login openai", "/login openai", "openai", None),
        ("/LOGIN MY-CORP", "/LOGIN MY-CORP", "My-Corp", None),
        (f"/login openai {KEY}", f"/login openai {MASKED}", "openai", KEY),
        (f"/login openai\n{KEY}\n", f"/login openai {MASKED}", "openai", KEY),
        (f"/login {KEY}", f"/login {MASKED}", None, None),
        (f"/login {KEY} openai", f"/login {MASKED}", None, None),
    ],
)
def test_the_command_names_a_provider_and_may_bring_the_key(
    message: str, shown: str, provider: str | None, key: str | None
) -> None:
    found = read(message)
    assert found is not None
    assert (found.shown, found.provider) == (shown, provider)
    assert found.key == (None if key is None else Secret(key))


@pytest.mark.parametrize("message", ["", " ", "cancel", " cancel\n"])
def test_while_a_key_is_awaited_nothing_and_cancel_give_it_up(message: str) -> None:
    found = read(message, "openai")
    assert found is not None
    assert found.given_up
    assert found.shown == message
    assert found.awaits_key_of is None


@pytest.mark.parametrize(
    "message", ["/doctor", "/My2 x", "/repo-map-show", "what can you do?", "not now please"]
)
def test_another_command_or_a_sentence_ends_the_wait(message: str) -> None:
    assert read(message, "openai") is None


@pytest.mark.parametrize(
    "message",
    [f"my key is {KEY}", f"{KEY} {KEY}", f"{KEY}\n{KEY}", f"ключ{KEY}", "k" * 9000],
)
def test_what_may_hold_a_key_and_is_none_is_hidden_and_the_wait_goes_on(message: str) -> None:
    found = read(message, "openai")
    assert found is not None
    assert (found.shown, found.awaits_key_of) == (MASKED, "openai")


def test_a_key_ends_the_wait_and_so_does_its_command() -> None:
    for message, awaited in ((KEY, "openai"), (f"/login openai {KEY}", None)):
        found = read(message, awaited)
        assert found is not None
        assert found.key == Secret(KEY)
        assert found.awaits_key_of is None
    begun = read("/login openai", "My-Corp")
    assert begun is not None
    assert begun.awaits_key_of == "openai"


@pytest.mark.parametrize("message", ["hello", "a /login openai", "/login/openai", KEY])
def test_without_a_wait_a_prompt_is_a_prompt(message: str) -> None:
    assert read(message) is None


KEYS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=16, max_size=60).filter(
    lambda key: any(map(str.isdigit, key)) and any(map(str.isupper, key))
)


@given(
    key=KEYS, before=st.sampled_from(["", " ", "Key: ", "openai ", "it is\n"]), waits=st.booleans()
)
def test_no_key_is_ever_shown(key: str, before: str, waits: bool) -> None:
    message = f"{before}{key}" if waits else f"/login {before}{key}"
    found = read(message, "openai" if waits else None)
    assert found is not None
    assert key not in found.shown
    assert key not in repr(found)
