"""A checker of a recorded conversation, entry by entry, against the requirements table.

A violation is reported once, as its most specific row; its consequences are suppressed. Independent
violations of one entry are all reported. Only visible behaviour is checked. No I/O, no clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eca_protocol.endpoint import Method
from eca_protocol.methods import ECA
from eca_protocol.revisions import Revision, detect, detect_server, forced_revision
from eca_protocol.testing.members import at, object_at
from eca_protocol.testing.watching.announcements import Announcements
from eca_protocol.testing.watching.chats import Chats
from eca_protocol.testing.watching.draft import DraftChats
from eca_protocol.testing.watching.frames import Frames
from eca_protocol.testing.watching.lifecycle import LifecycleChecker
from eca_protocol.testing.watching.observation import Observation, ObservationLog, Side
from eca_protocol.testing.watching.requests import PendingRequest, RequestTracker
from eca_protocol.testing.watching.results import check_result
from eca_protocol.testing.watching.schemas import SchemaChecker


class Watcher:
    """Checks one conversation from its first entry.

        watcher = Watcher()
        for side, message in transcript.messages():
            for observation in watcher.feed(side, message):
                print(observation.requirement, observation.got)
        print(watcher.finish())

    Args:
        revision: the edition; None: detect it by rulings W-12 and W-16.
    """

    def __init__(self, *, revision: Revision | None = None) -> None:
        self._log = log = ObservationLog()
        self._is_decided = revision is not None
        self._is_doubtful = False
        self._frames = Frames(log)
        self._requests = RequestTracker(log)
        self._schemas = SchemaChecker(log)
        self._lifecycle = LifecycleChecker(log)
        self._announcements = Announcements(log)
        self._chats: Chats | DraftChats = Chats(log, self._announcements)
        self._decide(revision or Revision.R2025_10)

    @property
    def revision(self) -> Revision:
        """The edition, as far as it is known."""
        return self._log.revision

    def _decide(self, revision: Revision) -> None:
        self._log.revision = revision
        if revision is Revision.DRAFT:
            self._chats = DraftChats(self._log)

    def feed(
        self, side: Side, message: Mapping[str, Any], *, at: float | None = None
    ) -> list[Observation]:
        """Check the next message, which `side` wrote in a correct frame.

        `at` is its time, in seconds since any start; observations repeat it.
        """
        self._log.next_entry(at)
        self._check(side, message)
        return self._log.drain()

    def feed_raw(self, side: Side, data: bytes, *, at: float | None = None) -> list[Observation]:
        """Check the next bytes: an incorrect frame, or bytes without a message.

        A readable message in them is also checked as by `feed`.
        """
        self._log.next_entry(at)
        message = self._frames.check(side, data)
        if message is None or side == "client":
            self._requests.mark_unreadable(side)
            self._is_doubtful = True
        if message is not None:
            self._log.is_ambiguous = False
            self._check(side, message)
        self._is_doubtful = False
        return self._log.drain()

    def feed_end(self, side: Side) -> list[Observation]:
        """Handle the end of the stream of `side`; it is not counted as an entry."""
        self._lifecycle.on_end(side, after_faults=self._requests.has_unreadable("client"))
        if side == "client":
            self._chats.on_client_message("exit", {}, self._log.index)
        return self._log.drain()

    def finish(self) -> list[Observation]:
        """Return the observations about missing messages, after the last entry."""
        for request in self._requests.unanswered("client"):
            if not self._lifecycle.is_over:
                self._report_unanswered(request, "server")
        for request in self._requests.unanswered("server"):
            if not self._lifecycle.is_over and request.method != "chat/askQuestion":
                self._report_unanswered(request, "client")
        if not self._lifecycle.is_over:
            self._chats.finish()
            if self._chats.has_finished_turn and self.revision is not Revision.DRAFT:
                self._announcements.finish()
        return self._log.drain()

    def _report_unanswered(self, request: PendingRequest, side: Side) -> None:
        self._log.report_missing(
            request.index, "BASE-17", f"a response to `{request.method}`", "none", side=side
        )

    def _check(self, side: Side, message: Mapping[str, Any]) -> None:
        if not self._requests.check_envelope(side, message):
            if side == "server":
                self._on_unreadable("")
            return
        method = message.get("method")
        if method is None:
            request = self._requests.take_response(side, message)
            if request is not None:
                self._on_response(side, request, message)
        elif side == "client":
            self._on_client_call(method, message)
        else:
            self._on_server_call(method, message)

    def _on_client_call(self, method: str, message: Mapping[str, Any]) -> None:
        params = object_at(message, "params")
        if method == "initialize" and not self._is_decided:
            self._decide_from(params)
        self._schemas.check("client", method, message.get("params"))
        if "id" in message:
            self._lifecycle.on_client_request(
                self._requests.add_request("client", message, is_doubtful=self._is_doubtful)
            )
        else:
            self._requests.note_unanswerable("client", _row_of_an_answer_to(method))
            self._lifecycle.on_client_notification(method)
        self._announcements.on_selection(method, params)
        self._chats.on_client_message(method, params, self._log.index)

    def _decide_from(self, initialize_params: Mapping[str, Any]) -> None:
        try:
            forced = forced_revision(initialize_params)
        except ValueError:
            forced = None
        revision = forced or detect(initialize_params)
        self._is_decided = revision is Revision.DRAFT
        self._decide(revision)

    def _on_server_call(self, method: str, message: Mapping[str, Any]) -> None:
        params = object_at(message, "params")
        if method == "config/updated" and not self._is_decided:
            self._is_decided = True
            shown = detect_server(at(params, "chat", "variants"))
            if Revision.CURRENT in {shown, self.revision}:
                self._decide(shown)
        row = ECA.get(method)
        is_request = "id" in message and (row is None or row.kind == "request")
        if is_request:
            self._requests.add_request("server", message)
        comes_in_time = self._lifecycle.on_server_message(method, is_request=is_request)
        self._schemas.check("server", method, message.get("params"))
        self._log.is_ambiguous = self._log.is_ambiguous or not comes_in_time
        if row is not None and not is_request:
            self._on_notification(row, params)
            if self._schemas.is_unreadable:
                self._on_unreadable(params.get("chatId"), is_of_chat=row.name.startswith("chat/"))

    def _on_unreadable(self, chat_id: Any, *, is_of_chat: bool | None = None) -> None:
        """Handle an unreadable message of the server; None: its subject is unknown."""
        if is_of_chat is not False:
            self._chats.on_unreadable(chat_id if isinstance(chat_id, str) else "")
        if is_of_chat is not True:
            self._announcements.has_unreadable = True

    def _on_notification(self, row: Method, params: Mapping[str, Any]) -> None:
        if row.name == "chat/contentReceived":
            self._chats.on_content(params)
        elif isinstance(self._chats, DraftChats):
            return
        elif row.name == "config/updated":
            self._announcements.check_config(params)
        elif row.name == "tool/serverUpdated":
            self._announcements.check_server(params)
        elif row.name == "$/progress":
            self._announcements.check_task(params)
        elif row.name == "$/showMessage":
            self._announcements.check_message(params)
        elif row.name.startswith("chat/"):
            self._chats.on_notification(row.name, params)

    def _on_response(self, side: Side, request: PendingRequest, message: Mapping[str, Any]) -> None:
        is_served = side == "server" and self._lifecycle.on_response(request, message)
        if message.get("error") is None:
            self._schemas.check(side, request.method, message.get("result"), "result")
        if side == "client":
            return
        self._chats.on_response(request, message)
        if is_served:
            check_result(self._log, request, message)


def _row_of_an_answer_to(method: str) -> str:
    """Return the row that an answer to this message without an id violates."""
    known = ECA.get(method)
    if known is None:
        return "W-4c"
    return "W-4a" if known.kind == "request" else "BASE-18"
