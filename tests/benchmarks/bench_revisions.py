"""The cost of a message in each edition of the protocol, relative to CURRENT.

A turn's contents are written by the codec of one side and read by that of the other, from types to
bytes to types; so are a prompt and its answer. What counts as one is a message of ours: the draft
writes several as one, or none. Bound: at most 1.10 times CURRENT.
"""

from collections.abc import Callable, Sequence

import orjson
from report import Row, at_most, compare, machine

from eca_protocol import messages as m
from eca_protocol.codec import MessageCodec
from eca_protocol.draft import codec_for
from eca_protocol.jsonrpc import Notification, Request, Response, classify
from eca_protocol.revisions import Revision

COUNT = 20_000
METHOD = "chat/contentReceived"
NAMES = {"id": "call-1", "name": "read_file", "server": "eca", "origin": "native"}
ARGUMENTS = {"path": "src/main.py", "limit": 100}


def params_of(role: m.ChatRole, content: m.ChatContent) -> m.ChatContentReceivedParams:
    return m.ChatContentReceivedParams(chat_id="chat-1", role=role, content=content)


DELTAS = [params_of("assistant", m.ChatTextContent(text=f"words {n} of it")) for n in range(100)]
STARTS = [
    params_of("system", m.ChatProgressContent(state="running", text="Waiting model")),
    params_of("user", m.ChatTextContent(text="hi", content_id="1")),
]
ENDS = [
    params_of("system", m.ChatUsageContent(session_tokens=100, session_cost="0.01")),
    params_of("system", m.ChatProgressContent(state="finished")),
]
CALL = [
    params_of("assistant", m.ChatReasonStartedContent(id="r")),
    *[params_of("assistant", m.ChatReasonTextContent(id="r", text="let me see")) for _ in range(5)],
    params_of("assistant", m.ChatReasonFinishedContent(id="r", total_time_ms=7)),
    *[
        params_of("assistant", m.ChatToolCallPrepareContent(**NAMES, arguments_text="{"))
        for _ in "123"
    ],
    params_of("assistant", m.ChatToolCallRunContent(**NAMES, arguments=ARGUMENTS)),
    params_of("assistant", m.ChatToolCallRunningContent(**NAMES, arguments=ARGUMENTS)),
    params_of(
        "assistant",
        m.ChatToolCalledContent(
            **NAMES, arguments=ARGUMENTS, outputs=(m.ToolCallTextOutput(text="a line"),)
        ),
    ),
]
PROMPT = m.ChatPromptParams(chat_id="chat-1", message="hi", behavior="agent")
ANSWER = m.ChatPromptResponse(chat_id="chat-1", model="a/b", status="prompting")


class Line:
    """Both ends of a connection of that edition."""

    def __init__(self, revision: Revision) -> None:
        self.server: MessageCodec = codec_for(revision)
        self.client: MessageCodec = codec_for(revision)

    def pass_on(self, contents: Sequence[m.ChatContentReceivedParams]) -> None:
        for content in contents:
            for method, params in self.server.outgoing(METHOD, content):
                body = orjson.dumps(Notification(method=method, params=params).to_json())
                message = classify(orjson.loads(body))
                assert isinstance(message, Notification)
                self.client.incoming(message.method, message.params)

    def prompt(self) -> None:
        raw = self.client.encode_params("chat/prompt", PROMPT)
        body = orjson.dumps(Request(id=1, method="chat/prompt", params=raw).to_json())
        request = classify(orjson.loads(body))
        assert isinstance(request, Request)
        self.server.decode_params(request.method, request.params)
        raw = self.server.encode_result("chat/prompt", ANSWER)
        answer = classify(orjson.loads(orjson.dumps(Response(id=1, result=raw).to_json())))
        assert isinstance(answer, Response)
        self.client.decode_result("chat/prompt", answer.result)


def streamed(line: Line) -> Callable[[], None]:
    """Nearly all of a turn: the pieces of its text."""

    def run() -> None:
        line.pass_on(STARTS)
        for _ in range(COUNT // len(DELTAS)):
            line.pass_on(DELTAS)
        line.pass_on(ENDS)

    return run


def whole(line: Line) -> Callable[[], None]:
    """Turns with a thought, a call and a few words."""
    turn = [*STARTS, *CALL, *DELTAS[:10], *ENDS]

    def run() -> None:
        for _ in range(COUNT // len(turn)):
            line.pass_on(turn)

    return run


def prompts(line: Line) -> Callable[[], None]:
    def run() -> None:
        for _ in range(COUNT // 2):
            line.prompt()

    return run


WAYS = {
    "the pieces of an answer": streamed,
    "a turn with a thought and a call": whole,
    "a prompt and its answer": prompts,
}


def main() -> list[Row]:
    print(machine("attrs", "cattrs", "orjson"))
    rows: list[Row] = []
    for what, way in WAYS.items():
        contenders = {revision.value: way(Line(revision)) for revision in Revision}
        ratios = compare(
            f"{what}, both ways", contenders, baseline=Revision.CURRENT.value, number=COUNT
        )
        rows += [
            at_most(f"{what} in {name} beside CURRENT", ratio, 1.1)
            for name, ratio in ratios.items()
            if name != Revision.CURRENT.value
        ]
    return rows
