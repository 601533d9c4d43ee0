"""A client's bug is found by the scenario about it, and by no other."""

import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import anyio
import attrs
import pytest

from eca_protocol.errors import StartFailed
from eca_protocol.framing import encode_frame
from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.cases import Case
from eca_protocol.testing.conformance.client.harness import SERVER, run_client
from eca_protocol.testing.conformance.client.oddities import MoreAfterTheEnd
from eca_protocol.testing.conformance.client.scripted_server import ScriptedServer
from eca_protocol.testing.conformance.client.suite import UNTESTABLE, ClientSuite, client_cases
from eca_protocol.testing.conformance.duplicates import CLIENT_DUPLICATES
from eca_protocol.testing.conformance.run import Run, binds
from eca_protocol.testing.conformance.suite import run_suite
from eca_protocol.testing.conformance.target import Directories, Target
from eca_protocol.testing.requirements import REQUIREMENTS

HERE = Path(__file__).resolve().parent

CAUGHT = {
    "exact headers": "BASE-5",
    "knows all headers": "BASE-11",
    "counts characters": "BASE-6",
    "reads whole frames": "BASE-2",
    "early initialized": "LIFE-12",
    "nameless": "LIFE-7",
    "answers notifications": "BASE-18",
    "ids as text": "W-2b",
    "silent to requests": "BASE-17",
    "answers twice": "BASE-17",
    "result and error": "W-2a",
    "accepts all requests": "BASE-25",
    "wrong call": "TOOL-16",
    "leaves at once": "LIFE-23",
    "knows all notifications": "W-4c",
    "needs params": "W-3a",
    "wants answers in order": "BASE-29",
    "trusts ids": "BASE-30",
    "fails at strange keys": "W-3e",
    "fails at strange contents": "W-60c",
    "deaf to bad json": "BASE-23",
    "takes any length": "BASE-8",
    "takes the last length": "BASE-9",
}


def small_client(fault: str = "") -> Target:
    script = HERE / "small_client.py"
    return Target(command=(sys.executable, "-I", "-S", str(script), SERVER, *fault.split()))


def judge(target: Target, cases: Iterable[Case] | None = None) -> Run:
    return anyio.run(lambda: run_suite(target, kind=ClientSuite, cases=cases), backend="trio")


def broken(run: Run) -> set[str]:
    return {each.id for each in run.findings if each.verdict in {"fail", "warn"}}


def and_what_is_the_same(row: str) -> set[str]:
    return {row} | {other for other, judged in CLIENT_DUPLICATES.items() if judged == row}


def about(row: str) -> list[Case]:
    return [case for case in client_cases().values() if row in case.rows]


@pytest.mark.long(but=5)
@pytest.mark.parametrize(
    "fault",
    ["exact headers", "early initialized", "answers twice", "trusts ids", "needs params",
     "takes any length", "takes the last length"],
)  # fmt: skip
def test_a_bug_is_found_by_its_scenario(fault: str) -> None:
    run_result = judge(small_client(fault), about(CAUGHT[fault]))
    assert broken(run_result) == and_what_is_the_same(CAUGHT[fault])
    assert all(
        each.exchange for each in run_result.findings if each.verdict == "fail" and each.case
    )


@pytest.mark.long
@pytest.mark.parametrize("fault", CAUGHT)
def test_a_bug_is_found_by_no_other_scenario(fault: str) -> None:
    assert broken(judge(small_client(fault))) == and_what_is_the_same(CAUGHT[fault])


@pytest.mark.long
def test_a_client_without_an_error_passes() -> None:
    run_result = judge(small_client())
    assert not broken(run_result)
    unjudged = {
        each.id for each in run_result.findings if each.verdict == "untestable" and not each.case
    }
    fields = {row for row in unjudged if row.startswith(("FIELD:", "VALUE:"))}
    assert unjudged - fields <= set(UNTESTABLE) | set(CLIENT_DUPLICATES) | {"CONF-14", "CONF-17"}


@pytest.mark.long
def test_the_client_of_this_project_passes() -> None:
    script = HERE / "our_client.py"
    run_result = judge(Target(command=(sys.executable, str(script), SERVER)))
    assert not broken(run_result)


@pytest.mark.long
def test_a_second_end_comes_before_the_answer_to_the_next_prompt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    after_turn = MoreAfterTheEnd.after_turn

    async def late(server: MoreAfterTheEnd, chat_id: str) -> None:
        if len(server.decisions) == 1:  # the client sends two prompts
            busy = server._busy[chat_id]
            assert await server.until(lambda: busy.statistics().tasks_waiting > 0)
        await after_turn(server, chat_id)

    monkeypatch.setattr(MoreAfterTheEnd, "after_turn", late)
    target = Target(command=(sys.executable, str(HERE / "our_client.py"), SERVER))
    run_result = judge(target, about("W-60f"))
    assert {each.id: each.verdict for each in run_result.findings}["W-60f"] == "pass"


@pytest.mark.long
def test_a_client_may_take_its_time_to_refuse() -> None:
    run_result = judge(small_client("slow to refuse"), about("BASE-23") + about("W-2b"))
    assert not broken(run_result)


@pytest.mark.long
def test_a_client_that_starts_slowly_has_more_time_for_each_case(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ClientSuite, "seconds_per_case", 4)
    assert not broken(judge(small_client("slow to start and to refuse"), about("W-2b")))


def test_a_client_that_never_initializes_is_not_blamed_for_requests_that_it_never_got() -> None:
    says = encode_frame(b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}')
    code = f"import sys; sys.stdout.buffer.write({says!r})"
    target = Target(command=(sys.executable, "-I", "-S", "-c", code))
    run_result = {each.id: each for each in judge(target, about("BASE-17")).findings}
    assert run_result["BASE-17"].verdict == "untestable"


def test_a_client_that_starts_no_server_cannot_be_judged() -> None:
    with pytest.raises(StartFailed, match=r"starts no server.*exit code 3"):
        judge(Target(command=(sys.executable, "-c", "raise SystemExit(3)", SERVER)))


def test_a_client_that_says_nothing_cannot_be_judged() -> None:
    with pytest.raises(StartFailed, match=r"sends nothing.*exit code 3"):
        judge(Target(command=(sys.executable, "-I", "-S", "-c", "raise SystemExit(3)")))


def test_what_a_client_never_comes_to_is_not_judged() -> None:
    says = encode_frame(b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}')
    code = f"import sys; sys.stdout.buffer.write({says!r})"
    target = Target(command=(sys.executable, "-I", "-S", "-c", code))
    run_result = {each.id: each for each in judge(target, about("W-4c") + about("W-32a")).findings}
    assert run_result["W-4c"].verdict == run_result["W-32a"].verdict == "untestable"
    assert run_result["W-4c"].got == "the client never sends initialized"


def test_a_client_may_speak_over_its_own_streams() -> None:
    code = (
        'import sys; body = b\'{"jsonrpc":"2.0","id":1,"method":"conformance"}\';'
        "sys.stdout.buffer.write(b'Content-Length: %d\\r\\n\\r\\n%b' % (len(body), body));"
        "sys.stdout.flush(); assert b'-32601' in sys.stdin.buffer.read1()"
    )
    run_result = judge(Target(command=(sys.executable, "-I", "-S", "-c", code)), cases=[])
    assert "LIFE-1" in broken(run_result)


def test_a_client_that_is_broken_in_every_way_is_judged_all_the_same() -> None:
    code = """
import json, sys
def say(**members):
    body = json.dumps({"jsonrpc": "2.0", **members}).encode()
    sys.stdout.buffer.write(b"Content-Length: %d\\r\\n\\r\\n%b" % (len(body), body))
    sys.stdout.flush()
say(id=1, method="initialize", params={"workspaceFolders": 7})
say(method="initialized", params={})
for n in (2, 3):
    say(id=n, method="chat/prompt", params={"chatId": "c", "message": "x"})
say(method="chat/promptStop", params={"chatId": ["c"]})
for id_ in ("call-1", "call-2", []):
    say(method="chat/toolCallApprove", params={"chatId": {}, "toolCallId": id_})
came = b""
while came.count(b'"finished"') < 2:
    came += sys.stdin.buffer.read1()
"""
    target = Target(command=(sys.executable, "-I", "-S", "-c", code))
    run = judge(target, cases=[])
    run_result = {each.id: each for each in run.findings}
    assert run_result["LIFE-7"].verdict == "fail"
    assert (run_result["LIFE-11"].verdict, run_result["LIFE-11"].got) == (
        "untestable",
        "its workspaceFolders are 7",
    )
    assert run.suite_errors == ()


@pytest.mark.long
def test_a_case_is_played_for_some_of_its_rows_too() -> None:
    [case] = about("BASE-23")
    run_result = judge(small_client("deaf to bad json"), [attrs.evolve(case, rows=("BASE-23",))])
    assert "BASE-23" in broken(run_result)


@pytest.mark.anyio
async def test_a_caller_without_a_message_does_no_harm(tmp_path: Path) -> None:
    code = (
        "import pathlib, socket, sys;"
        "words = pathlib.Path(sys.argv[1]).read_text().split();"
        "socket.create_connection(('127.0.0.1', int(words[-3].strip(chr(39))))).close()"
    )
    command = (sys.executable, "-I", "-S", "-c", code, SERVER)
    make = partial(ScriptedServer, edition=Revision.CURRENT)
    client_run = await run_client(
        make, Target(command=command), Directories(root=tmp_path), seconds=9
    )
    assert (client_run.server, client_run.exit_code) == (None, 0), client_run.errors


def test_only_rows_that_bind_clients_are_judged() -> None:
    bound = {id_ for id_ in REQUIREMENTS if binds(id_, Revision.CURRENT, side="client")}
    judged = {row for case in client_cases().values() for row in case.rows}
    assert judged | set(CLIENT_DUPLICATES) | set(UNTESTABLE) <= bound
    assert not set(UNTESTABLE) & judged
    assert set(CLIENT_DUPLICATES.values()) <= bound
