"""Mutants of tool calls and of the decisions on them."""

from typing import Any

from tests.eca_protocol.testing.conformance.mutants.filters import (
    CALLS,
    Filter,
    Filtered,
    Knowing,
    args,
    at,
    call_of,
    change,
    content,
    delay,
    drop,
    each,
    hold,
    is_later_call,
    is_stopped,
    put,
    turn_of,
    twice,
    without,
)
from tests.eca_protocol.testing.conformance.mutants.registry import register_filters

Message = dict[str, Any]

GIVEN_CONFIG = at("config")
FINISHED = content("progress", state="finished")
CALL = content(*CALLS)
PREPARE = content("toolCallPrepare")
RUN = content("toolCallRun")
ANNOUNCED = content("toolCallRun", "toolCallRejected")
RUNNING = content("toolCallRunning")
CALLED = content("toolCalled")
REJECTED = content("toolCallRejected")
CUT = "\n... cut,"


def runs_a_command(message: Message, server: Filtered) -> bool:
    calls = turn_of(message, server).calls
    return any(call._began and call.requested_name == "eca_shell_command" for call in calls)


def was_decided(method: str) -> Any:
    """Make a test of the user's decision on the call that a content is about."""
    return lambda m, server: server.decided.get(m["params"]["content"]["id"]) == method


def as_rejected(content: Message) -> Message:
    """Show a call that failed as a rejected one."""
    rest = without("error", "outputs", "totalTimeMs")(content)
    return {**rest, "type": "toolCallRejected", "reason": "user-config"}


def denied(test: Any) -> Any:
    """Leave only those denials in the configuration that pass a test of name, rule and rules."""

    def rewrite(rules: Message) -> Message:
        denied = rules.get("deny", {}).items()
        return {**rules, "deny": {name: rule for name, rule in denied if test(name, rule, rules)}}

    return change(toolCall=change(approval=rewrite))


MUTANTS = {
    "NeverPrepared": Filter("W-30a", PREPARE, drop),
    "PreparedWithoutName": Filter("W-30b", PREPARE, put(name="")),
    "WholeArgumentsEachTime": Filter(
        "W-30b", PREPARE, Knowing(lambda c, s: {**c, "argumentsText": call_of(c, s).arguments_text})
    ),
    "PreparedAtOnce": Filter("TOOL-1", PREPARE.whole, hold(ANNOUNCED, before=True)),
    "NobodyIsAsked": Filter("TOOL-4", RUN, put(manualApproval=False)),
    "RunTwice": Filter("TOOL-3", RUN.when(is_later_call), twice),
    "NeverRunning": Filter("W-30a", RUNNING, drop),
    "RunningTwice": Filter("TOOL-5", RUNNING, twice),
    "NeverClosed": Filter("W-30a", CALLED.when(is_later_call), drop),
    "CalledTwice": Filter("TOOL-6", CALLED.when(is_later_call), twice),
    "StopLeavesCallsOpen": Filter("W-30g", REJECTED.when(is_stopped), drop),
    "RejectedTwice": Filter("TOOL-8", REJECTED, twice),
    "WrongReason": Filter("TOOL-9", REJECTED, put(reason="user-choice")),
    "OtherReasons": Filter("W-32b", REJECTED, put(reason="user")),
    "RefusalIsConfiguration": Filter(
        "W-30f", REJECTED.when(was_decided("chat/toolCallReject")), put(reason="user-config")
    ),
    "UnknownToolsAreRejected": Filter(
        "W-30e", CALLED.when(lambda m, s: call_of(m, s).tool is None), as_rejected
    ),
    "UnreadableIsText": Filter(
        "W-30c",
        CALL.when(lambda m, s: call_of(m, s).unreadable),
        change(arguments={"unreadable": True}),
    ),
    "ArgumentsAsList": Filter(
        "W-32a", CALLED, change(arguments=lambda given: list(map(str, given.values())))
    ),
    "FailureIsSilent": Filter(
        "TOOL-7",
        content("toolCalled", name="eca_read_file").when(lambda m, s: call_of(m, s)._began),
        put(error=False),
    ),
    "RefusedEditsAreFine": Filter(
        "W-38b", content("toolCalled", name="eca_edit_file"), put(error=False)
    ),
    "MatchesAreNotCounted": Filter(
        "W-38b",
        content("toolCalled", name="eca_edit_file", error=True),
        change(outputs=each(change(text="3 words: it is ambiguous"))),
    ),
    "CutInSilence": Filter(
        "W-38a", CALLED, change(outputs=each(change(text=lambda text: text.partition(CUT)[0])))
    ),
    "PrefixIsLeftAway": Filter("W-33c", CALL, change(name=lambda name: name.removeprefix("eca_"))),
    "EverythingIsNative": Filter("TOOL-10", CALL, put(origin="native")),
    "EveryServerIsOurs": Filter("TOOL-11", CALL, put(server="eca")),
    "ResultsWithoutServer": Filter(
        "FIELD:ChatToolCalledContent.server",
        content("toolCalled", origin="native"),
        without("server"),
    ),
    "NoSummary": Filter("TOOL-12", CALL, without("summary")),
    "TimeAsText": Filter(
        "FIELD:ChatToolCalledContent.totalTimeMs", CALLED, change(totalTimeMs="{} ms".format)
    ),
    "ChangeIsToldOnce": Filter(
        "W-35a", content("toolCallRunning", "toolCalled"), without("details")
    ),
    "NoLinesAreCounted": Filter("TOOL-13", CALL, change(details=put(linesAdded=0, linesRemoved=0))),
    "ToolsAreStoppedSlowly": Filter(
        "W-23b", FINISHED.whole.when(is_stopped).when(runs_a_command), delay(1.5)
    ),
    # decisions
    "DeafToRefusals": Filter("W-30f", args("chat/toolCallReject"), drop),
    "SessionsAreForgotten": Filter("TOOL-15", args("chat/toolCallApprove"), without("save")),
    "OneSpelling": Filter(
        "W-33e", GIVEN_CONFIG, denied(lambda name, rule, rules: not name.startswith("eca__"))
    ),
    "AllowanceWins": Filter(
        "W-30d", GIVEN_CONFIG, denied(lambda name, rule, rules: name not in rules.get("allow", {}))
    ),
    "DenialsOfArgumentsAreIgnored": Filter(
        "W-30d", GIVEN_CONFIG, denied(lambda name, rule, rules: "argsMatchers" not in rule)
    ),
}

register_filters(MUTANTS)
