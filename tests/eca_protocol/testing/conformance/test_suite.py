"""The suite itself: the outcome of a case, of shared servers, and of a whole run."""

import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio
import attrs
import pytest

from eca_protocol.errors import StartFailed
from eca_protocol.framing import encode_frame
from eca_protocol.json import dumps, loads
from eca_protocol.process import GracePeriods
from eca_protocol.revisions import EVER, Revision
from eca_protocol.streams import Transport
from eca_protocol.testing.conformance import recorder, server_process
from eca_protocol.testing.conformance.cases import Case, server_cases
from eca_protocol.testing.conformance.harness import Harness
from eca_protocol.testing.conformance.recorder import ReceivedMessage
from eca_protocol.testing.conformance.run import Run
from eca_protocol.testing.conformance.server import CHAPTERS, RUN_ORDER
from eca_protocol.testing.conformance.suite import ServerSuite, run_suite
from eca_protocol.testing.conformance.target import MODEL, Target
from eca_protocol.testing.conformance.verdicts import NotApplicable, Unmet
from eca_protocol.testing.script import reply, wait
from tests import promises
from tests.eca_protocol.client.fake_server import ON_A_CLOCK_OF_ITS_OWN
from tests.eca_protocol.testing.conformance.mutants import MUTANTS
from tests.eca_protocol.testing.conformance.reference.server import Parts, Server, serve

pytestmark = pytest.mark.anyio

REFERENCE = Target(serve=serve, edition=Revision.R2025_10)


@pytest.fixture
def anyio_backend() -> str:
    """Run on trio, except where a test names both backends."""
    return "trio"


def a_case(run: Callable[[Harness], Awaitable[None]], *rows: str, **more: Any) -> Case:
    return Case(
        name=f"here.{run.__name__}", summary="A case.", rows=rows, run=run, window=EVER, **more
    )


async def verdicts(*cases: Case, target: Target = REFERENCE, **options: Any) -> Run:
    return await run_suite(target, cases=cases, name="it", jobs=4, **options)


def of(run: Run, id_: str) -> tuple[str, str]:
    """Return a row's verdict and `got`."""
    return next((f.verdict, f.got) for f in run.findings if f.id == id_)


async def waits(harness: Harness) -> None:
    async with harness.session() as session:
        await session.until(lambda _: False, expected="nothing", seconds=60)


async def says_hello(harness: Harness) -> None:
    async with harness.session() as session:
        chat = await session.take_turn("Hi", reply("Hello"))
        assert chat.assistant_text == "Hello"


def later(row: str) -> Case:
    """A case that passes at a server that is there."""

    async def comes_later(harness: Harness) -> None:
        async with harness.session() as session:
            await session.settle()
            harness.record_pass(row)

    return a_case(comes_later, row)


async def test_a_case_ends_in_one_of_many_ways_and_each_row_has_its_verdict():
    async def checks(harness: Harness) -> None:
        harness.check("W-20a", True, expected="a", got="a")
        harness.check("W-21a", False, expected="a", got={"b": 1})
        harness.check("CLIENT-2", False, expected="a", got="b")
        harness.record_pass("W-20c")
        harness.not_applicable("W-20d", "there is none")

    async def is_stuck(harness: Harness) -> None:
        harness.check("W-22a", True, expected="a", got="a")
        raise Unmet("an answer")

    async def does_not_apply(harness: Harness) -> None:
        raise NotApplicable("it has no tools")

    async def fails(harness: Harness) -> None:
        harness.check("W-23d", True, expected="a", got="a")
        async with anyio.create_task_group() as group:
            group.start_soon(is_stuck, harness)
            print({}["result"])

    async def shows(harness: Harness) -> None:
        async with harness.session() as session:
            await session.until(lambda _: False, expected="a wonder", seconds=0.01, shows="W-24a")

    run = await verdicts(
        a_case(checks, "W-20a", "W-21a", "CLIENT-2", "W-20c", "W-20d"),
        a_case(is_stuck, "W-22a", "W-22b"),
        a_case(does_not_apply, "W-30a"),
        a_case(fails, "W-23a", "W-23d"),
        a_case(waits, "W-23b", seconds=0.05),
        a_case(shows, "W-24a"),
    )
    assert {id_: of(run, id_)[0] for id_ in ("W-20a", "W-21a", "CLIENT-2", "W-20c")} == {
        "W-20a": "pass",
        "W-21a": "fail",
        "CLIENT-2": "warn",
        "W-20c": "pass",
    }
    assert of(run, "W-21a") == ("fail", '{"b": 1}')
    assert of(run, "W-20d") == ("not-applicable", "there is none")
    assert of(run, "W-22a")[0] == "pass"
    assert of(run, "W-22b") == ("untestable", "expected an answer, got nothing")
    assert of(run, "W-30a") == ("not-applicable", "it has no tools")
    (fault,) = run.suite_errors
    assert of(run, "W-23a") == ("untestable", fault.reason)
    assert of(run, "W-23d")[0] == "pass"
    assert fault.reason.startswith(
        "the suite itself failed here: KeyError('result') at test_suite.py:"
    )
    assert fault.reason.endswith(", in fails")
    assert 'print({}["result"])' in fault.traceback
    assert of(run, "W-23b") == ("untestable", "the case exceeded 0.05 s")
    assert of(run, "W-24a") == ("fail", "none within 0.01 s")
    assert of(run, "CHAT-9") == ("untestable", "no case judges it")
    assert {finding.id for finding in run.failed()} == {"W-21a", "W-24a"}
    read = Run.from_json(dumps(run.to_json()))
    assert read == attrs.evolve(run, seconds=round(run.seconds, 3), suite_errors=())


async def test_the_first_observations_of_a_row_are_retained(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(recorder, "MOST_OBSERVATIONS", 3)
    record = recorder.Recorder()
    unknown = encode_frame(b'{"jsonrpc":"1.0","method":"x"}')
    assert len([*record.record_bytes("server", unknown * 10)]) == 10
    counts = Counter(each.requirement for each in record.take_observations())
    assert counts
    assert max(counts.values()) == 3


@pytest.mark.parametrize(
    ("data", "limit"),
    [
        (b"x" * 5_000, "100,000 bytes"),
        (encode_frame(b'{"jsonrpc":"2.0","id":1,"method":"x"}'), "1,000 messages"),
    ],
)
async def test_a_server_that_writes_without_end_is_ended(
    monkeypatch: pytest.MonkeyPatch, data: bytes, limit: str
):
    monkeypatch.setattr(recorder, "MAX_BYTES", 100_000)
    monkeypatch.setattr(recorder, "MAX_MESSAGES", 1_000)

    async def floods(transport: Transport, config: Mapping[str, Any]) -> int:
        while True:
            await transport.send(data)
            await anyio.lowlevel.checkpoint()

    with pytest.raises(StartFailed, match=f"more than {limit} in all: it was ended"):
        await verdicts(target=Target(serve=floods))


async def test_a_wait_among_many_messages_ends_in_time():
    seconds = []

    async def looks(harness: Harness) -> None:
        async with harness.session() as session:
            chat = session.chat()
            params = {"chatId": chat.id, "content": {"type": "text", "text": "x"}}
            message = {"method": "chat/contentReceived", "params": params}
            each = ReceivedMessage(
                index=0, at=0, side="server", data=b"", message=message, is_message=True
            )
            session.messages += [each] * 6_000
            start = anyio.current_time()
            with anyio.move_on_after(0.1):
                await chat.next_run()
            seconds.append(anyio.current_time() - start)

    await verdicts(a_case(looks, "W-20a"))
    promises.check(seconds[0], limit=2)


@ON_A_CLOCK_OF_ITS_OWN
async def test_a_server_that_starts_slowly_has_more_time_for_its_first_answer():
    async def serve_late(transport: Transport, config: Mapping[str, Any]) -> int:
        await anyio.sleep(1.6)
        return await serve(transport, config)

    async def asks(harness: Harness) -> None:
        async with harness.session(handshake=False) as session:
            params = session.initialize_params()
            answer = await session.ask("initialize", params, seconds=1.5)
            harness.check("W-20a", "result" in answer, expected="an answer", got=answer)

    target = attrs.evolve(REFERENCE, serve=serve_late)
    run = await run_suite(target, cases=[a_case(asks, "W-20a", seconds=1.5)], jobs=1)
    assert of(run, "W-20a")[0] == "pass"


@ON_A_CLOCK_OF_ITS_OWN
async def test_a_server_whose_greeting_was_cut_short_is_unowned():
    starts = []

    async def serve_late(transport: Transport, config: Mapping[str, Any]) -> int:
        starts.append(config.get("late"))
        if starts.count(True) == 1:
            await anyio.sleep_forever()
        return await serve(transport, config)

    async def is_cut_short(harness: Harness) -> None:
        async with harness.session(config={"late": True}):
            harness.check("W-20a", False, expected="no greeting", got="one")

    async def comes_later(harness: Harness) -> None:
        async with harness.session(config={"late": True}) as session:
            harness.check("W-20b", session.config, expected="a greeting", got=session.config)

    cases = [a_case(is_cut_short, "W-20a", seconds=1), a_case(comes_later, "W-20b")]
    target = attrs.evolve(REFERENCE, serve=serve_late)
    run = await run_suite(target, cases=cases, jobs=1)
    assert of(run, "W-20a") == ("untestable", "the case exceeded 1 s")
    assert of(run, "W-20b")[0] == "pass"
    assert starts == [None, True, True]


@pytest.mark.parametrize("anyio_backend", ["trio", "asyncio"])
async def test_a_breach_shows_what_passed_before_it_on_all_three_lanes():
    async def prompts(harness: Harness) -> None:
        await says_hello(harness)
        harness.check("W-21a", False, expected="a", got="b")

    run = await verdicts(a_case(prompts, "W-21a"))
    assert of(run, "W-21a")[0] == "fail", (of(run, "W-21a"), run.suite_errors)
    (breach,) = run.failed()
    lanes = {(each.source, each.target) for each in breach.exchange}
    assert lanes >= {("client", "server"), ("server", "client"), ("server", "model")}
    assert any(b"chat/prompt" in each.data for each in breach.exchange)


async def test_what_the_watcher_sees_is_found_whatever_the_case_looks_at():
    faulty = attrs.evolve(REFERENCE, serve=MUTANTS["FinishesTwice"].serve)
    run = await verdicts(a_case(says_hello), target=faulty)
    (breach,) = (finding for finding in run.failed() if finding.id == "W-22e")
    assert breach.case == "here.says_hello"
    assert breach.breach is not None
    assert b'"finished"' in breach.exchange[breach.breach].data
    assert of(run, "FIELD:ChatPromptParams.message") == ("pass", "occurred without a breach")
    assert of(run, "FIELD:ChatURLContent.url") == ("untestable", "it did not occur in any message")


@pytest.mark.parametrize("anyio_backend", ["trio", "asyncio"])
async def test_seats_at_one_server_hear_only_what_concerns_them():
    async with ServerSuite.opened(REFERENCE) as suite:
        harness = suite.harness("here")
        async with harness.session() as one, harness.session() as two:
            assert one.wire is two.wire
            mine = one.chat(reply(wait("now"), "One"))
            theirs = two.chat(reply("Two"), id=None)
            await mine.prompt("Hi")
            await theirs.prompt("Hi")
            await theirs.finished()
            assert mine.contents
            assert all(content["chatId"] == mine.id for content in mine.contents)
            assert not [received for received in one.messages if received.chat_id == theirs.id]
            assert not [received for received in two.messages if received.chat_id == mine.id]
            mine.model.open("now")
            await mine.finished()
            assert (mine.assistant_text, theirs.assistant_text) == ("One", "Two")
            assert [received.message["id"] for received in two.messages if not received.method]


class _Mortal(Server):
    """A server that ends on `$/die`, and on `$/age` if it has served a prompt."""

    def receive(self, message: Any) -> None:
        method = message.get("method")
        if method == "$/die" or (method == "$/age" and self.chats):
            self.end(9)
        else:
            super().receive(message)


async def serve_mortal(transport: Transport, config: Mapping[str, Any]) -> int:
    return await _Mortal(transport, config, Parts()).run()


DEAF = """
import json, os, sys, time

def write(**message):
    body = json.dumps({"jsonrpc": "2.0", **message})
    sys.stdout.write(f"Content-Length: {len(body)}\\r\\n\\r\\n{body}")
    sys.stdout.flush()

while header := sys.stdin.buffer.readline():
    sys.stdin.buffer.readline()
    message = json.loads(sys.stdin.buffer.read(int(header.split()[1])))
    if message["method"] in ("$/deaf", "$/mute"):
        print("no more", file=sys.stderr)
        os.close(message["method"] == "$/mute")
        time.sleep(60)
    if message["method"] == "initialized":
        write(method="config/updated", params={"chat": {"models": [sys.argv[1]]}})
        write(method="tool/serverUpdated", params={"type": "native", "tools": [{"name": "x"}]})
    if "id" in message:
        write(id=message["id"], result={})
"""
"""A server that closes its input on `$/deaf`, its output on `$/mute`, and keeps running."""


async def test_who_shared_a_server_that_ends_is_asked_again_alone():
    tries = []

    async def innocent(harness: Harness) -> None:
        async with harness.session() as session:
            tries.append(session)
            chat = session.chat(reply(wait("late"), "Hello"))
            await chat.prompt("Hi")
            if len(tries) > 1:
                chat.model.open("late")
            await session.until(lambda _: chat.assistant_text, expected="the answer")
            harness.record_pass("W-20a")

    async def culprit(harness: Harness) -> None:
        async with harness.session() as session:
            while not tries:
                await session.settle()
            await session.notify("$/die")
            await session.settle()

    run = await verdicts(
        a_case(innocent, "W-20a"),
        a_case(culprit, "W-4c"),
        target=attrs.evolve(REFERENCE, serve=serve_mortal),
    )
    assert of(run, "W-20a")[0] == "pass"
    assert [incident.case for incident in run.incidents] == ["here.culprit"]
    assert "exit code 9" in run.incidents[0].what


async def test_a_server_that_no_case_ends_alone_ends_in_the_last_one():
    async def prompts(harness: Harness) -> None:
        await says_hello(harness)
        harness.record_pass("W-20a")

    async def ages(harness: Harness) -> None:
        async with harness.session() as session:
            await session.notify("$/age")
            await session.settle()
            harness.record_pass("W-4c")

    cases = [a_case(prompts, "W-20a"), a_case(ages, "W-4c"), later("W-20b")]
    run = await run_suite(attrs.evolve(REFERENCE, serve=serve_mortal), cases=cases, jobs=1)
    assert {of(run, id_)[0] for id_ in ("W-20a", "W-4c", "W-20b")} == {"pass"}
    (incident,) = run.incidents
    assert incident.case == "here.ages"
    assert "exit code 9, in this case; none ends a server of its own" in incident.what


@pytest.mark.long
async def test_a_server_that_has_closed_its_input_is_replaced(monkeypatch: pytest.MonkeyPatch):
    async def turns_deaf(harness: Harness) -> None:
        async with harness.session() as session:
            await session.notify("$/deaf")
            with anyio.fail_after(5):
                while session.process.may_write:
                    await session.send({"jsonrpc": "2.0", "method": "$/x"})

    monkeypatch.setattr(server_process, "_EXIT_SECONDS", 0.1)
    run = await replaced(turns_deaf)
    (incident,) = run.incidents
    assert "a server that runs and has closed its input, in this case" in incident.what


async def test_a_server_that_has_closed_its_output_is_replaced(monkeypatch: pytest.MonkeyPatch):
    async def turns_mute(harness: Harness) -> None:
        async with harness.session() as session:
            await session.notify("$/mute")
            with anyio.fail_after(5):
                await session.until(lambda _: False, expected="nothing", seconds=60)

    monkeypatch.setattr(server_process, "_EXIT_SECONDS", 0.1)
    monkeypatch.setattr(server_process, "_GRACE_PERIODS", GracePeriods(after_stdin=0.1))
    run = await replaced(turns_mute)
    (incident,) = run.incidents
    end = "expected nothing, got a server that runs and has closed its output"
    assert incident.what == f"{end}; its stderr: no more"


async def replaced(run: Callable[[Harness], Awaitable[None]]) -> Run:
    """Run a case that the server does not survive, and another one, which passes."""
    target = Target(command=(sys.executable, "-S", "-c", DEAF, MODEL))
    outcome = await run_suite(target, cases=[a_case(run, "W-4c"), later("W-20a")], jobs=1)
    assert of(outcome, "W-20a")[0] == "pass"
    assert [incident.case for incident in outcome.incidents] == [f"here.{run.__name__}"]
    return outcome


async def test_two_suites_at_once_do_not_disturb_each_other():
    async def prompts(harness: Harness) -> None:
        async with harness.session() as session:
            chat = await session.take_turn("Hi", reply(f"Hello to {session.root}"))
            is_own = chat.assistant_text.endswith(str(session.root))
            harness.check("W-20a", is_own, expected="", got=chat.assistant_text)

    runs: list[Run] = []

    async def run_one() -> None:
        runs.append(await verdicts(a_case(prompts, "W-20a")))

    async with anyio.create_task_group() as both:
        both.start_soon(run_one)
        both.start_soon(run_one)
    assert [of(run, "W-20a")[0] for run in runs] == ["pass", "pass"]
    assert not any(run.failed() for run in runs)


async def test_a_model_that_is_never_asked_is_no_error_of_the_suite():
    async def serve_alone(transport: Transport, config: Mapping[str, Any]) -> int:
        elsewhere = dumps(config).replace(b"http://127.0.0.1", b"http://x")
        return await serve(transport, loads(elsewhere))

    known = server_cases()
    cases = [known["contexts.a_directory_is_shown"]]
    run = await verdicts(*cases, target=attrs.evolve(REFERENCE, serve=serve_alone))
    assert run.suite_errors == ()
    assert of(run, "CTX-3") == ("untestable", "expected a request to the model, got none")


async def test_what_every_client_needs_is_judged_before_what_is_dear():
    async def nothing(harness: Harness) -> None:
        harness.record_pass("W-20a")

    names = ["mcp.x", "lifecycle.x", "here.x", "approvals.x", "lifecycle.y"]
    cases = [attrs.evolve(a_case(nothing, "W-20a"), name=name) for name in names]
    ran: list[str] = []
    await run_suite(REFERENCE, cases=cases, jobs=1, on_case=lambda case, _: ran.append(case.name))
    assert ran == ["here.x", "lifecycle.x", "lifecycle.y", "approvals.x", "mcp.x"]
    assert sorted(CHAPTERS) == sorted(RUN_ORDER)


async def test_what_has_no_time_is_untestable():
    run = await verdicts(a_case(waits, "W-20a"), seconds=0.05)
    assert of(run, "W-20a") == ("untestable", "no time in 0.05 s")


@ON_A_CLOCK_OF_ITS_OWN
@pytest.mark.parametrize("answers", [True, False])
async def test_the_time_limit_includes_the_start(answers: bool):
    async def hangs(transport: Transport, _config: Mapping[str, Any]) -> int:
        await transport.receive()
        if answers:
            await transport.send(encode_frame(b'{"jsonrpc":"2.0","id":1,"result":{}}'))
        await anyio.sleep_forever()
        return 0

    start, starts = anyio.current_time(), Target(serve=hangs)
    if answers:
        run = await verdicts(a_case(waits, "W-20a"), target=starts, seconds=2)
        assert of(run, "W-20a") == ("untestable", "no time in 2 s")
    else:
        with pytest.raises(StartFailed, match=r"none in 1\.8 s, the limit of a run"):
            await verdicts(target=starts, seconds=2)
    assert anyio.current_time() - start < 2


async def test_a_target_that_cannot_be_started_says_why():
    async def leaves(_transport: Transport, _config: Mapping[str, Any]) -> int:
        raise RuntimeError("no such module")

    targets = [
        (Target(command=("/no/such/command",)), "No such file"),
        (Target(command=(sys.executable, "-S", "-c", "import nothing_here")), "nothing_here"),
        (Target(serve=leaves), "no such module"),
    ]
    for target, why in targets:
        with pytest.raises(StartFailed, match=why):
            await verdicts(target=target)


async def test_a_target_that_writes_no_messages_is_shown_what_it_writes():
    lines = "print('ready'); print('{}')"
    with pytest.raises(StartFailed, match=r"its output is no message: 'ready.n\{\}"):
        await verdicts(target=Target(command=(sys.executable, "-S", "-c", lines)))


async def test_a_frame_that_the_end_of_a_target_cuts_is_not_shown_as_no_message():
    frame = encode_frame(b'{"jsonrpc":"2.0","method":"x"}')
    code = f"import sys; sys.stdout.buffer.write({frame + frame[:-3]!r})"
    with pytest.raises(StartFailed) as raised:
        await verdicts(target=Target(command=(sys.executable, "-S", "-c", code)))
    assert "no message" not in str(raised.value)
