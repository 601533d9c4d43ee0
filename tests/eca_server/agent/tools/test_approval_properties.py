from __future__ import annotations

import attrs
from hypothesis import given
from hypothesis import strategies as st

from eca_server.agent.tools.approval import Call, Memo, Policy
from eca_server.config.tool_settings import Approval, ApprovalRule

LOOSENESS = {"deny": 0, "ask": 1, "allow": 2}

selectors = st.sampled_from(["eca", "ECA", "a", "eca_a", "eca__b", "shell", "s", "s__a", "s__b"])
patterns = st.lists(st.sampled_from([".*", "x", "x.*", ".*rm.*", ""]), max_size=2).map(tuple)
one_rule = st.builds(
    ApprovalRule,
    args_matchers=st.dictionaries(st.sampled_from(["p", "command"]), patterns, max_size=2),
    is_damaged=st.booleans(),
)
rules = st.dictionaries(selectors, one_rule, max_size=3)
approvals = st.builds(
    Approval,
    by_default=st.sampled_from([None, "ask", "allow", "deny"]),
    allow=rules,
    ask=rules,
    deny=rules,
)
texts = st.sampled_from(["x", "ls", "ls\nrm x", "rm", "git status"])
calls = st.builds(
    Call,
    server=st.sampled_from(["eca", "s"]),
    tool=st.sampled_from(["a", "b", "shell"]),
    arguments=st.dictionaries(st.sampled_from(["p", "command"]), texts),
    effect=st.sampled_from(["read", "write", "run"]),
    command=st.none() | texts,
    outside=st.sampled_from([(), ("/etc/passwd",)]),
)
behaviors = st.sampled_from(["agent", "plan"])


def everything(call: Call) -> set[Memo]:
    """Return every approval that a user could give for a tool."""
    decision = Policy().decide(attrs.evolve(call, outside=(), server=call.server, effect="run"))
    assert decision.memos
    return set(decision.memos)


@given(approvals, approvals, behaviors, calls)
def test_a_path_outside_or_guarded_never_runs_silently(own, common, behavior, call):
    policy = Policy(own=own, common=common, behavior=behavior)
    outside = attrs.evolve(call, outside=("/etc/passwd",))
    assert policy.decide(outside, everything(call)).verdict != "allow"
    guarded = attrs.evolve(call, outside=(), guarded=(".eca/config.json",))
    assert policy.decide(guarded, everything(call)).verdict != "allow"


@given(approvals, approvals, behaviors, calls, selectors, one_rule, st.booleans())
def test_one_deny_more_never_loosens(own, common, behavior, call, selector, rule, is_own):
    before = Policy(own=own, common=common, behavior=behavior)
    changed = own if is_own else common
    # A rule that is replaced is not one more.
    if selector in changed.deny:
        return
    changed = attrs.evolve(changed, deny={**changed.deny, selector: rule})
    after = Policy(
        own=changed if is_own else own, common=common if is_own else changed, behavior=behavior
    )
    remembered = everything(call)
    loose = LOOSENESS[before.decide(call, remembered).verdict]
    assert LOOSENESS[after.decide(call, remembered).verdict] <= loose


@given(approvals, approvals, behaviors, calls, st.booleans())
def test_a_deny_of_the_tool_always_wins(own, common, behavior, call, by_server):
    selector = call.server if by_server else f"{call.server}__{call.tool}"
    common = attrs.evolve(common, deny={**common.deny, selector: ApprovalRule()})
    policy = Policy(own=own, common=common, behavior=behavior)
    assert policy.decide(call, everything(call)).verdict == "deny"
    assert policy.withheld(server=call.server, tool=call.tool, effect=call.effect)


@given(approvals, approvals, behaviors, calls, st.booleans())
def test_a_deny_of_these_arguments_wins_whatever_is_more_specific(
    own, common, behavior, call, by_server
):
    selector = call.server if by_server else f"{call.server}__{call.tool}"
    rule = ApprovalRule(args_matchers={"p": (".*",)})
    common = attrs.evolve(common, deny={**common.deny, selector: rule})
    policy = Policy(own=own, common=common, behavior=behavior)
    named = attrs.evolve(call, arguments={**call.arguments, "p": "x"})
    assert policy.decide(named, everything(named)).verdict == "deny"


@given(approvals, approvals, calls)
def test_plan_never_runs_what_writes(own, common, call):
    policy = Policy(own=own, common=common, behavior="plan")
    writing = attrs.evolve(call, effect="write")
    assert policy.decide(writing, everything(call)).verdict == "deny"
    removing = attrs.evolve(call, effect="run", command="ls\nrm x")
    assert policy.decide(removing, everything(removing)).verdict == "deny"


@given(approvals, approvals, behaviors, calls)
def test_what_is_remembered_only_answers_questions(own, common, behavior, call):
    policy = Policy(own=own, common=common, behavior=behavior)
    before, after = policy.decide(call), policy.decide(call, everything(call))
    assert before.rule
    if before.verdict != after.verdict:
        assert (before.verdict, after.verdict) == ("ask", "allow")
    assert (before.memos == ()) == (before.verdict != "ask" or bool(call.outside))


@given(approvals, approvals, behaviors, calls, st.sampled_from([(), (".eca/config.json",)]))
def test_trust_answers_every_question_but_those_about_what_must_be_asked(
    own, common, behavior, call, guarded
):
    policy = Policy(own=own, common=common, behavior=behavior)
    call = attrs.evolve(call, guarded=guarded)
    before, after = policy.decide(call), policy.decide(call, is_trusted=True)
    promoted = before.verdict == "ask" and not (call.outside or guarded)
    assert after.verdict == ("allow" if promoted else before.verdict)
