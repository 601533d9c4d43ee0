"""A recorded conversation, entry by entry -> which rows of the requirements table it breaks.

Each breach is told as one row, the most specific one, and what follows from it is not told again;
an entry that breaks several rows, of which none follows from another, is told as each.
Only what a conversation can show is judged. No I/O, no clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eca_protocol.endpoint import Method
from eca_protocol.methods import ECA
from eca_protocol.revisions import Revision, detect, detect_server, forced_revision
from eca_protocol.testing.watching.answers import Answers, Asked
from eca_protocol.testing.watching.chats import Chats
from eca_protocol.testing.watching.draft import DraftChats
from eca_protocol.testing.watching.frames import Frames
from eca_protocol.testing.watching.letters import Letters
from eca_protocol.testing.watching.observation import Notes, Observation, Side
from eca_protocol.testing.watching.offers import Offers
from eca_protocol.testing.watching.opening import Opening
from eca_protocol.testing.watching.replies import Replies

__all__ = ["Watcher"]

_EMPTY: Mapping[str, Any] = {}


class Watcher:
    """Watches one conversation from its first entry on.

        watcher = Watcher()
        for side, message in transcript.messages():
            for observation in watcher.feed(side, message):
                print(observation.requirement, observation.got)
        print(watcher.finish())

    Args:
        revision: the edition, where something else decided it; None: it is decided as rulings W-12
            and W-16 have it.
    """

    def __init__(self, *, revision: Revision | None = None) -> None:
        self._notes = notes = Notes()
        self._is_decided = revision is not None
        self._is_doubtful = False
        self._frames = Frames(notes)
        self._answers = Answers(notes)
        self._letters = Letters(notes)
        self._opening = Opening(notes)
        self._offers = Offers(notes)
        self._chats: Chats | DraftChats = Chats(notes, self._offers)
        self._replies = Replies(notes)
        self._decide(revision or Revision.R2025_10)

    def _decide(self, revision: Revision) -> None:
        self.revision = revision
        self._letters.revision = self._offers.revision = self._replies.revision = revision
        if revision is Revision.DRAFT:
            self._chats = DraftChats(self._notes)
        elif isinstance(self._chats, Chats):
            self._chats.revision = revision

    def feed(
        self, side: Side, message: Mapping[str, Any], *, at: float | None = None
    ) -> list[Observation]:
        """Take the next message, which `side` wrote in a frame as it has to be.

        `at` is when it passed, in seconds since any start; observations repeat it.
        """
        self._notes.turn_page(at)
        self._take(side, message)
        return self._notes.take()

    def feed_raw(self, side: Side, data: bytes, *, at: float | None = None) -> list[Observation]:
        """Take the next bytes: no message at all, or a frame written otherwise.

        A message that can be read in them is taken as by `feed`: how it is written excuses nothing
        of what it says.
        """
        self._notes.turn_page(at)
        message = self._frames.take(side, data)
        if message is None or side == "client":
            self._answers.spoiled(side)
            self._is_doubtful = True
        if message is not None:
            self._notes.is_flawed = False
            self._take(side, message)
        self._is_doubtful = False
        return self._notes.take()

    def feed_end(self, side: Side) -> list[Observation]:
        """Take the end of what `side` writes; it counts as no entry."""
        self._opening.ended(side, after_faults=self._answers.was_spoiled("client"))
        if side == "client":
            self._chats.client_says("exit", {}, self._notes.index)
        return self._notes.take()

    def finish(self) -> list[Observation]:
        """What is still open when nothing comes any more."""
        for asked in self._answers.open("client"):
            if not self._opening.is_over:
                self._owes_answer(asked, "server")
        for asked in self._answers.open("server"):
            if not self._opening.is_over and asked.method != "chat/askQuestion":
                self._owes_answer(asked, "client")
        if not self._opening.is_over:
            self._chats.finish()
            if self._chats.has_finished_turn and self.revision is not Revision.DRAFT:
                self._offers.finish()
        return self._notes.take()

    def _owes_answer(self, asked: Asked, side: Side) -> None:
        self._notes.tell_of(
            asked.index, "BASE-17", side=side, expected=f"an answer to {asked.method}", got="none"
        )

    def _take(self, side: Side, message: Mapping[str, Any]) -> None:
        if not self._answers.keeps_envelope(side, message):
            if side == "server":
                self._lost("")
            return
        method = message.get("method")
        if method is None:
            asked = self._answers.answered(side, message)
            if asked is not None:
                self._answered(side, asked, message)
        elif side == "client":
            self._client_said(method, message)
        else:
            self._server_said(method, message)

    def _client_said(self, method: str, message: Mapping[str, Any]) -> None:
        params = _object(message.get("params"))
        if method == "initialize" and not self._is_decided:
            self._decide_by(params)
        self._letters.take("client", method, message.get("params"))
        if "id" in message:
            self._opening.client_asks(
                self._answers.asked("client", message, is_doubtful=self._is_doubtful)
            )
        else:
            self._answers.told("client", "BASE-18" if method in ECA else "W-4c")
            self._opening.client_tells(method)
        self._offers.client_chose(method, params)
        self._chats.client_says(method, params, self._notes.index)

    def _decide_by(self, initialize_params: Mapping[str, Any]) -> None:
        try:
            forced = forced_revision(initialize_params)
        except ValueError:
            forced = None
        revision = forced or detect(initialize_params)
        self._is_decided = revision is Revision.DRAFT
        self._decide(revision)

    def _server_said(self, method: str, message: Mapping[str, Any]) -> None:
        params = _object(message.get("params"))
        if method == "config/updated" and not self._is_decided:
            self._is_decided = True
            shown = detect_server(_object(params.get("chat")).get("variants"))
            if Revision.CURRENT in {shown, self.revision}:
                self._decide(shown)
        row = ECA.get(method)
        is_request = "id" in message and (row is None or row.kind == "request")
        if is_request:
            self._answers.asked("server", message)
        comes_in_time = self._opening.server_calls(method, is_request=is_request)
        self._letters.take("server", method, message.get("params"))
        self._notes.is_flawed = self._notes.is_flawed or not comes_in_time
        if row is not None and not is_request:
            self._told(row, params)
            if self._letters.has_lost:
                self._lost(params.get("chatId"), is_of_chat=row.name.startswith("chat/"))

    def _lost(self, chat_id: Any, *, is_of_chat: bool | None = None) -> None:
        """The server wrote what cannot be understood; None: nobody knows what it is about."""
        if is_of_chat is not False:
            self._chats.lost(chat_id if isinstance(chat_id, str) else "")
        if is_of_chat is not True:
            self._offers.is_unsure = True

    def _told(self, row: Method, params: Mapping[str, Any]) -> None:
        """A notification of the server's."""
        if row.name == "chat/contentReceived":
            self._chats.content(params)
        elif isinstance(self._chats, DraftChats):
            return
        elif row.name == "config/updated":
            self._offers.config(params)
        elif row.name == "tool/serverUpdated":
            self._offers.server(params)
        elif row.name == "$/progress":
            self._offers.task(params)
        elif row.name == "$/showMessage":
            self._offers.message(params)
        elif row.name.startswith("chat/"):
            self._chats.told(row.name, params)

    def _answered(self, side: Side, asked: Asked, message: Mapping[str, Any]) -> None:
        is_served = side == "server" and self._opening.server_answers(asked, message)
        if message.get("error") is None:
            self._letters.take(side, asked.method, message.get("result"), "result")
        if side == "client":
            return
        self._chats.server_answers(asked, message)
        if is_served:
            self._replies.take(asked, message)


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else _EMPTY
