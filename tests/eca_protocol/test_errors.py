"""The exceptions of the SDK."""

import copy
import pickle
from collections.abc import Callable

import pytest

from eca_protocol import errors
from eca_protocol import messages as m
from eca_protocol.ecp.errors import AgentError

ERRORS = (
    errors.ECAError("text"),
    errors.LocalProtocolError("text"),
    errors.RemoteProtocolError("text", code=-3, request_id="7", fatal=True),
    errors.InvalidJSON("text", position=3),
    errors.DecodeError(path="params.x", expected="a string", got="7", revision="2025-10"),
    errors.RPCError(-1, "text", {"a": [1]}),
    errors.RequestFailed(-1, "text", method="chat/prompt"),
    errors.ApprovalNeeded("text", m.ChatTextContent(text="any")),
    errors.AnswerNeeded("text", m.ChatAskQuestionParams(chat_id="c", question="Which?")),
    errors.TurnFailed("text"),
    errors.ConnectionClosed("text"),
    errors.StartFailed("text"),
    errors.DeadlineExceeded("the answer", 3.0),
    errors.HTTPError("tls", "text"),
    errors.HTTPTimeout("idle", 3.0, "text"),
    AgentError("agent_error", "text", code=-1, data={"a": 1}),
)
COPIES: dict[str, Callable[[errors.ECAError], errors.ECAError]] = {
    "pickle": lambda error: pickle.loads(pickle.dumps(error)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_is_pickled_and_copied_with_its_attributes(
    error: errors.ECAError, how: str
) -> None:
    """A process pool breaks, or hangs, at an exception that cannot be unpickled."""
    error.add_note("a note")
    other = COPIES[how](error)
    assert type(other) is type(error)
    assert str(other) == str(error)
    assert (other.args, vars(other)) == (error.args, vars(error))


def test_every_public_error_is_in_the_table() -> None:
    assert {type(error).__name__ for error in ERRORS} >= {*errors.__all__} - {"ProtocolError"}
