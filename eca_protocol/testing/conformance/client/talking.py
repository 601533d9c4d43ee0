"""Plays about the conversation: the plain one, requests of the server's, answers, the end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import anyio

from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.client.bench import ClientBench, Play
from eca_protocol.testing.conformance.client.played import Connection, Said

__all__ = ["PLAYS"]


class Plain(Play):
    """A server that does nothing odd, and takes a moment to answer `initialize`."""

    rows: ClassVar = (
        "LIFE-7",
        "LIFE-11",
        "LIFE-12",
        "CHAT-10",
        "TOOL-16",
        "TOOL-17",
        "TOOL-20",
        "ARROW:chat-text-1",
        "ARROW:shutdown-1",
        "ARROW:shutdown-3",
        "BASE-18",
    )

    async def on_initialize(self, id_: Any, params: Mapping[str, Any]) -> None:
        await anyio.sleep(0.1)  # who does not wait for the answer is seen
        await super().on_initialize(id_, params)

    def judge(self, bench: ClientBench) -> None:
        said = [each for each in self.said if each.side == "client"]
        self._judge_greeting(bench, said)
        self._judge_chats(bench, said)
        self._judge_decisions(bench)
        for row, method in (
            ("ARROW:chat-text-1", "chat/prompt"),
            ("ARROW:shutdown-1", "shutdown"),
            ("ARROW:shutdown-3", "exit"),
        ):
            _seen(bench, row, method, any(each.method == method for each in said))
        answers = [each.message for each in said if each.message and not each.method]
        answers = [each for each in answers if each.get("id") is not None or "result" in each]
        bench.check(
            "BASE-18", not answers, expected="no answer to a notification", got=str(answers)
        )

    def _judge_greeting(self, bench: ClientBench, said: list[Said]) -> None:
        first = next((each for each in said if each.method == "initialize"), None)
        params = first.params if first else {}
        info = params.get("clientInfo")
        tells = isinstance(info, Mapping) and isinstance(info.get("name"), str)
        bench.check(
            "LIFE-7",
            tells and isinstance(params.get("capabilities"), Mapping),
            expected="clientInfo with a name, and capabilities",
            got=str({key: params.get(key) for key in ("clientInfo", "capabilities")}),
        )
        folders = params.get("workspaceFolders")
        if isinstance(folders, list) and folders:
            bench.check(
                "LIFE-11",
                all(
                    isinstance(each, Mapping) and str(each.get("uri", "")).startswith("file:")
                    for each in folders
                ),
                expected="folders with a file URI each",
                got=str(folders),
            )
        else:
            why = (
                f"its workspaceFolders are {folders!r}" if folders else "the client has no project"
            )
            bench.untestable("LIFE-11", why)
        answered = next(
            (n for n, each in enumerate(self.said) if each.side == "server" and each.message), -1
        )
        told = next((n for n, each in enumerate(self.said) if each.method == "initialized"), -1)
        bench.check(
            "LIFE-12",
            0 <= answered < told,
            expected="`initialized` behind the answer to `initialize`",
            got="no `initialized`" if told < 0 else f"message {told + 1} of the record",
        )

    def _judge_chats(self, bench: ClientBench, said: list[Said]) -> None:
        prompts = [each for each in said if each.method == "chat/prompt"]
        ours = [
            each for each in prompts if str(each.params.get("chatId", "")).startswith("played-")
        ]
        if ours:
            known = {
                each.params.get("chatId")
                for each in self.said
                if each.side == "server" and each.method == "chat/contentReceived"
            }
            wrong = [each.params for each in ours if each.params["chatId"] not in known]
            bench.check("CHAT-10", not wrong, expected="an id that was given", got=str(wrong))
        else:
            bench.untestable("CHAT-10", "no chat of ours was prompted a second time")

    def _judge_decisions(self, bench: ClientBench) -> None:
        for row, method in (
            ("TOOL-16", "chat/toolCallApprove"),
            ("TOOL-20", "chat/toolCallReject"),
        ):
            decided = [each for each in self.decided if each.method == method]
            calls = [
                (each.params.get("chatId"), each.params["content"].get("id"))
                for each in self.said
                if each.side == "server" and isinstance(each.params.get("content"), Mapping)
            ]
            if not decided:
                bench.untestable(row, f"the client never says {method}")
                continue
            wrong = [
                each.params
                for each in decided
                if (each.params.get("chatId"), each.params.get("toolCallId")) not in calls
            ]
            bench.check(row, not wrong, expected="the chat and the id of a call", got=str(wrong))
        saved = [each.params["save"] for each in self.decided if each.params.get("save")]
        if saved:
            odd = [each for each in saved if each != "session"]
            bench.check("TOOL-17", not odd, expected="session", got=str(odd))
        else:
            bench.untestable("TOOL-17", "the client never saves an approval")


def _seen(bench: ClientBench, row: str, method: str, is_seen: bool) -> None:
    if is_seen:
        bench.check(row, is_seen, expected=method, got=method)
    else:
        bench.untestable(row, f"the client never says {method}")


class LateShutdown(Play):
    """`shutdown` is answered a while later; `exit` has to wait for it."""

    rows: ClassVar = ("LIFE-23",)

    async def on_shutdown(self, id_: Any) -> None:
        self.early = await self.until(lambda: self.ended, seconds=0.3)
        await super().on_shutdown(id_)

    def judge(self, bench: ClientBench) -> None:
        if not self.is_shut_down:
            bench.untestable("LIFE-23", "the client never asks for shutdown")
            return
        early = any(said.method == "exit" for said in self.said[: self._answered()])
        bench.check(
            "LIFE-23",
            not early,
            expected="`exit` behind the answer to `shutdown`",
            got="`exit` before it" if early else "the same",
        )

    def _answered(self) -> int:
        """Where in the record `shutdown` is answered; its end if it never is."""
        asked = next(said for said in self.said if said.method == "shutdown")
        assert asked.message is not None
        for place, said in enumerate(self.said):
            if said.side == "server" and (said.message or {}).get("id") == asked.message["id"]:
                return place
        return len(self.said)


class RequestsOfTheServer(Play):
    """The editor is asked for diagnostics, and for what nobody knows, with ids of every kind."""

    rows: ClassVar = ("BASE-1", "BASE-17", "BASE-19", "BASE-25", "EDIT-3", "EDIT-4", "W-2a", "W-2b")
    ids: ClassVar = (0, -1, 2**40, "", "a text")

    def __init__(self, connection: Connection, edition: Revision, *, calls: bool = True) -> None:
        super().__init__(connection, edition, calls=calls)
        self.can = False
        self.refused: dict[object, list[Mapping[str, Any]]] = {}
        self.diagnostics: dict[str, list[Mapping[str, Any]]] = {}

    async def on_initialize(self, id_: Any, params: Mapping[str, Any]) -> None:
        capabilities = params.get("capabilities")
        editor = capabilities.get("editor") if isinstance(capabilities, Mapping) else None
        self.can = isinstance(editor, Mapping) and editor.get("diagnostics") is True
        await super().on_initialize(id_, params)

    async def after_greeting(self) -> None:
        seconds = self.patience
        for id_ in self.ids:
            self.refused[id_] = await self.ask(id_, "conformance/unknown", {}, seconds=seconds)
            seconds = self.patience if self.refused[id_] else 0.2
        if self.can:
            about = {"EDIT-4": {}, "EDIT-3": {"uri": "file:///none"}}
            for row, params in about.items():
                self.diagnostics[row] = await self.ask(row, "editor/getDiagnostics", params)

    def judge(self, bench: ClientBench) -> None:
        unanswered = [id_ for id_ in self.ids if not self.refused.get(id_)]
        is_silent = len(unanswered) == len(self.ids)
        if unanswered:
            bench.untestable("BASE-1", "the client does not answer requests")
        else:
            bench.undisturbed("BASE-1")
        if is_silent:
            bench.untestable("W-2b", "the client does not answer requests")
        else:
            got = f"no answers with the ids {unanswered}"
            bench.check("W-2b", not unanswered, expected="each id as it came", got=got)
        everything = [answer for each in self.answers.values() for answer in each]
        twice = [id_ for id_, each in self.answers.items() if len(each) > 1 and id_ != "null"]
        bench.check(
            "BASE-17",
            not twice and not is_silent,
            expected="one answer a request",
            got="none to any" if is_silent else f"two to {twice}",
        )
        both = [each for each in everything if ("result" in each) == ("error" in each)]
        bench.check("W-2a", not both, expected="`result` or `error`", got=str(both))
        errors = [each["error"] for each in everything if "error" in each]
        odd = [each for each in errors if not _is_error(each)]
        bench.check("BASE-19", not odd, expected="an integer code and a text", got=str(odd))
        wrong = [
            answer for each in self.refused.values() for answer in each if _code(answer) != -32601
        ]
        if unanswered:
            bench.untestable("BASE-25", "an unknown request is not answered")
        else:
            bench.check("BASE-25", not wrong, expected="an error -32601", got=str(wrong))
        self._judge_diagnostics(bench)

    def _judge_diagnostics(self, bench: ClientBench) -> None:
        answers = any(self.refused.values())
        if not self.can or not answers:
            lacks = "announce diagnostics" if answers else "answer requests"
            for row in ("EDIT-3", "EDIT-4"):
                bench.untestable(row, f"the client does not {lacks}")
            return
        for row, came in self.diagnostics.items():
            result = came[0].get("result") if came else None
            told = result.get("diagnostics") if isinstance(result, Mapping) else None
            bench.check(
                row, isinstance(told, list), expected="a list of diagnostics", got=str(came)
            )


def _code(answer: Mapping[str, Any]) -> object:
    error = answer.get("error")
    return error.get("code") if isinstance(error, Mapping) else None


def _is_error(error: object) -> bool:
    if not isinstance(error, Mapping):
        return False
    code = error.get("code")
    is_code = isinstance(code, int) and not isinstance(code, bool)
    return is_code and isinstance(error.get("message"), str)


class AnswersToNobody(Play):
    """Answers come for ids that the client never used."""

    rows: ClassVar = ("BASE-30",)

    async def after_greeting(self) -> None:
        await self.answer(987_654_321, {})
        await self.answer("conformance", None)
        await self.refuse(-5, -32603, "nobody asked")


class NoParams(Play):
    """A request comes without params: null, an array, an object, or nothing at all."""

    rows: ClassVar = ("W-3a",)

    def __init__(self, connection: Connection, edition: Revision, *, calls: bool = True) -> None:
        super().__init__(connection, edition, calls=calls)
        self.codes: list[object] = []

    async def after_greeting(self) -> None:
        kinds: tuple[object, ...] = ({"a": 1}, None, [], {})
        for number, params in enumerate(kinds):
            self._keep_code(await self.ask(number, "conformance/unknown", params))
        await self.say({"jsonrpc": "2.0", "id": 4, "method": "conformance/unknown"})
        await self.until(lambda: "4" in self.answers)
        self._keep_code(self.answers.get("4", []))

    def _keep_code(self, answers: list[Mapping[str, Any]]) -> None:
        error = answers[0].get("error") if answers else None
        self.codes.append(error.get("code") if isinstance(error, Mapping) else error)

    def judge(self, bench: ClientBench) -> None:
        if not self.codes or self.codes[0] is None:
            bench.untestable("W-3a", "an unknown request is not refused, whatever its params")
        elif self.codes == self.codes[:1] * 5:
            bench.undisturbed("W-3a")
        else:
            bench.check("W-3a", False, expected="five answers alike", got=str(self.codes))


class AnswersOutOfOrder(Play):
    """Of two queries that wait at once the later is answered first."""

    rows: ClassVar = ("BASE-29",)

    def __init__(self, connection: Connection, edition: Revision, *, calls: bool = True) -> None:
        super().__init__(connection, edition, calls=calls)
        self.crossed = False
        self._held: list[tuple[str, Any, Mapping[str, Any]]] = []

    async def on_request(self, method: str, id_: Any, params: Mapping[str, Any]) -> None:
        if not method.startswith("chat/query"):
            await super().on_request(method, id_, params)
            return
        self._held.append((method, id_, params))
        if len(self._held) == 2:
            self.crossed = True
            await self._let_go()
        else:
            self.tasks.start_soon(self._let_go_later)

    async def _let_go_later(self) -> None:
        await anyio.sleep(0.2)
        await self._let_go()

    async def _let_go(self) -> None:
        while self._held:
            await super().on_request(*self._held.pop())

    def judge(self, bench: ClientBench) -> None:
        if self.crossed:
            bench.undisturbed("BASE-29")
        else:
            bench.untestable("BASE-29", "the client never asks two things at once")


PLAYS = (
    LateShutdown,
    RequestsOfTheServer,
    AnswersToNobody,
    NoParams,
    AnswersOutOfOrder,
)
