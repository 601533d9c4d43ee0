"""The automatons of a chat and of a tool call: their tables, and any sequence of inputs."""

from typing import Any, Literal, cast, get_args

import pytest
import trio
import trio.testing
from hypothesis import example, given, settings
from hypothesis import strategies as st

from eca_protocol import messages as m
from eca_protocol.errors import LocalProtocolError
from eca_protocol.server.calls import TRANSITIONS as OF_CALLS
from eca_protocol.server.calls import CallInput, Naming
from eca_protocol.server.chat_states import ChatState
from eca_server.agent.chat import Chat, Prompt, Turn
from eca_server.agent.chat.outlet import ChatServices
from eca_server.agent.chat.tool_call import Calls, ToolCall
from eca_server.agent.chat.turn import STOP_SECONDS, Steer
from eca_server.agent.tools.tool import ToolOutput
from eca_server.client.profiles import ClientProfile
from eca_server.client.session import Session
from eca_server.models.events import Usage
from eca_server.models.history import TextPart

Step = Literal["say", "think", "end", "crash"]


class Recorder:
    """In place of the session: keeps what is said."""

    def __init__(self, profile: ClientProfile) -> None:
        self.profile = profile
        self.contents: list[m.ChatContent] = []
        self.statuses: list[str] = []

    def emit(self, chat_id: str, role: str, content: m.ChatContent) -> None:
        assert chat_id == "c"
        self.contents.append(content)

    def take_unshown(self) -> list[str]:
        return []

    def writes(self, *_: Any) -> bool:
        return False

    def notify(self, method: str, params: Any, *, newest: bool = False) -> None:
        assert params.chat_id == "c"
        if method == "chat/statusChanged":
            self.statuses.append(params.status)
        else:
            assert method == "chat/cleared"
            assert self.statuses[-1:] in ([], ["idle"])

    async def drained(self) -> None:
        await trio.lowlevel.checkpoint()


class Driven:
    """A body that takes one step at a time, and may be deaf to its cancellation."""

    def __init__(self, number: int, *, deaf: bool) -> None:
        self.number = number
        self.deaf = deaf
        self.runs = False
        self._steps, self._next = trio.open_memory_channel[Step](100)

    def step(self, step: Step) -> None:
        self._steps.send_nowait(step)

    async def __call__(self, turn: Turn) -> None:
        self.runs = True
        try:
            with trio.CancelScope(shield=self.deaf):
                await self._act(turn)
        finally:
            self.runs = False

    async def _act(self, turn: Turn) -> None:
        blocks = 0
        async for step in self._next:
            if step == "say":
                turn.usages = [Usage(input=1, output=1)]
                turn.say(f"text of {self.number}")
            elif step == "think":
                if blocks % 2:
                    turn.reasonings.finish(f"{blocks - 1}")
                else:
                    turn.reasonings.start(f"{blocks}")
                    turn.reasonings.write(f"{blocks}", f"thought of {self.number}")
                blocks += 1
            elif step == "crash":
                raise RuntimeError("as told")
            else:
                return


ACTIONS = st.lists(
    st.tuples(
        st.one_of(
            st.tuples(st.just("prompt"), st.booleans()),
            st.tuples(st.just("model"), st.integers(0, 2), st.sampled_from(get_args(Step))),
            st.tuples(st.sampled_from(["stop", "stop", "name", "steer", "clear"])),
        ),
        st.sampled_from([None, 0, 0, STOP_SECONDS / 2, STOP_SECONDS * 1.5]),
    ),
    min_size=2,
    max_size=30,
)
DELETE = ("delete",), None
"""Events of a chat, and the seconds until the next one; None: in the same instant.

The number in what the model does picks one of the bodies that run.
"""


TITLE = m.ChatMetadataContent(title="A title")


@pytest.mark.requirement("W-20d", "W-22e", "W-23d", "W-23g", "W-24a", "W-24c", "W-25d", "W-26b")
@settings(max_examples=settings().max_examples * 2)
@given(
    actions=ACTIONS | st.builds(lambda a, b: [*a, DELETE, *b], ACTIONS, ACTIONS),
    finishes_deleted=st.booleans(),
)
@example(actions=[(("clear",), None), (("clear",), None)], finishes_deleted=False)
def test_any_sequence_ends_with_one_finished_per_turn_and_silence(actions, finishes_deleted):
    clock = trio.testing.MockClock(autojump_threshold=0)
    trio.run(play, actions, finishes_deleted, clock=clock)


async def play(actions: list[tuple[Any, ...]], finishes_deleted: bool) -> None:
    session = Recorder(ClientProfile(finishes_deleted=finishes_deleted))
    contents = session.contents
    bodies: list[Driven] = []
    deleted_at: int | None = None
    is_named = False
    cleared: list[trio.Event] = []

    async def make_title() -> str:
        await trio.sleep(STOP_SECONDS / 2)
        return TITLE.title

    async with trio.open_nursery() as nursery:
        chat = Chat("c", ChatServices(session=cast("Session", session), nursery=nursery))
        try:
            for action, seconds in actions:
                titles = contents.count(TITLE)
                match action:
                    case ("prompt", deaf):
                        bodies.append(Driven(len(bodies), deaf=deaf))
                        chat.prompt(Prompt(text=f"prompt {len(bodies) - 1}", body=bodies[-1]))
                    case ("stop",):
                        chat.stop()
                        is_named = False
                    case ("delete",):
                        chat.delete()
                        deleted_at = len(contents)
                        is_named = False
                    case ("steer",):
                        if chat.turn is not None:
                            chat.turn.steers.append(Steer(text="steered"))
                    case ("clear",):
                        cleared.append(chat.clear())
                        is_named = False
                    case ("name",):
                        is_named = is_named or chat.mailbox.state is ChatState.RUNNING
                        chat.request_title(make_title)
                    case ("model", index, step):
                        running = [body for body in bodies if body.runs]
                        if running:
                            running[index % len(running)].step(step)
                if seconds is not None:
                    await trio.testing.wait_all_tasks_blocked()
                    await trio.sleep(seconds)
                assert contents.count(TITLE) <= titles + is_named
                check(contents, deleted_at)
            await chat.close()
            begun, finished = check(contents, deleted_at)
            assert all(event.is_set() for event in cleared)
            if deleted_at is None:
                assert begun == finished
                assert chat.mailbox.state is ChatState.IDLE
                assert session.statuses.count("running") == begun
                assert session.statuses.count("idle") == finished
                assert session.statuses[-1:] in ([], ["idle"])
            else:
                assert len(contents) == deleted_at
                assert begun - finished in ((0,) if finishes_deleted else (0, 1))
        finally:
            before = len(contents)
            for body in bodies:
                body.step("say")
                body.step("end")
        await trio.sleep(60)
        assert len(contents) == before


def check(contents: list[m.ChatContent], deleted_at: int | None) -> tuple[int, int]:
    """Count the started and finished turns; check that all contents are inside a turn, in order."""
    begun = finished = 0
    number: str | None = None
    is_told = False
    open_reasons: set[str] = set()
    for position, content in enumerate(contents, 1):
        if isinstance(content, m.ChatMetadataContent):
            continue
        if isinstance(content, m.ChatProgressContent) and content.text == "Waiting model":
            assert begun == finished
            begun, number, is_told = begun + 1, None, False
            continue
        assert begun == finished + 1, f"{content} outside of a turn"
        if isinstance(content, m.ChatProgressContent) and content.state == "finished":
            finished += 1
            assert not open_reasons or position == deleted_at
        elif number is None:
            assert content.content_id
            number = content.text.removeprefix("prompt ")
        elif isinstance(content, m.ChatTextContent) and content.text.startswith("text of"):
            assert content.text == f"text of {number}"
            assert not is_told
        elif isinstance(content, m.ChatReasonStartedContent):
            open_reasons.add(content.id)
        elif isinstance(content, m.ChatReasonTextContent):
            assert content.id in open_reasons
            assert content.text == f"thought of {number}"
        elif isinstance(content, m.ChatReasonFinishedContent):
            open_reasons.remove(content.id)
        elif isinstance(content, m.ChatUsageContent):
            assert not is_told
            is_told = True
    return begun, finished


NAMING = Naming(id="1", name="eca_read_file", server="eca", origin="native")
DONE = ToolOutput(parts=(TextPart("done"),))
USER = {CallInput.APPROVE, CallInput.REJECT}

DIFF = m.FileChangeDetails(path="/p/a", diff="+a", lines_added=1, lines_removed=0)


def give(call: ToolCall, call_input: CallInput) -> bool:
    """Return whether the call accepted the input."""
    match call_input:
        case CallInput.ANNOUNCE:
            call.announce({"a": 1}, manual_approval=True, summary="Doing it", details=DIFF)
        case CallInput.ASK:
            call.ask()
        case CallInput.DENY:
            call.deny("no")
        case CallInput.FAULT:
            call.fault("cannot")
        case CallInput.START:
            call.start()
        case CallInput.APPROVE:
            return call.approve()
        case CallInput.REJECT:
            return call.reject()
        case CallInput.DONE:
            call.finish(DONE)
        case CallInput.STOP:
            call.stop()
    return True


@pytest.mark.requirement("TOOL-3", "TOOL-5", "TOOL-6")
@given(st.lists(st.sampled_from(CallInput), max_size=12))
def test_any_sequence_closes_the_call_once_and_in_order(inputs):
    trio.run(play_call, inputs)


async def play_call(inputs: list[CallInput]) -> None:
    contents: list[m.ChatContent] = []
    call = ToolCall(contents.append, NAMING)
    call.prepare("")
    for each in inputs:
        before, length = call.state, len(contents)
        try:
            taken = give(call, each)
        except LocalProtocolError:
            taken = False
            assert each not in USER, "what the client sends is never a fault"
        if not taken:
            assert each not in OF_CALLS[before]
            assert (call.state, len(contents)) == (before, length)
        else:
            assert call.state is OF_CALLS[before][each]
        assert call.decided.is_set() or call.is_open
        assert (call.result is not None) is not call.is_open
    call.stop()
    kinds = [each.type for each in contents]
    assert kinds in (
        ["toolCallPrepare", "toolCallRejected"],
        ["toolCallPrepare", "toolCallRun", "toolCallRejected"],
        ["toolCallPrepare", "toolCallRun", "toolCalled"],
        ["toolCallPrepare", "toolCallRun", "toolCallRunning", "toolCalled"],
    )
    assert call.result_part().call_id == "1"


async def test_of_a_call_that_never_began_on_the_wire_nothing_is_sent_by_a_stop():
    contents: list[m.ChatContent] = []
    call = ToolCall(contents.append, NAMING)
    call.stop()
    assert contents == []
    assert call.result_part().is_error


async def test_a_result_says_how_long_it_took(autojump_clock):
    contents: list[m.ChatContent] = []
    call = ToolCall(contents.append, NAMING)
    give(call, CallInput.ANNOUNCE)
    give(call, CallInput.START)
    await trio.sleep(2)
    call.stop()
    assert contents[-1].total_time_ms == 2000
    assert contents[-1].error


DEEP = "[" * 60 + "1" + "]" * 60


@pytest.mark.requirement("TOOL-12")
@pytest.mark.parametrize(
    ("texts", "shown"),
    [
        (['{"a":[1]}', " [] "], ('{\n  "a": [\n    1\n  ]\n}', "[]")),
        ([DEEP], (DEEP,)),
        (["{}", "told"], None),
        (["{broken"], None),
        (["1"], None),
        ([], None),
    ],
)
async def test_what_a_server_s_tool_says_in_json_is_laid_out(texts, shown):
    contents: list[m.ChatContent] = []
    call = ToolCall(contents.append, Naming(id="1", name="list", server="git", origin="mcp"))
    call.announce({}, manual_approval=False)
    call.start()
    call.finish(ToolOutput(parts=tuple(map(TextPart, texts))))
    assert contents[-1].details == (None if shown is None else m.JsonOutputsDetails(jsons=shown))


async def test_a_stop_moves_open_calls_only():
    moves: list[None] = []
    calls = Calls(lambda _: None, lambda: moves.append(None))
    call = calls.begin(NAMING)
    calls.stop()
    assert call.result is not None
    begun = len(moves)
    calls.stop()
    assert len(moves) == begun == 1
