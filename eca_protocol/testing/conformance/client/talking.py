"""Scenarios of the conversation: the plain one, requests of the server, answers, the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import anyio

from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.client.client_link import Connection
from eca_protocol.testing.conformance.client.harness import ClientHarness, Scenario, scenarios_in
from eca_protocol.testing.conformance.recorder import ReceivedMessage
from eca_protocol.testing.members import at

__all__ = ["SCENARIOS"]


class Plain(
    Scenario,
    rows="LIFE-7 LIFE-11 LIFE-12 CHAT-10 TOOL-16 TOOL-17 TOOL-20 BASE-18 "
    "ARROW:chat-text-1 ARROW:shutdown-1 ARROW:shutdown-3",
):
    """A plain server that takes a moment to answer `initialize`."""

    async def on_initialize(self, id_: Any, params: Mapping[str, Any]) -> None:
        await anyio.sleep(0.1)  # reveals a client that does not wait for the answer
        await super().on_initialize(id_, params)

    def judge(self, harness: ClientHarness) -> None:
        entries = [each for each in self.record if each.side == "client"]
        self._judge_greeting(harness, entries)
        self._judge_chats(harness, entries)
        self._judge_decisions(harness)
        for row, method in (
            ("ARROW:chat-text-1", "chat/prompt"),
            ("ARROW:shutdown-1", "shutdown"),
            ("ARROW:shutdown-3", "exit"),
        ):
            if any(each.method == method for each in entries):
                harness.check(row, True, method, method)
            else:
                harness.untestable(row, f"the client never sends {method}")
        answers = [each.message for each in entries if each.message and not each.method]
        answers = [each for each in answers if each.get("id") is not None or "result" in each]
        harness.check("BASE-18", not answers, "no answer to a notification", str(answers))

    def _judge_greeting(self, harness: ClientHarness, entries: list[ReceivedMessage]) -> None:
        params = next((each.params for each in entries if each.method == "initialize"), {})
        has_name = isinstance(at(params, "clientInfo", "name"), str)
        is_right = has_name and isinstance(params.get("capabilities"), Mapping)
        got = str({key: params.get(key) for key in ("clientInfo", "capabilities")})
        harness.check("LIFE-7", is_right, "clientInfo with a name, and capabilities", got)
        folders = params.get("workspaceFolders")
        if isinstance(folders, list) and folders:
            is_right = all(str(at(each, "uri")).startswith("file:") for each in folders)
            expected = "a `file:` URI for each workspace folder"
            harness.check("LIFE-11", is_right, expected, str(folders))
        else:
            named = f"its workspaceFolders are {folders!r}"
            harness.untestable("LIFE-11", named if folders else "the client has no project")
        answered_at = self._place(lambda each: each.side == "server" and each.message)
        initialized_at = self._place(lambda each: each.method == "initialized")
        is_right = 0 <= answered_at < initialized_at
        got = f"message {initialized_at + 1} of the record"
        got = "no `initialized`" if initialized_at < 0 else got
        harness.check("LIFE-12", is_right, "`initialized` after the answer to `initialize`", got)

    def _place(self, is_it: Callable[[ReceivedMessage], object]) -> int:
        return next((place for place, each in enumerate(self.record) if is_it(each)), -1)

    def _judge_chats(self, harness: ClientHarness, entries: list[ReceivedMessage]) -> None:
        prompts = [each for each in entries if each.method == "chat/prompt"]
        ours = [each for each in prompts if each.chat_id.startswith("played-")]
        if ours:
            contents = [each for each in self.record if each.method == "chat/contentReceived"]
            known = {each.chat_id for each in contents if each.side == "server"}
            unexpected = [each.params for each in ours if each.chat_id not in known]
            harness.check("CHAT-10", not unexpected, "the id of a known chat", str(unexpected))
        else:
            harness.untestable("CHAT-10", "the client prompted no chat of the server a second time")

    def _judge_decisions(self, harness: ClientHarness) -> None:
        contents = [each for each in self.record if each.side == "server" and each.content]
        calls = [(each.chat_id, each.content.get("id")) for each in contents]
        for row, method in (
            ("TOOL-16", "chat/toolCallApprove"),
            ("TOOL-20", "chat/toolCallReject"),
        ):
            decisions = [each for each in self.decisions if each.method == method]
            if not decisions:
                harness.untestable(row, f"the client never sends {method}")
                continue
            unexpected = [
                each.params
                for each in decisions
                if (each.chat_id, each.params.get("toolCallId")) not in calls
            ]
            expected = "the chat and the id of an announced call"
            harness.check(row, not unexpected, expected, str(unexpected))
        saved = [each.params["save"] for each in self.decisions if each.params.get("save")]
        if saved:
            malformed = [each for each in saved if each != "session"]
            harness.check("TOOL-17", not malformed, "save: session", str(malformed))
        else:
            harness.untestable("TOOL-17", "the client never saves an approval")


class LateShutdown(Scenario, rows="LIFE-23"):
    """The server answers `shutdown` late; `exit` has to wait for it."""

    async def on_shutdown(self, id_: Any) -> None:
        await self.until(lambda: self.ended, seconds=0.3)
        await super().on_shutdown(id_)

    def judge(self, harness: ClientHarness) -> None:
        if not self.is_shut_down:
            harness.untestable("LIFE-23", "the client never sends shutdown")
            return
        early = any(each.method == "exit" for each in self.record[: self._answered()])
        got = f"{'' if early else 'no '}`exit` before the answer"
        harness.check("LIFE-23", not early, "`exit` after the answer to `shutdown`", got)

    def _answered(self) -> int:
        request = next(each for each in self.record if each.method == "shutdown")
        for place, each in enumerate(self.record):
            if each.side == "server" and each.message.get("id") == request.message["id"]:
                return place
        return len(self.record)


class RequestsOfTheServer(Scenario, rows="BASE-1 BASE-17 BASE-19 BASE-25 EDIT-3 EDIT-4 W-2a W-2b"):
    """The server requests diagnostics and unknown methods, with ids of every kind."""

    ids: ClassVar = (0, -1, 2**40, "", "a text")
    has_diagnostics: bool = False
    was_asked: bool = False
    refused: dict[object, list[Mapping[str, Any]]]
    diagnostics: dict[str, list[Mapping[str, Any]]]

    async def on_initialize(self, id_: Any, params: Mapping[str, Any]) -> None:
        self.has_diagnostics = at(params, "capabilities", "editor", "diagnostics") is True
        await super().on_initialize(id_, params)

    async def after_greeting(self) -> None:
        self.was_asked, self.refused, self.diagnostics = True, {}, {}
        for id_ in self.ids:
            self.refused[id_] = await self.ask(id_, "conformance/unknown", {})
        if self.has_diagnostics:
            about = {"EDIT-4": {}, "EDIT-3": {"uri": "file:///none"}}
            for row, params in about.items():
                self.diagnostics[row] = await self.ask(row, "editor/getDiagnostics", params)

    def judge(self, harness: ClientHarness) -> None:
        if not self.was_asked:
            return
        unanswered = [id_ for id_ in self.ids if not self.refused.get(id_)]
        is_silent = len(unanswered) == len(self.ids)
        if unanswered:
            harness.untestable("BASE-1", "the client does not answer requests")
        else:
            harness.check_undisturbed("BASE-1")
        if is_silent:
            harness.untestable("W-2b", "the client does not answer requests")
        else:
            got = f"no answers with the ids {unanswered}"
            harness.check("W-2b", not unanswered, "an answer with the same id to each request", got)
        everything = [answer for each in self.answers.values() for answer in each]
        twice = [id_ for id_, each in self.answers.items() if len(each) > 1 and id_ != "null"]
        got = "no answer to any request" if is_silent else f"several answers to {twice}"
        is_right = not twice and not is_silent
        harness.check("BASE-17", is_right, "exactly one answer to each request", got)
        ill_formed = [each for each in everything if ("result" in each) == ("error" in each)]
        harness.check(
            "W-2a", not ill_formed, "either `result` or `error` in each answer", str(ill_formed)
        )
        errors = [each["error"] for each in everything if "error" in each]
        malformed = [each for each in errors if not _is_error(each)]
        harness.check(
            "BASE-19", not malformed, "an integer code and a message in each error", str(malformed)
        )
        refusals = [answer for each in self.refused.values() for answer in each]
        unexpected = [each for each in refusals if at(each, "error", "code") != -32601]
        if unanswered:
            harness.untestable("BASE-25", "an unknown request is not answered")
        else:
            harness.check(
                "BASE-25", not unexpected, "the error -32601 for an unknown method", str(unexpected)
            )
        self._judge_diagnostics(harness)

    def _judge_diagnostics(self, harness: ClientHarness) -> None:
        has_answered = any(self.refused.values())
        if not self.has_diagnostics or not has_answered:
            lacks = "announce diagnostics" if has_answered else "answer requests"
            for row in ("EDIT-3", "EDIT-4"):
                harness.untestable(row, f"the client does not {lacks}")
            return
        for row, answers in self.diagnostics.items():
            result = at(answers[0], "result", "diagnostics") if answers else None
            harness.check(row, isinstance(result, list), "a list of diagnostics", str(answers))


def _is_error(error: object) -> bool:
    return type(at(error, "code")) is int and isinstance(at(error, "message"), str)


class AnswersToNobody(Scenario, rows="BASE-30"):
    """The server answers ids that the client never used."""

    async def after_greeting(self) -> None:
        await self.answer(987_654_321, {})
        await self.answer("conformance", None)
        await self.refuse(-5, -32603, "no such request")


class NoParams(Scenario, rows="W-3a"):
    """The server sends requests whose params are null, an array, an object, or missing."""

    codes: tuple[object, ...] = ()

    async def after_greeting(self) -> None:
        kinds: tuple[object, ...] = ({"a": 1}, None, [], {})
        for number, params in enumerate(kinds):
            self._add_code(await self.ask(number, "conformance/unknown", params))
        await self.send_message({"jsonrpc": "2.0", "id": 4, "method": "conformance/unknown"})
        await self.until_answered(lambda: "4" in self.answers)
        self._add_code(self.answers.get("4", []))

    def _add_code(self, answers: list[Mapping[str, Any]]) -> None:
        error = at(answers[0], "error") if answers else None
        self.codes += (at(error, "code") if isinstance(error, Mapping) else error,)

    def judge(self, harness: ClientHarness) -> None:
        if not self.codes or self.codes[0] is None:
            harness.untestable("W-3a", "an unknown request is not refused, whatever its params")
        elif self.codes == self.codes[:1] * 5:
            harness.check_undisturbed("W-3a")
        else:
            harness.check("W-3a", False, "five equal error codes", str([*self.codes]))


class AnswersOutOfOrder(Scenario, rows="BASE-29"):
    """The server answers two waiting queries in reverse order."""

    def __init__(self, connection: Connection, edition: Revision, *, calls: bool = True) -> None:
        super().__init__(connection, edition, calls=calls)
        self.crossed: bool = False
        self._queries: list[tuple[str, Any, Mapping[str, Any]]] = []

    async def on_request(self, method: str, id_: Any, params: Mapping[str, Any]) -> None:
        if not method.startswith("chat/query"):
            await super().on_request(method, id_, params)
            return
        self._queries.append((method, id_, params))
        if len(self._queries) == 2:
            self.crossed = True
            await self._answer_all()
        else:
            self.tasks.start_soon(self._answer_all_later)

    async def _answer_all_later(self) -> None:
        await anyio.sleep(0.2)
        await self._answer_all()

    async def _answer_all(self) -> None:
        while self._queries:
            await super().on_request(*self._queries.pop())

    def judge(self, harness: ClientHarness) -> None:
        if self.crossed:
            harness.check_undisturbed("BASE-29")
        else:
            harness.untestable("BASE-29", "the client never sends two queries at once")


SCENARIOS = scenarios_in(globals())
