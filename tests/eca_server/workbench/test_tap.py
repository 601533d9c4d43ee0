"""The masking of secrets in recordings of `tap`."""

import io
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from eca_server.workbench.tap import masker, replay

KEY = "sk-ant-0123456789abcdef"


@pytest.mark.parametrize(
    ("message", "record"),
    [
        ({"text": f"the key is {KEY}\n"}, {"text": "the key is ***\n"}),
        ({"list": [[KEY]], "n": 1}, {"list": [["***"]], "n": 1}),
        ({"apiKey": "any word", "key": "a word"}, {"apiKey": "***", "key": "a word"}),
        ({"env": {"MY_TOKEN": "x"}}, {"env": {"MY_TOKEN": "***"}}),
        (
            {"env": [{"name": "DB_PASSWORD", "value": "any word"}, {"name": "A", "value": "b"}]},
            {"env": [{"name": "DB_PASSWORD", "value": "***"}, {"name": "A", "value": "b"}]},
        ),
        (
            {"headers": [{"value": "any word", "name": "X-API-Key"}]},
            {"headers": [{"value": "***", "name": "X-API-Key"}]},
        ),
        (  # the server stores each header of an MCP server as a secret
            {"method": "mcp/addServer", "params": {"headers": {"X-Team": "any word", "N": None}}},
            {"method": "mcp/addServer", "params": {"headers": {"X-Team": "***", "N": None}}},
        ),
        (
            {"servers": [{"headers": [{"value": "any word", "name": "X-Team"}]}]},
            {"servers": [{"headers": [{"value": "***", "name": "X-Team"}]}]},
        ),
        ({"extraHeaders": {"X-Gateway": "any word"}}, {"extraHeaders": {"X-Gateway": "***"}}),
        ({"env": {"DB_PASS": "x", "BYPASS": "y"}}, {"env": {"DB_PASS": "***", "BYPASS": "y"}}),
        ({"token": ["any word", 1, ["b"]], "n": ["c"]}, {"token": ["***", 1, ["***"]], "n": ["c"]}),
        (
            {"command": ["srv", "--token", "any", "--api-key=a\nb=c", "--model=m", "-v", "word"]},
            {"command": ["srv", "--token", "***", "--api-key=***", "--model=m", "-v", "word"]},
        ),
        (
            {"args": ["--header", "X-API-Key: any", "--header=Authorization:any", "Accept: any"]},
            {"args": ["--header", "X-API-Key: ***", "--header=Authorization:***", "Accept: any"]},
        ),
        (
            {"args": ["--password", "--secret", "any", "MY_SECRET=x", "--max-tokens", "8", "tok"]},
            {"args": ["--password", "***", "***", "MY_SECRET=***", "--max-tokens", "8", "tok"]},
        ),
        ({"url": "https://me:pass@host/"}, {"url": "https://***@host/"}),
        ({"text": 'say "my own secret"'}, {"text": 'say "***"'}),
        (
            {"method": "providers/loginInput", "params": {"provider": "p", "data": {"x": "y"}}},
            {"method": "providers/loginInput", "params": {"provider": "p", "data": {"x": "***"}}},
        ),
        ({"method": "providers/loginInput", "params": None}, None),
        (
            {"method": "chat/prompt", "params": {"message": "/login azure 0a1b2c3d4e5f"}},
            {"method": "chat/prompt", "params": {"message": "/login azure ***"}},
        ),
        ({"method": "chat/prompt", "params": {"message": "/login azure browser"}}, None),
        ({"text": "an author's keyboard, tokens and 3 cookies"}, None),
        ({"lines": ["- my token", "a word", "the token = b", None]}, None),
        ({"name": "token", "value": 1, "other": "a word"}, None),
        ({"sessionTokens": 7, "authStatus": "expired"}, None),
    ],
)
def test_a_message_is_recorded_without_its_secrets(message: Any, record: Any) -> None:
    mask = masker({"MY_API_KEY": "my own secret", "A_TOKEN": "short", "KEYBOARD": "a keyboard"})
    body = json.dumps(message, indent=1).encode()
    if record is None:
        assert mask(body) is body
    else:
        assert json.loads(mask(body)) == record


def test_what_is_no_message_or_spelled_otherwise_is_masked_as_text() -> None:
    mask = masker({"A_SECRET": "ab/cd/ef+gh"})
    assert mask(f"junk \xff {KEY} {{".encode("latin-1")) == b"junk \xff *** {"
    assert mask(b"\x00\xff") == b"\x00\xff"
    assert mask(b'{"text":"ab\\/cd\\/ef+gh"}') == b'{"text":"***"}'
    assert mask(b'{"text":"ab\\u002fcd/ef+gh"}') == b'{"text":"***"}'
    assert mask(b'{"text":"ab\\/cd"}') == b'{"text":"ab\\/cd"}'


def test_a_tap_without_listeners_works_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    class BrokenStream(io.StringIO):
        def write(self, _: str) -> int:
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stderr", BrokenStream())
    assert replay(Path(os.devnull), [], deadline=1) == 2


def test_a_key_that_a_chat_was_asked_for_is_hidden_and_no_other_prompt() -> None:
    mask = masker({})

    def mask_message(message: Any) -> Any:
        return json.loads(mask(json.dumps(message).encode()))

    def prompt(chat_id: Any, text: str) -> Any:
        return {"id": 2, "method": "chat/prompt", "params": {"chatId": chat_id, "message": text}}

    def answer(status: str) -> Any:
        return {"id": 2, "result": {"chatId": "c", "status": status}}

    assert mask_message(answer("login")) == answer("login")
    for other in (prompt("d", "0a1b2c"), prompt(["c"], "0a1b2c"), prompt("c", "/login x")):
        assert mask_message(other) == other
    assert mask_message(prompt("c", "0a1b2c")) == prompt("c", "***")
    assert mask_message(prompt("c", " 0a1b2c3d\n")) == prompt("c", "***")
    assert mask_message(answer("prompting")) == answer("prompting")
    assert mask_message(prompt("c", "thanks")) == prompt("c", "thanks")


def test_a_key_that_was_typed_in_is_hidden_where_a_server_says_it_back() -> None:
    mask = masker({})
    prompt = b'{"method":"chat/prompt","params":{"message":"/login azure 0a1b2\\u00e9c3d4"}}'
    echo = b'{"params":{"content":{"type":"text","text":"/login azure 0a1b2\\u00e9c3d4"}}}'
    assert mask(echo) is echo
    assert b"0a1b2" not in mask(prompt)
    assert json.loads(mask(echo))["params"]["content"]["text"] == "/login azure ***"
