"""A denied command stays denied under any configured rules, in any spelling.

Each decision takes limited time for any patterns.
"""

from __future__ import annotations

import time
from pathlib import Path

import attrs
from runner import instrumented, main, texts

with instrumented():
    from eca_protocol import json
    from eca_protocol.errors import InvalidJSON
    from eca_server.agent.tools.approval import Decision, Policy, policy_of
    from eca_server.agent.tools.approval_rules import Call
    from eca_server.config.interpolation import ReferenceResolver
    from eca_server.config.reading import Place, deep_merge, record
    from eca_server.config.settings import Config

CONFIG = record(Config)
DENY = {"toolCall": {"approval": {"deny": {"eca": {"argsMatchers": {"command": [".*rm -rf.*"]}}}}}}
LOOSENESS = {"deny": 0, "ask": 1, "allow": 2}
LONGEST = 1.0  # seconds of the process for a decision; its patterns get a quarter of one


def check(data: bytes) -> None:
    """Check `data`: the JSON of `toolCall.approval` and a command."""
    rules, command = texts(data, 2)
    try:
        approval = json.loads(rules)
    except InvalidJSON:
        return
    configured = {"toolCall": {"approval": approval}}
    began = time.process_time()
    call = Call(tool="shell_command", arguments={"command": command}, effect="run", command=command)
    policies = [a_policy(behavior, configured) for behavior in ("agent", "plan")]
    agent, plan = (policy.decide(call) for policy in policies)
    assert time.process_time() - began < LONGEST
    assert LOOSENESS[plan.verdict] <= LOOSENESS[agent.verdict]
    for policy, decision in zip(policies, (agent, plan), strict=True):
        check_decision(policy, call, decision)
    stricter = a_policy("agent", configured, DENY).decide(
        attrs.evolve(call, arguments={"command": f"{command}\nrm -rf x"})
    )
    assert stricter.verdict == "deny"


def check_decision(policy: Policy, call: Call, decision: Decision) -> None:
    assert decision.rule
    outside = policy.decide(attrs.evolve(call, outside=("/outside",)))
    assert outside.verdict != "allow"
    assert not outside.memos
    if decision.verdict == "deny":
        assert policy.decide(call, is_trusted=True).verdict == "deny"
    if decision.verdict == "ask" and decision.memos:
        remembered = set(decision.memos)
        is_covered = all(part.key for part in call.parts)
        assert (policy.decide(call, remembered).verdict == "allow") is is_covered
        other = f"{call.command}\nrm x"
        another = attrs.evolve(call, arguments={"command": other}, command=other)
        approved = policy.decide(another, remembered)
        assert approved.verdict != "allow" or policy.decide(another).verdict == "allow"


def a_policy(behavior: str, *layers: object) -> Policy:
    """Return the policy of a behaviour with some configuration."""
    merged: dict[str, object] = {}
    for layer in layers:
        surroundings = ReferenceResolver(environ={}, home=Path("/nowhere"), directory=None)
        merged = deep_merge(merged, CONFIG.read(layer, Place(surroundings)))
    config = CONFIG.build(merged)
    assert isinstance(config, Config)
    return policy_of(config, behavior)


if __name__ == "__main__":
    main("approval", check)
