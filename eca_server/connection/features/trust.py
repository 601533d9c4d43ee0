"""Workspace trust: the question to the user, and the decision (issue "Workspace trust").

Invariants: only settings that were described to the user are accepted, by their digests. Only the
server asks; no tool can. A turn owns its question, so a stop cancels it and the next prompt asks
again. There is one question about a set of settings in a session.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs
import trio

from eca_protocol.messages import ChatAskQuestionOption, ChatAskQuestionParams
from eca_server.agent.tools.ask_user import PATIENCE, client_asks_questions
from eca_server.client.session import REQUEST_ERRORS, Session
from eca_server.config import trust_texts as texts
from eca_server.config.data_file import DataFileError
from eca_server.config.trust_store import TrustStore
from eca_server.connection.features.settings import Settings

if TYPE_CHECKING:
    from eca_server.agent.chat import Turn
    from eca_server.config.settings import Config
    from eca_server.config.trust_items import TrustItem

_log = logging.getLogger("eca_server")

Ask: TypeAlias = Callable[[ChatAskQuestionParams], Awaitable[str | None]]
"""A function that asks the user, and returns the label of the answer, or None."""


_OPTIONS: Final = (
    ChatAskQuestionOption(
        label=texts.TRUST, description="Use these settings from now on; ask again when one changes."
    ),
    ChatAskQuestionOption(
        label=texts.NOT_NOW, description="Continue without them; the next session asks again."
    ),
    ChatAskQuestionOption(
        label=texts.NEVER, description="Continue without them; ask again only when they change."
    ),
)
_QUESTION_LINE: Final = 300  # characters of a line in the question
_QUESTION_LIST: Final = 4_000
LIST_LINE: Final = 48_000
"""Limit of a line in the full list, in characters."""
LIST: Final = 48_000
"""Limit of the full list, in characters."""


_Key: TypeAlias = tuple[Path, str]
"""The identity of a described setting: its root and its digest."""


def _key(item: TrustItem) -> _Key:
    return item.root, item.digest


@attrs.define(eq=False)
class Trust:
    """The waiting settings of the workspace folders, and the user's decisions.

    Attributes:
        on_decision: called with the configuration before a decision.
    """

    session: Session
    settings: Settings
    environ: Mapping[str, str]
    on_decision: Callable[[Config], None]
    _asking: trio.Lock = attrs.field(factory=trio.Lock, init=False)
    _postponed: set[_Key] = attrs.field(factory=set, init=False)
    _announced: set[_Key] = attrs.field(factory=set, init=False)
    _listed: set[_Key] = attrs.field(factory=set, init=False)

    @property
    def items(self) -> tuple[TrustItem, ...]:
        """The waiting settings, including those the user has declined."""
        return self.settings.loaded.withheld

    @property
    def pending(self) -> tuple[TrustItem, ...]:
        """The settings that the user may be asked about."""
        loaded = self.settings.loaded
        if not loaded.may_ask:
            return ()
        return tuple(each for each in loaded.withheld if not each.is_refused)

    @property
    def is_barred(self) -> bool:
        """True if the editor says that the workspace is not trusted."""
        return bool(self.items) and not self.settings.loaded.may_ask

    async def settle(self, turn: Turn) -> None:
        """Ask the user before a turn, which waits for the answer; a stop cancels the question."""
        session = self.session
        if not client_asks_questions(session) or not self._unanswered():
            return

        async def ask(params: ChatAskQuestionParams) -> str | None:
            question = attrs.evolve(params, chat_id=turn.outlet.id)
            answer = await session.ask(question, deadline=PATIENCE)
            return None if answer.cancelled else answer.answer

        turn.progress("Waiting for your answer")
        await self.ask(ask, turn.report)
        turn.progress("Waiting model")

    async def ask(self, ask: Ask, say: Callable[[str], None]) -> None:
        """Ask about each root with new waiting settings, once in a session."""
        async with self._asking:
            for root in texts.unique_roots(self._unanswered()):
                await self._ask_about(root, ask, say)

    def announce(self) -> None:
        """Show the waiting settings to a client without questions, once for each set."""
        pending = self.pending
        if client_asks_questions(self.session):
            return
        keys = set(map(_key, pending))
        if keys - self._announced:
            self._announced |= keys
            self.session.show("warning", texts.announcement(pending))

    def list_waiting(self) -> texts.Listing:
        """Describe the waiting settings, which can then be accepted."""
        listing = texts.list_items(self.items, longest=LIST_LINE, most=LIST)
        self._listed.update(map(_key, listing.items))
        return listing

    @property
    def listed(self) -> tuple[TrustItem, ...]:
        """The waiting settings that `list_waiting` has described."""
        return tuple(each for each in self.items if _key(each) in self._listed)

    async def accept(self, items: Iterable[TrustItem]) -> None:
        """Accept settings, and trust their roots.

        Raises:
            DataFileError: the decision cannot be stored.
        """
        await self._decide(items, lambda store, root, digests: store.accept(root, digests))

    async def refuse(self, items: Iterable[TrustItem]) -> None:
        """Store that the user declined settings, so that there is no further question.

        Raises as `accept`.
        """
        await self._decide(items, lambda store, root, digests: store.refuse(root, digests))

    async def forget(self) -> bool:
        """Withdraw the trust in the roots; return whether one was trusted. Raises as `accept`."""
        store = TrustStore(self.environ)
        known = False
        async with self.settings.changing.place():
            for root in self.session.roots:
                known |= await trio.to_thread.run_sync(store.forget, root.path)
            await self._reload()
        return known

    async def accept_server(self, name: str) -> str:
        """Accept the settings of one MCP server, whose command the client has shown.

        The caller holds its place in `changing`.

        Returns:
            The reason, for the user, why a separate answer is needed; empty if they are accepted.

        Raises:
            DataFileError: the decision cannot be stored.
        """
        waiting = [each for each in self.items if each.path == ("mcpServers", name)]
        if not waiting:
            return ""
        if self.is_barred:
            return f"{texts.PREFIX}: the editor says that this workspace is not trusted."
        item = waiting[0]  # the one whose command was announced
        settings = item.value if isinstance(item.value, dict) else {}
        hidden = [key for key in ("env", "cwd") if settings.get(key)]
        if settings.get("url") and settings.get("command"):
            hidden.append("command")
        if item.uses or hidden:
            self._postponed.discard(_key(item))
            can_ask = client_asks_questions(self.session) and item in self.pending
            how = "The next prompt asks you first." if can_ask else "Send `/trust` in a chat first."
            gets = f"would use your {texts.shown(', '.join(item.uses))}"
            has = f"has settings that were not shown to you ({', '.join(hidden)})"
            return (
                f"{texts.PREFIX}: the MCP server {texts.shown(name)} of {texts.shown(item.root)} "
                f"{gets if item.uses else has}. {how}"
            )

        def accept(store: TrustStore, root: Path, digests: Sequence[str]) -> None:
            store.accept(root, digests, trusts_root=False)

        await self._decide_now([item], accept)
        return ""

    async def _ask_about(self, root: Path, ask: Ask, say: Callable[[str], None]) -> None:
        waiting = [each for each in self.pending if each.root == root]
        if all(_key(each) in self._postponed for each in waiting):
            return
        lists_in_chat = self.session.profile.display.has_plain_own_texts
        short = texts.list_items(waiting, longest=_QUESTION_LINE, most=_QUESTION_LIST)
        listed = short.items
        if lists_in_chat or short.is_cut:
            whole = texts.list_items(waiting, longest=LIST_LINE, most=LIST)
            listed = whole.items
            say(texts.full_list(root, whole))
        text = texts.question(
            root, waiting, None if lists_in_chat else short, unlisted=len(waiting) - len(listed)
        )
        params = ChatAskQuestionParams(
            chat_id="", question=text, options=_OPTIONS, allow_freeform=False
        )
        try:
            answer = await ask(params)
        except REQUEST_ERRORS as error:
            _log.info("the question about %s has no answer: %s", root, error)
            answer = None
        self._postponed.update(map(_key, listed if answer == texts.TRUST else waiting))
        try:
            say(await self._answered(answer, root, listed, waiting))
        except DataFileError as error:
            say(f"{texts.PREFIX}: your answer could not be stored, so nothing changed: {error}")

    async def _answered(
        self,
        answer: str | None,
        root: Path,
        listed: Sequence[TrustItem],
        waiting: Sequence[TrustItem],
    ) -> str:
        """Act on an answer, and return a text about it."""
        with trio.CancelScope(shield=True):  # a stop must not interrupt the decision
            if answer == texts.TRUST:
                await self.accept(listed)
                return texts.accepted(root, listed, [e for e in self.pending if e.root == root])
            if answer == texts.NEVER:
                await self.refuse(waiting)
        return (
            f"{texts.PREFIX}: continuing without {texts.count(waiting)} of {texts.shown(root)}."
            f"{texts.guards_off(waiting)} `/trust` lists and accepts them."
        )

    def _unanswered(self) -> tuple[TrustItem, ...]:
        return tuple(each for each in self.pending if _key(each) not in self._postponed)

    async def _decide(
        self, items: Iterable[TrustItem], decide: Callable[[TrustStore, Path, Sequence[str]], None]
    ) -> None:
        async with self.settings.changing.place():
            await self._decide_now(items, decide)

    async def _decide_now(
        self, items: Iterable[TrustItem], decide: Callable[[TrustStore, Path, Sequence[str]], None]
    ) -> None:
        store = TrustStore(self.environ)
        decided = tuple(items)
        for root in texts.unique_roots(decided):
            digests = [each.digest for each in decided if each.root == root]
            await trio.to_thread.run_sync(decide, store, root, digests)
        await self._reload()

    async def _reload(self) -> None:
        before = self.settings.config
        await self.settings.reload()
        self.on_decision(before)
