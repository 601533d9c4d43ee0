"""A stateful model of a session with a live server; hypothesis chooses the actions.

Each rule is one action of the client or of the scripted model; `Session` executes and checks it.
The possible next actions depend only on earlier actions and on the state of the idle server, so
that hypothesis can shrink a failure.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from eca_protocol.testing.sessions.actions import ERRORS, NONSENSE, QUERIES, replies, texts
from eca_protocol.testing.sessions.run import KnownViolation, Run
from eca_protocol.testing.sessions.session import DRAFT
from eca_protocol.testing.sessions.state import Turn
from eca_protocol.testing.sessions.wire import Violation

T = TypeVar("T")

_QUEUE = 3  # the maximum number of prompts of a chat without a finished turn
_HELD = -1
_slots = st.integers(0, 2)
_which = st.integers(0, 11)
_ways = st.just(0) | st.just(_HELD) | st.integers(1, 300)
"""Ways to write a message: at once, together with the next, or split at this byte."""
_oddities = st.sampled_from(
    [
        "refused",
        "unknown",
        "decided late",
        "cancelled",
        "cancelled before",
        "an id twice",
        "no message",
    ]
)
_ends = st.sampled_from(["shutdown and exit", "exit", "end of input", "broken frame"])


class SessionMachine(RuleBasedStateMachine):
    """The actions; `machine_for` returns a subclass for a server."""

    run: ClassVar[Run]
    own: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__()
        self.run.examples += 1
        self._held: list[Any] = []
        self._over = False
        self._failed = False
        self._chats: dict[int, str] = {}

    @initialize(variant=st.integers(0, 4))
    def begin(self, variant: int) -> None:
        """Open the session; only a process of its own may be opened unusually and ended."""
        with self._noting():
            self._session = self.run.session(variant=variant if self.own else 0, fresh=self.own)

    def teardown(self) -> None:
        """End the session; a shared process stays and is idle."""
        if self.own:
            self.run.end()
            return
        try:
            if not self._failed:
                self._flush()  # an error may be due for a delayed message
        finally:
            with self._noting():
                self.run.leave(failed=self._failed)

    @rule(slot=_slots, text=texts, data=st.data(), way=_ways, nameless=st.integers(0, 3))
    def prompt(self, slot: int, text: str, data: st.DataObject, way: int, nameless: int) -> None:
        """Send a prompt to a new, idle or busy chat."""
        chat = self._chats.get(slot)
        if self._over or (chat and len(self._turns(chat)) >= _QUEUE):
            return
        mark = f"mark-{self.run.number()}"
        drawn = data.draw(replies(edition=self.run.edition))
        gated = [
            [{"wait": f"gate-{self.run.number()}"} if "wait" in step else step for step in reply]
            for reply in drawn
        ]
        self._do("replies", mark, gated)
        params = {"message": f"{mark} {text}"}
        if self.run.edition != DRAFT:
            params["model"] = "scripted/any"
        if chat is None and nameless == 3:
            self._flush()
            way = max(way, 0)
            chat = f"{{{{opened {len(self._session.state.opened)}}}}}"
        else:
            params["chatId"] = chat = chat or f"chat-{self.run.number()}"
        self._chats[slot] = chat
        self._request("chat/prompt", params, way=way)

    @rule(slot=_slots, way=_ways)
    def stop(self, slot: int, way: int) -> None:
        """Stop a chat, which may be idle or unknown."""
        self._notify("chat/promptStop", {"chatId": self._chats.get(slot, "nobody")}, way=way)

    @rule(slot=_slots)
    def delete(self, slot: int) -> None:
        """Delete a chat; its id may be used again."""
        self._flush()
        answer = "any" if self.run.edition == DRAFT else "result"
        self._request("chat/delete", {"chatId": self._chats.get(slot, "nobody")}, answer=answer)

    @precondition(lambda self: self._waiting_calls())
    @rule(which=_which, way=_ways)
    def approve(self, which: int, way: int) -> None:
        """Approve a waiting call."""
        self._decide("chat/toolCallApprove", which, way)

    @precondition(lambda self: self._waiting_calls())
    @rule(which=_which, way=_ways)
    def reject(self, which: int, way: int) -> None:
        """Reject a waiting call."""
        self._decide("chat/toolCallReject", which, way)

    @precondition(lambda self: self._gates())
    @rule(which=_which)
    def let_model_continue(self, which: int) -> None:
        """Open a gate at which a reply of the model waits."""
        self._flush()
        if gates := self._gates():
            self._do("open", _chosen(gates, which))
            self._do("rest")
            self.run.steps += 1

    @rule(which=_which, way=_ways)
    def query(self, which: int, way: int) -> None:
        """Send a request that is answered at once in every state."""
        self._request(*_chosen(QUERIES[self.run.edition], which), way=way)

    @rule(odd=_oddities, which=_which, way=_ways)
    def do_something_odd(self, odd: str, which: int, way: int) -> None:
        """Send an invalid or useless message; the session continues."""
        number = self.run.number()
        request = {**_message(*_chosen(QUERIES[self.run.edition], which)), "id": number}
        cancel = _message("$/cancelRequest", {"id": number})
        messages: list[Any]
        match odd:
            case "refused":
                self._request(*_chosen(ERRORS, which), way=way, answer="error")
                return
            case "no message":
                messages = [_chosen(NONSENSE, which)]
            case "unknown":
                answer = {"jsonrpc": "2.0", "id": "not yours", "result": None}
                messages = [_message("no/such", {"x": 1}), _message("$/x", None), answer]
            case "decided late":
                messages = [self._decision_on_what_is_over(which)]
            case _:
                self._do("expect", number, "any")
                pairs = {"cancelled": [request, cancel], "cancelled before": [cancel, request]}
                messages = pairs.get(odd, [request, request])
        self._write(messages, way=way)

    @rule(plan=st.booleans(), way=_ways)
    def select_behavior(self, plan: bool, way: int) -> None:
        """Select a behaviour."""
        name = "plan" if plan else "agent"
        self._notify("chat/selectedBehaviorChanged", {"behavior": name}, way=way)

    @precondition(lambda self: self.own and not self._over)
    @rule(how=_ends)
    def end(self, how: str) -> None:
        """End the session in any state."""
        self._flush()
        match how:
            case "shutdown and exit":
                self._request("shutdown", None)
                self._request("chat/queryContext", {"query": ""}, answer=-32600)
                self._do("send", [_message("exit", None)])
            case "exit":
                self._do("send", [_message("exit", None)])
            case "end of input":
                self._do("close_input")
            case _:
                self._do("send_raw", b"Content-Length: nonsense\r\n\r\n{}")
        self._do("leave", 1 if how in ("exit", "broken frame") else 0)
        self._over = True
        self.run.steps += 1

    def _decide(self, method: str, which: int, way: int) -> None:
        self._flush()
        if waiting := self._waiting_calls():
            chat, place = _chosen(waiting, which)
            call = f"{{{{call {chat} {place}}}}}"
            self._notify(method, {"chatId": chat, "toolCallId": call}, way=way)

    def _decision_on_what_is_over(self, which: int) -> dict[str, Any]:
        """Return a decision on a call that has ended or never existed."""
        over = [
            (chat, place)
            for chat in self._chats.values()
            for place, call in enumerate(self._session.state.calls_of(self._session.name(chat)))
            if call.ended
        ]
        chat, place = _chosen(over or [("nobody", 0)], which)
        params = {"chatId": chat, "toolCallId": f"{{{{call {chat} {place}}}}}"}
        return _message(f"chat/toolCall{'Approve' if which % 2 else 'Reject'}", params)

    def _turns(self, chat: str) -> list[Turn]:
        known = self._session.state.chats.get(self._session.name(chat))
        return known.turns if known else []

    def _under_way(self) -> list[tuple[str, Turn]]:
        return [(chat, turns[0]) for chat in self._chats.values() if (turns := self._turns(chat))]

    def _waiting_calls(self) -> list[tuple[str, int]]:
        waiting = []
        for chat, turn in self._under_way():
            known = list(self._session.state.chats[self._session.name(chat)].calls)
            waiting += [(chat, known.index(call)) for call in turn.awaiting_approval]
        return waiting

    def _gates(self) -> list[str]:
        if self._over:  # perhaps already in its beginning
            return []
        waits = self._session.model.waits
        return [waits[turn.mark] for _, turn in self._under_way() if turn.mark in waits]

    def _request(
        self, method: str, params: Any, *, way: int = 0, answer: str | int = "result"
    ) -> None:
        number = self.run.number()
        if answer != "result":
            self._do("expect", number, answer)
        self._write([{**_message(method, params), "id": number}], way=way)

    def _notify(self, method: str, params: Any, *, way: int) -> None:
        self._write([_message(method, params)], way=way)

    def _write(self, messages: Iterable[Any], *, way: int = 0) -> None:
        """Write the messages after the delayed ones, and wait until the server is idle."""
        if self._over:
            return
        self.run.steps += 1
        self._held += messages
        if way != _HELD:
            held, self._held = self._held, []
            self._do("send", held, way)
            self._do("rest")

    def _flush(self) -> None:
        if self._held:
            self._write([])

    def _do(self, step: str, *arguments: Any) -> None:
        if not self._over:
            with self._noting():
                self.run.do(step, *arguments)

    @contextlib.contextmanager
    def _noting(self) -> Iterator[None]:
        """Raise the violations of each row as their own class: hypothesis then shrinks one row.

        A known violation ends the example.
        """
        try:
            yield
        except KnownViolation:
            self._over = True
        except Violation as violation:
            self._failed = True
            kind = _kind(violation.requirement)
            raise kind(violation.requirement, violation.expected, violation.got) from None


def _chosen(known: Sequence[T], which: int) -> T:
    return known[which % len(known)]


def _message(method: str, params: Any) -> dict[str, Any]:
    message = {"jsonrpc": "2.0", "method": method}
    return message if params is None else {**message, "params": params}


@functools.cache
def _kind(requirement: str) -> type[Violation]:
    return type("Violation", (Violation,), {"__doc__": f"A violation of {requirement}."})


def machine_for(run: Run, *, own: bool = False) -> type[SessionMachine]:
    """Return the machine of a run, for hypothesis's `run_state_machine_as_test`.

    `own`: whether each example gets its own process, which it may open unusually and end.
    """
    return type("SessionMachine", (SessionMachine,), {"run": run, "own": own})
