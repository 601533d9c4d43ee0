from __future__ import annotations

from typing import Any

import attrs
import pytest

from eca_server.agent.tools.approval import Call, Memo, Policy
from eca_server.config.tool_settings import Approval, ApprovalRule

EDIT = Call(tool="edit_file", effect="write", arguments={"path": "a"})
OUTSIDE = attrs.evolve(EDIT, outside=("/etc/passwd",))


def shell(command: str, folder: str | None = None) -> Call:
    arguments: dict[str, Any] = {"command": command}
    if folder is not None:
        arguments["working_directory"] = folder
    return Call(tool="shell_command", effect="run", arguments=arguments, command=command)


def approved(policy: Policy, call: Call) -> set[Memo]:
    """Return the approvals stored after the user approved a call for the session."""
    decision = policy.decide(call)
    assert decision.verdict == "ask"
    assert decision.memos
    return set(decision.memos)


def test_a_tool_approved_for_the_session_does_not_ask_again():
    policy = Policy()
    remembered = approved(policy, EDIT)
    again = policy.decide(attrs.evolve(EDIT, arguments={"path": "b"}), remembered)
    assert (again.verdict, again.rule) == ("allow", "approved for this session")


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (shell("make"), "allow"),
        (shell("make "), "ask"),
        (shell("make; rm -rf x"), "ask"),
        (shell("make", "sub"), "ask"),
        (Call(tool="shell_command", effect="run"), "ask"),
        (Call(server="x", tool="shell_command", effect="run", command="make"), "ask"),
        (EDIT, "ask"),
    ],
)
def test_of_a_command_without_parts_its_exact_text_is_remembered_and_never_more(call, expected):
    policy = Policy()
    assert policy.decide(call, approved(policy, shell("make"))).verdict == expected


def test_what_is_remembered_never_covers_a_path_outside():
    policy = Policy()
    remembered = approved(policy, EDIT)
    assert policy.decide(OUTSIDE, remembered).verdict == "ask"


def test_an_approval_of_a_path_outside_cannot_be_remembered():
    assert Policy().decide(OUTSIDE).memos == ()
    assert Policy(common=Approval(by_default="allow")).decide(OUTSIDE).memos == ()


def test_what_is_remembered_never_beats_a_deny():
    remembered = approved(Policy(), EDIT)
    for policy in (
        Policy(common=Approval(deny={"edit_file": ApprovalRule()})),
        Policy(common=Approval(deny={"eca": ApprovalRule(args_matchers={"path": ("a",)})})),
        Policy(common=Approval(by_default="deny")),
        Policy(behavior="plan"),
    ):
        assert policy.decide(EDIT, remembered).verdict == "deny"


def test_a_yes_to_one_question_is_no_yes_to_another():
    rule = ApprovalRule(args_matchers={"path": (".*secret",)})
    policy = Policy(common=Approval(ask={"edit_file": rule}))
    secret = attrs.evolve(EDIT, arguments={"path": "my.secret"})
    to_ordinary, to_secret = approved(policy, EDIT), approved(policy, secret)
    assert policy.decide(secret, to_ordinary).verdict == "ask"
    assert policy.decide(EDIT, to_secret).verdict == "ask"
    assert policy.decide(secret, to_secret).verdict == "allow"


def test_a_configured_ask_about_a_whole_tool_can_be_answered_for_the_session():
    policy = Policy(common=Approval(by_default="allow", ask={"edit_file": ApprovalRule()}))
    assert policy.decide(EDIT, approved(policy, EDIT)).verdict == "allow"
