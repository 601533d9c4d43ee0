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
    called,
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


def noted(content: Message, server: Filtered) -> Message:
    server.notes[content["id"]] = call_of(content, server)
    return content


def run_in_silence(message: Message, server: Filtered) -> Message:
    """Run the rejected call that is approved."""
    call = server.notes[message["params"]["toolCallId"]]
    server.tasks.start_soon(call.tool.run, call.arguments)
    return message


MUTANTS = {
    "W-30a: not prepared": Filter(PREPARE, drop),
    "W-30b: no name": Filter(PREPARE, put(name="")),
    "W-30b: whole arguments each time": Filter(
        PREPARE, Knowing(lambda c, s: {**c, "argumentsText": call_of(c, s).arguments_text})
    ),
    "TOOL-1": Filter(PREPARE.whole, hold(ANNOUNCED, before=True)),
    "TOOL-4": Filter(RUN, put(manualApproval=False)),
    "TOOL-3": Filter(RUN.when(is_later_call), twice),
    "W-30a: not running": Filter(RUNNING, drop),
    "TOOL-5": Filter(RUNNING, twice),
    "W-30a: not closed": Filter(CALLED.when(is_later_call), drop),
    "TOOL-6": Filter(CALLED.when(is_later_call), twice),
    "W-30g": Filter(REJECTED.when(is_stopped), drop),
    "TOOL-8": Filter(REJECTED, twice),
    "TOOL-9": Filter(REJECTED, put(reason="user-choice")),
    "W-32b": Filter(REJECTED, put(reason="user")),
    "W-30f: another reason": Filter(
        REJECTED.when(was_decided("chat/toolCallReject")), put(reason="user-config")
    ),
    "W-30e": Filter(CALLED.when(lambda m, s: call_of(m, s).tool is None), as_rejected),
    "W-30c": Filter(
        CALL.when(lambda m, s: call_of(m, s).unreadable), change(arguments={"unreadable": True})
    ),
    "W-32a": Filter(CALLED, change(arguments=lambda arguments: list(map(str, arguments.values())))),
    "TOOL-7": Filter(
        content("toolCalled", name="eca_read_file").when(lambda m, s: call_of(m, s)._began),
        put(error=False),
    ),
    "W-38b: no error": Filter(content("toolCalled", name="eca_edit_file"), put(error=False)),
    "W-38b: no count": Filter(
        content("toolCalled", name="eca_edit_file", error=True),
        change(outputs=each(change(text="3 words: it is ambiguous"))),
    ),
    "W-38a": Filter(CALLED, change(outputs=each(change(text=lambda text: text.partition(CUT)[0])))),
    "W-33c": Filter(CALL, change(name=lambda name: name.removeprefix("eca_"))),
    "TOOL-10": Filter(CALL, put(origin="native")),
    "TOOL-11": Filter(CALL, put(server="eca")),
    "FIELD:ChatToolCalledContent.server": Filter(
        content("toolCalled", origin="native"), without("server")
    ),
    "TOOL-12": Filter(CALL, without("summary")),
    "FIELD:ChatToolCalledContent.totalTimeMs": Filter(CALLED, change(totalTimeMs="{} ms".format)),
    "W-35a": Filter(content("toolCallRunning", "toolCalled"), without("details")),
    "TOOL-13": Filter(CALL, change(details=put(linesAdded=0, linesRemoved=0))),
    "W-23b": Filter(FINISHED.whole.when(is_stopped).when(runs_a_command), delay(1.5)),
    # decisions
    "W-30f: ignored": Filter(args("chat/toolCallReject"), drop),
    "W-34a: approved after all": Filter(
        REJECTED,
        Knowing(noted),
        also=(
            called("chat/toolCallApprove").when(lambda m, s: m["params"]["toolCallId"] in s.notes),
            Knowing(run_in_silence),
        ),
    ),
    "TOOL-15": Filter(args("chat/toolCallApprove"), without("save")),
    "W-33e": Filter(GIVEN_CONFIG, denied(lambda name, rule, rules: not name.startswith("eca__"))),
    "W-30d: it is allowed, too": Filter(
        GIVEN_CONFIG, denied(lambda name, rule, rules: name not in rules.get("allow", {}))
    ),
    "W-30d: by arguments": Filter(
        GIVEN_CONFIG, denied(lambda name, rule, rules: "argsMatchers" not in rule)
    ),
}

register_filters(MUTANTS)
