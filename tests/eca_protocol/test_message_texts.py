"""Messages to JSON texts and back in one step."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from eca_protocol import dumps, loads
from eca_protocol import messages as m
from eca_protocol.errors import DecodeError, InvalidJSON, LocalProtocolError
from eca_protocol.revisions import Revision
from eca_protocol.testing import strategies as eca


@pytest.mark.parametrize("method", ["chat/prompt", "chat/contentReceived", "tool/serverUpdated"])
def test_a_message_is_read_as_it_was_written(method):
    @given(eca.params(method, revision=Revision.CURRENT))
    def check(params: Any) -> None:
        text = dumps(params)
        assert dumps(loads(method, text)) == text

    check()


def test_results_and_editions_are_chosen():
    result = m.ChatPromptResponse(chat_id="c", model="a/b", status="error")
    assert loads("chat/prompt", dumps(result), part="result") == result
    assert '"prompting"' in dumps(result, revision=Revision.R2025_10)
    params = m.ChatPromptParams(chat_id="c", message="m", trust=True)
    assert loads("chat/prompt", dumps(params)) == params
    assert "trust" not in dumps(params, revision=Revision.R2025_10)


def test_what_is_no_message_is_refused_with_its_reason():
    with pytest.raises(InvalidJSON):
        loads("chat/prompt", "{")
    with pytest.raises(DecodeError, match=r"params\.message"):
        loads("chat/prompt", '{"message": 1}')
    with pytest.raises(LocalProtocolError, match="no method chat/promt"):
        loads("chat/promt", "{}")
    with pytest.raises(LocalProtocolError, match="expected a message, got a dict"):
        dumps({"message": "m"})
    wrong: Any = "c"
    with pytest.raises(LocalProtocolError, match=r"ChatContentReceivedParams: .*got a str"):
        dumps(m.ChatContentReceivedParams(chat_id="c", role="user", content=wrong))
    with pytest.raises(LocalProtocolError, match="codec_for"):
        loads("chat/prompt", "{}", revision=Revision.DRAFT)
