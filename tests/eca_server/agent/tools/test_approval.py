from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_server.agent.tools import approval
from eca_server.agent.tools.approval import Decision, Memo, Policy, policy_of
from eca_server.agent.tools.approval_rules import Call, spellings
from eca_server.config import matchers as name_matchers
from eca_server.config.agent_settings import Behavior
from eca_server.config.settings import Config
from eca_server.config.tool_settings import Approval, ApprovalRule, ToolCall
from tests.promises import within

SPELLINGS = ["read_file", "eca_read_file", "eca__read_file", "ECA__read_file"]
READ = Call(tool="read_file", effect="read", arguments={"path": "a.py"})
READ_OUTSIDE = attrs.evolve(READ, outside=("/etc/passwd",))
WRITE = Call(tool="write_file", effect="write", arguments={"path": "a.py", "content": "x"})
DECOMPOSED = Call(tool="write_file", effect="write", arguments={"path": "ae\u0301"})
MOVE = Call(tool="move_file", effect="write")
GREP = Call(tool="grep", effect="read", arguments={"pattern": "x"})
GITHUB = Call(server="github", tool="create_issue", effect="run", arguments={"title": "x"})
JSON = Call(server="s", tool="t", effect="run", arguments={"a": {"b": [1, "x"]}, "c": None})


def shell(command: str, folder: str | None = None) -> Call:
    arguments = {"command": command} | ({} if folder is None else {"working_directory": folder})
    return Call(tool="shell_command", effect="run", arguments=arguments, command=command)


def rules(**by_selector: dict[str, list[str]]) -> dict[str, ApprovalRule]:
    return {
        selector: ApprovalRule(args_matchers={k: tuple(v) for k, v in matchers.items()})
        for selector, matchers in by_selector.items()
    }


def commands(*patterns: str) -> dict[str, ApprovalRule]:
    return rules(shell_command={"command": list(patterns)})


def verdict(rules_of_calls: Approval, call: Call) -> str:
    return Policy(common=rules_of_calls).decide(call).verdict


ANY = Approval(by_default="allow")
NONE = Approval(by_default="deny")
PYTHON = rules(write_file={"path": [".*py"]})
DAMAGED = {"write_file": ApprovalRule(args_matchers={"path": ("z",)}, is_damaged=True)}
ONE_OF_TWO = rules(write_file={"path": [".*py"], "content": ["y"]})


@pytest.mark.parametrize(
    ("approval", "call", "expected"),
    [
        # By default reading in the workspace runs, and the rest asks.
        (Approval(), READ, "allow"),
        (Approval(), Call(tool="directory_tree", effect="read", arguments={"path": "."}), "allow"),
        (Approval(), WRITE, "ask"),
        (Approval(), shell("ls"), "ask"),
        (Approval(), GITHUB, "ask"),
        (Approval(), Call(server="github", tool="list", effect="read"), "ask"),
        (Approval(), READ_OUTSIDE, "ask"),
        *((ANY, call, "allow") for call in (READ, WRITE, shell("make"), GITHUB)),
        (NONE, READ, "allow"),
        (NONE, WRITE, "deny"),
        (NONE, READ_OUTSIDE, "deny"),
        # The most specific rule counts, and a deny beats all.
        (Approval(allow=rules(eca={}), ask=rules(write_file={})), WRITE, "ask"),
        (Approval(ask=rules(eca={}), allow=rules(write_file={})), WRITE, "allow"),
        (Approval(ask=rules(write_file={}), allow=PYTHON), WRITE, "allow"),
        (Approval(allow=rules(write_file={}), ask=PYTHON), WRITE, "ask"),
        (Approval(allow=rules(write_file={}), ask=rules(write_file={})), WRITE, "ask"),
        (Approval(ask=rules(eca={}), allow=rules(eca={"path": [".*py"]})), WRITE, "allow"),
        (Approval(by_default="deny", allow=rules(eca={})), WRITE, "allow"),
        (Approval(deny=rules(eca={}), allow=PYTHON), WRITE, "deny"),
        (Approval(deny=PYTHON, allow=rules(write_file={})), WRITE, "deny"),
        (
            Approval(deny=rules(write_file={"path": [".*c"]}), allow=rules(write_file={})),
            WRITE,
            "allow",
        ),
        (Approval(deny=rules(eca={"path": [".*py"]}), allow=rules(write_file={})), WRITE, "deny"),
        (Approval(deny=rules(grep={}), allow=rules(write_file={})), WRITE, "allow"),
        # An allow must fit every argument that it names, a deny only one.
        (Approval(allow=ONE_OF_TWO), WRITE, "ask"),
        (Approval(deny=ONE_OF_TWO), WRITE, "deny"),
        # A missing argument fits nothing.
        (Approval(allow=rules(write_file={"other": [".*"]})), WRITE, "ask"),
        (Approval(deny=rules(write_file={"other": [".*"]})), WRITE, "ask"),
        (Approval(allow=rules(write_file={"path": []})), WRITE, "ask"),
        (Approval(deny=rules(write_file={"path": []})), WRITE, "ask"),
        # The same file may be named with composed and decomposed characters.
        (Approval(deny=rules(write_file={"path": ["a\xe9"]})), DECOMPOSED, "deny"),
        (Approval(deny=rules(write_file={"path": ["ae\u0301"]})), DECOMPOSED, "deny"),
        (Approval(allow=rules(write_file={"path": ["a\xe9"]})), DECOMPOSED, "ask"),
        # An argument that is no text is matched as JSON.
        (Approval(deny=rules(s__t={"a": [r'.*\[1,"x"\].*']})), JSON, "deny"),
        (Approval(deny=rules(s__t={"c": [".*"]})), JSON, "ask"),
        # A damaged rule allows nothing and denies every call.
        (Approval(allow=DAMAGED), WRITE, "ask"),
        (Approval(deny=DAMAGED), WRITE, "deny"),
        (Approval(by_default="allow", ask=DAMAGED), WRITE, "ask"),
        # A tool of another server is matched by its server, or by both names.
        (Approval(allow=rules(github={})), GITHUB, "allow"),
        (Approval(allow=rules(github__create_issue={})), GITHUB, "allow"),
        # An allow ends with its line.
        (Approval(allow=commands("git status.*")), shell("git status -s"), "allow"),
        (Approval(allow=commands("git status.*")), shell("git status\nrm -rf x"), "ask"),
        (Approval(allow=commands("git status")), shell("git status\n"), "ask"),
        (Approval(allow=commands("git status")), shell("sudo git status"), "ask"),
        (Approval(allow=commands("(?s)make.*")), shell("make\ntest"), "ask"),
        (Approval(allow=commands("(?s)make.*")), shell("make\nmake test"), "allow"),
    ],
)
def test_the_verdict_of_rules_about_a_call(approval, call, expected):
    assert verdict(approval, call) == expected


GIT = Approval(allow=commands("git (status|diff)( .*)?", "head( .*)?"))
ASCII = Approval(allow=commands("git[ -~]*"))
ECHO = Approval(allow=commands("echo .*"))
ALL = Approval(allow=commands(".*"))
PREFIXED = Approval(allow=commands("CI=1 npm .*"))
NAMED = Approval(allow=commands("cd [a-z]+ && npm .*", "npm .* > log"))


@pytest.mark.parametrize(
    ("approval", "command", "expected"),
    [
        *((GIT, f"git status {rest}", "ask") for rest in (
            "; touch x", ";touch x", "&& touch x", "|| touch x", "| sh", "|& sh", "& touch x",
            "> x", "2> x", ">| x", "&> x", "< x", "<(touch x)", "`touch x`", "$(touch x)",
            '"$(touch x)"', "; for i in a; do touch x; done", "; { touch x; }", "(touch x)",
            "> \r", "&>\xa0", "<<E\ntouch x\nE", "; git diff > x", "&& git diff; touch x",
            "# comment; touch x",
        )),
        *((GIT, command, "allow") for command in (
            "git status ';' x", 'git diff "a | b" \\; x', "git diff -- a;git status",
            "git status ;", "git status 2>/dev/null | head -3", "git diff &",
            "git diff >/dev/null 2>&1 && git status",
        )),
        (ASCII, "git log; touch x", "ask"),
        *((ASCII, command, "ask") for command in (
            "gits=1 touch x", "git+=1 touch x", "gits[a[0]]=1 touch x", "gits[1 + 1]=1 touch x",
            "git log; gits=1 touch x", "git $(gits=1 touch x)", "git log; >git.log touch x",
            "git log; 2> git.log touch x", "git $(>git.log touch x)", "gits=(touch x)",
            "git log; >/dev/null gits= touch x", "gits=git touch x", "gits=1 gits=git touch x",
            "gits[1 git]=1 touch x", "git $(gits=git touch x)", "git $(gits[git touch x)",
        )),
        (ASCII, "git log a=1 b[0]=c >/dev/null", "allow"),
        (PREFIXED, "CI=1 npm test", "allow"),
        (PREFIXED, "CI=1 touch npm", "ask"),
        (ECHO, "echo $(touch x)", "ask"),
        (ECHO, "echo $(echo $(touch x))", "ask"),
        (ECHO, "echo $(echo x) $((1 + 2))", "allow"),
        *((ALL, command, "allow") for command in (
            "a; b", "a | b > c", "echo $(a; b) `c`", "for i in a; do b; done", "(a)", "a 2> b", "",
            " ",
        )),
        (NAMED, "cd web && npm test", "allow"),
        (NAMED, "npm test > log", "allow"),
        (NAMED, "cd web && npm test; touch x", "ask"),
        (NAMED, "cd web && npm test && touch x", "ask"),
        (NAMED, "npm test; touch x > log", "ask"),
        (ALL, "'", "ask"),
        (GIT, "git status " + "; git diff" * 60, "ask"),
    ],
)  # fmt: skip
def test_a_wildcard_of_an_allow_covers_no_second_command(approval, command, expected):
    assert verdict(approval, shell(command)) == expected


@pytest.mark.requirement("W-33e")
@pytest.mark.parametrize("selector", [*SPELLINGS, "eca", "ECA"])
def test_a_native_tool_is_matched_and_disabled_in_each_spelling(selector):
    for kind in ("deny", "ask", "allow"):
        approval = Approval(by_default="deny", **{kind: {selector: ApprovalRule()}})
        assert verdict(approval, READ) == kind
    policy = policy_of(Config(disabled_tools=(selector,)), "agent")
    assert policy.withheld(server="eca", tool="read_file", effect="read") == "disabledTools"
    assert policy.decide(READ).verdict == "deny"


@pytest.mark.parametrize(
    ("selector", "tool", "is_disabled"),
    [
        ("git__.*", "push", True),
        ("git__(push|pull)", "push", True),
        ("g[a-z]+", "push", True),
        ("git__pus", "push", False),
        ("pu.*", "push", False),
        ("git__.", "p", False),
        ("git__(", "push", False),
        ("git__(x+x+)+y", "x" * 5_000, True),
    ],
    ids=range(8),
)
def test_a_selector_may_be_a_pattern_for_the_whole_name(selector, tool, is_disabled):
    policy = policy_of(Config(disabled_tools=(selector,)), "agent")
    assert bool(policy.withheld(server="git", tool=tool, effect="read")) is is_disabled


def test_a_tool_of_another_server_never_passes_for_a_native_one():
    approval = Approval(allow={name: ApprovalRule() for name in (*SPELLINGS, "eca", "ECA")})
    for server in ("evil", "read_file_", "eca_"):
        assert verdict(approval, Call(server=server, tool="read_file", effect="read")) == "ask"
    assert spellings("evil", "read_file") == {"evil__read_file"}


@pytest.mark.parametrize(
    ("pattern", "command", "expected"),
    [
        (".*rm.*", "rm -rf x", "deny"),
        (".*rm.*", "ls\nrm -rf x", "deny"),
        (".*rm.*", "rm -rf x\nls", "deny"),
        ("rm.*", "ls\nrm x\nls", "deny"),
        ("rm.*", "ls\r\nrm x", "deny"),
        ("rm.*x", "rm \\\n x", "deny"),
        ("rm", "rm x", "ask"),
        ("rm x", "ls; rm x", "deny"),
        ("rm x", "cd a && rm x | cat", "deny"),
        ("rm x", "a=1 rm x", "deny"),
        ("rm x", "ls $(rm x)", "deny"),
        ("rm x", "ls 'rm x'", "ask"),
        ("rm x", "ls '; rm x", "ask"),
    ],
)
def test_a_deny_sees_the_whole_text_each_of_its_lines_and_each_command(pattern, command, expected):
    assert verdict(Approval(deny=commands(pattern)), shell(command)) == expected
    approval = Approval(by_default="allow", ask=commands("nothing", pattern))
    assert verdict(approval, shell(command)) == ("allow" if expected == "ask" else "ask")


def test_a_pattern_that_takes_for_ever_loosens_nothing_and_ends_soon(monkeypatch):
    monkeypatch.setattr(approval, "_MATCHING_SECONDS", 0.03)
    slow, call = commands("(x+x+)+y"), shell("x" * 5_000)
    with within(5):
        assert verdict(Approval(deny=slow), call) == "deny"
        assert verdict(Approval(ask=slow, by_default="allow"), call) == "ask"
        assert verdict(Approval(allow=slow), call) == "ask"
    slow_name = r"(?:a|a|aa)+b__y"
    tool = {"server": "a" * 60, "tool": "y", "effect": "run"}
    monkeypatch.setattr(name_matchers, "_NAME_SECONDS", 0.001)
    assert policy_of(Config(enabled_tools=(slow_name,)), "agent").withheld(**tool)
    assert policy_of(Config(disabled_tools=(slow_name,)), "agent").withheld(**tool)


def test_a_path_outside_asks_whatever_is_allowed_and_says_so_in_short():
    allowed = rules(eca={}, write_file={}, read_file={"path": [".*"]})
    policy = Policy(common=Approval(by_default="allow", allow=allowed))
    for call in (READ, WRITE, shell("cat /etc/passwd")):
        assert policy.decide(call).verdict == "allow"
        outside = policy.decide(attrs.evolve(call, outside=("/etc/passwd",)))
        assert outside == Decision(verdict="ask", rule="outside the workspace: /etc/passwd")
    many = tuple(f"/{'a' * 500}{n}" for n in range(50))
    rule = policy.decide(attrs.evolve(READ, outside=many)).rule
    assert len(rule) < 700
    assert rule.endswith("and 47 more")


def test_a_behaviours_rules_are_added_to_the_common_ones_and_the_deciding_rule_is_named():
    common = Approval(
        by_default="allow", deny=rules(grep={}), ask=rules(write_file={}, move_file={})
    )
    own = Approval(by_default="ask", deny=rules(shell_command={}), allow=rules(eca_write_file={}))
    behaviors = {"agent": Behavior(approval=own)}
    config = Config(tool_call=ToolCall(approval=common), behaviors=behaviors)
    agent, plan = policy_of(config, "agent"), policy_of(config, "plan")
    for call, expected, rule in [
        (GREP, "deny", "toolCall.approval.deny.grep"),
        (shell("ls"), "deny", "agent.code.toolCall.approval.deny.shell_command"),
        (WRITE, "allow", "agent.code.toolCall.approval.allow.eca_write_file"),
        (MOVE, "ask", "toolCall.approval.ask.move_file"),
        (GITHUB, "ask", "agent.code.toolCall.approval.byDefault"),
    ]:
        decision = agent.decide(call)
        assert (decision.verdict, decision.rule) == (expected, rule)
    assert "reading" in agent.decide(READ).rule
    by_default = Decision(verdict="allow", rule="toolCall.approval.byDefault")
    assert plan.decide(shell("ls")) == by_default


@pytest.mark.parametrize(
    ("manual", "call", "expected"),
    [
        (True, READ, "ask"),
        (True, shell("ls"), "ask"),
        (("eca_read_file",), READ, "ask"),
        (("read_file",), shell("ls"), "allow"),
        (False, shell("ls"), "allow"),
        (True, MOVE, "allow"),
        (("move_file",), MOVE, "allow"),
    ],
)
def test_the_older_manual_approval_asks_where_no_rule_allows(manual, call, expected):
    approval = Approval(by_default="allow", allow=rules(move_file={}))
    assert Policy(common=approval, manual=manual).decide(call).verdict == expected


def test_what_is_denied_outright_is_not_offered_and_what_depends_is():
    policy = Policy(common=Approval(deny=rules(grep={}, github={}) | commands("rm.*")))
    assert policy.withheld(server="eca", tool="grep", effect="read")
    assert policy.withheld(server="github", tool="create_issue", effect="run")
    assert policy.withheld(server="eca", tool="shell_command", effect="run") is None
    assert policy.withheld(server="eca", tool="write_file", effect="write") is None
    preview: Any = {"server": "eca", "tool": "preview_file_change", "effect": "read"}
    assert policy_of(Config(), "agent").withheld(**preview) == "agent.code.disabledTools"
    assert policy_of(Config(), "plan").withheld(**preview) is None
    changed = Config(behaviors={"agent": Behavior(disabled_tools=())})
    assert policy_of(changed, "agent").withheld(**preview) is None


def test_plan_offers_and_allows_only_what_is_known_to_only_read_whatever_is_allowed():
    allowed = rules(eca={}, write_file={}, shell_command={}, github={})
    plan = Policy(common=Approval(by_default="allow", allow=allowed), behavior="plan")
    for effect in ("read", "write", "run"):
        withheld = plan.withheld(server="eca", tool="x", effect=effect)
        assert (withheld is not None) == (effect == "write")
    assert plan.decide(WRITE).verdict == "deny"
    denied = plan.decide(shell("ls > x"))
    assert (denied.verdict, "only reads" in denied.rule) == ("deny", True)
    assert plan.decide(shell("git status && ls")).verdict == "allow"
    assert plan.decide(READ).verdict == "allow"
    assert plan.decide(GITHUB).verdict == "ask"  # a tool that may do anything
    assert Policy(behavior="plan").decide(shell("ls")).verdict == "ask"
    denying = Policy(common=Approval(deny=rules(shell_command={})), behavior="plan")
    assert denying.decide(shell("ls")).rule.startswith("toolCall.approval.deny")


def test_a_policy_reports_its_rules_and_what_counts_without_one():
    approval = Approval(by_default="allow", deny=commands("rm .*"), ask=rules(server={}))
    disabled = {"disabledTools": ("grep",), "agent.code.disabledTools": ()}
    assert list(Policy(common=approval, disabled=disabled).describe()) == [
        "disabledTools: grep",
        "deny shell_command (toolCall.approval.deny.shell_command, by its command)",
        "ask server (toolCall.approval.ask.server)",
        "reading in the workspace is allowed",
        "allow everything else in the workspace (toolCall.approval.byDefault)",
        "a path outside the workspace always needs approval",
        "a change of a guarded path (.git, .vscode, AGENTS.md, ...) always needs approval",
    ]
    lines = list(Policy(behavior="plan").describe())
    assert lines[0] == "the agent plan only reads"
    assert "everything else needs approval" in lines
    lines = list(Policy(manual=True).describe())
    assert lines == ["everything else needs approval (toolCall.manualApproval)"]


def test_only_enabled_tools_are_offered_and_a_behaviour_narrows_them():
    config = Config(
        enabled_tools=("read_file", "eca_grep", "git", "docs__.*"),
        behaviors={"small": Behavior(enabled_tools=("read_file", "shell_command"))},
    )
    tools = ["eca read_file", "eca grep", "eca shell_command", "git log", "docs find"]

    def offered(behavior: str) -> list[str]:
        policy = policy_of(config, behavior)
        pairs = (each.split() for each in tools)
        return [n for s, n in pairs if policy.withheld(server=s, tool=n, effect="read") is None]

    assert offered("agent") == ["read_file", "grep", "log", "find"]
    assert offered("small") == ["read_file"]
    policy = policy_of(config, "small")
    assert policy.decide(READ).verdict == "allow"
    why = "enabledTools, which does not name it"
    assert policy.decide(shell("ls")) == Decision(verdict="deny", rule=why)
    line = "enabledTools, and no other tool: read_file, eca_grep, git, docs__.*"
    assert line in policy.describe()
    assert policy_of(Config(enabled_tools=()), "agent").decide(READ).verdict == "deny"


def approved(policy: Policy, call: Call) -> set[Memo]:
    """Return the approvals stored after the user approved a call for the session."""
    decision = policy.decide(call)
    assert decision.verdict == "ask"
    assert decision.memos
    return set(decision.memos)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (shell("make"), "allow"),
        (shell("make "), "ask"),
        (shell("make; rm -rf x"), "ask"),
        (shell("make", "sub"), "ask"),
        (Call(tool="shell_command", effect="run"), "ask"),
        (Call(server="x", tool="shell_command", effect="run", command="make"), "ask"),
        (WRITE, "ask"),
    ],
)
def test_of_a_command_without_parts_its_exact_text_is_remembered_and_never_more(call, expected):
    assert Policy().decide(call, approved(Policy(), shell("make"))).verdict == expected


def test_a_yes_to_one_question_is_no_yes_to_another():
    policy = Policy(common=Approval(ask=rules(write_file={"path": [".*secret"]})))
    secret = attrs.evolve(WRITE, arguments={"path": "my.secret"})
    to_ordinary, to_secret = approved(policy, WRITE), approved(policy, secret)
    assert policy.decide(secret, to_ordinary).verdict == "ask"
    assert policy.decide(WRITE, to_secret).verdict == "ask"
    for again in (
        policy.decide(secret, to_secret),
        Policy().decide(secret, approved(Policy(), WRITE)),
    ):
        assert (again.verdict, again.rule) == ("allow", "approved for this session")


LOOSENESS = {"deny": 0, "ask": 1, "allow": 2}

selectors = st.sampled_from(["eca", "ECA", "a", "eca_a", "eca__b", "shell", "s", "s__a", "s__b"])
patterns = st.lists(st.sampled_from([".*", "x", "x.*", ".*rm.*", ""]), max_size=2).map(tuple)
one_rule = st.builds(
    ApprovalRule,
    args_matchers=st.dictionaries(st.sampled_from(["p", "command"]), patterns, max_size=2),
    is_damaged=st.booleans(),
)
rule_maps = st.dictionaries(selectors, one_rule, max_size=3)
approvals = st.builds(
    Approval,
    by_default=st.sampled_from([None, "ask", "allow", "deny"]),
    allow=rule_maps,
    ask=rule_maps,
    deny=rule_maps,
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
def test_a_deny_always_wins(own, common, behavior, call, by_server):
    selector = call.server if by_server else f"{call.server}__{call.tool}"
    call = attrs.evolve(call, arguments={**call.arguments, "p": "x"})
    for rule in (ApprovalRule(), ApprovalRule(args_matchers={"p": (".*",)})):
        denying = attrs.evolve(common, deny={**common.deny, selector: rule})
        policy = Policy(own=own, common=denying, behavior=behavior)
        assert policy.decide(call, everything(call)).verdict == "deny"
        withheld = policy.withheld(server=call.server, tool=call.tool, effect=call.effect)
        assert withheld or rule.args_matchers


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
def test_trust_answers_what_may_be_answered(own, common, behavior, call, guarded):
    policy = Policy(own=own, common=common, behavior=behavior)
    call = attrs.evolve(call, guarded=guarded)
    before, after = policy.decide(call), policy.decide(call, is_trusted=True)
    promoted = before.verdict == "ask" and not (call.outside or guarded)
    assert after.verdict == ("allow" if promoted else before.verdict)
