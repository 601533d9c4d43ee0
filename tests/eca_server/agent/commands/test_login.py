"""Prompts that concern a login, and the masking of keys in them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_server.agent.commands.login import MASKED, LoginPrompt, login_prompt
from eca_server.config.settings import Provider
from eca_server.secret import Secret

KEY = "sk-planted-0123456789"
CONFIGURED = {"My-Corp": Provider()}


def read(message: str, awaited: str | None = None) -> LoginPrompt | None:
    return login_prompt(message, awaited=awaited, configured=CONFIGURED)


@pytest.mark.parametrize(
    ("message", "masked_text", "provider", "key"),
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
def test_the_command_names_a_provider_and_may_contain_the_key(message, masked_text, provider, key):
    prompt = read(message)
    assert (prompt.masked_text, prompt.provider) == (masked_text, provider)
    assert prompt.key == (None if key is None else Secret(key))


def test_a_key_a_command_a_sentence_or_cancel_ends_the_wait():
    for message in ("", " ", "cancel", " cancel\n"):
        prompt = read(message, "openai")
        assert prompt.is_cancelled
        assert (prompt.masked_text, prompt.awaits_key_of) == (message, None)
    for message in ("/doctor", "/My2 x", "/repo-map-show", "what can you do?", "not now please"):
        assert read(message, "openai") is None
    for message, awaited in ((KEY, "openai"), (f"/login openai {KEY}", None)):
        prompt = read(message, awaited)
        assert (prompt.key, prompt.awaits_key_of) == (Secret(KEY), None)
    assert read("/login openai", "My-Corp").awaits_key_of == "openai"
    for message in ("hello", "a /login openai", "/login/openai", KEY):  # nothing is awaited
        assert read(message) is None


@pytest.mark.parametrize(
    "message", [f"my key is {KEY}", f"{KEY} {KEY}", f"{KEY}\n{KEY}", f"ключ{KEY}", "k" * 9000]
)
def test_an_invalid_key_is_hidden_and_the_wait_continues(message):
    prompt = read(message, "openai")
    assert (prompt.masked_text, prompt.awaits_key_of) == (MASKED, "openai")


KEYS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=16, max_size=60).filter(
    lambda key: any(map(str.isdigit, key)) and any(map(str.isupper, key))
)


@given(
    key=KEYS, before=st.sampled_from(["", " ", "Key: ", "openai ", "it is\n"]), waits=st.booleans()
)
def test_no_key_is_ever_shown(key, before, waits):
    message = f"{before}{key}" if waits else f"/login {before}{key}"
    prompt = read(message, "openai" if waits else None)
    assert key not in prompt.masked_text
    assert key not in repr(prompt)
