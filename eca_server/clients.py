"""Profiles of clients with needs of their own: the only module with names of clients.

Every row works around an observed defect or difference of a real client; rulings W-6, W-24 and
W-42.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import attrs

from eca_protocol.outbox import WriteShape
from eca_protocol.revisions import Revision

__all__ = ["DEFAULT_PROFILE", "ClientProfile", "profile_for"]


@attrs.frozen(kw_only=True)
class ClientProfile:
    """The needs of a client.

    Attributes:
        shape: how frames are put into writes.
        text_limit: UTF-8 bytes of one text content; longer ones are split.
        loses_large_frames: whether it loses a frame above the shape's size; displayed texts and
            lists are then cut to fit.
        splits_echo: whether the user's echo is split as well; its pieces join to the exact text.
        brief_tools: whether tools are announced without their schemas and with one short line,
            so that the frame fits one read of the client.
        finishes_deleted: whether a deleted chat's running turn still gets its `finished`.
        diagnostics_are_zero_based: whether it counts lines and characters of a diagnostic from 0.
        flymake_counts_lines: whether the lines of Flymake's diagnostics alone count from 1.
        approval_seconds: the deadline of an approval; infinite for clients that can approve.
        counts_stopped: whether it gets the usage of a stopped turn, too.
        prefixes_tools: whether the names of native tools are sent with the prefix `eca_` (W-33).
        shows_pictures: whether it shows `image` contents; other clients get a text with the file
            of each (W-26).
        drops_pictures: whether it drops `image` contents although its revision has them.
        shows_subagents: whether it shows the chats of subagents; other clients see only their
            requests for approval and their result.
        shows_messages: whether it shows `$/showMessage`; else a chat repeats the message (W-15).
        has_plain_own_texts: whether it shows questions and system texts without Markdown, and
            questions without line ends; links work in the model's answers alone.
        names_changed_files: whether it appends the name of a changed file to a call's summary.
        merge_seconds: the interval in which deltas of one content are joined; 0: none are.
        repaint_seconds: the time it paints per character of a content at each delta, since it
            paints the whole content again; 0: it paints the delta alone.
        characters_per_second: the rate at which a flood of merged deltas is written.
        names_agent: its name of the built-in agent that is not `plan` (W-28).
        rejection_ends_turn: whether the turn ends after the user has rejected a call, since the
            next prompt is the user's answer to the model (W-31); only in CURRENT.
        rejects_by_itself: whether it rejects calls without the user, so that the turn continues.
        logs_messages: whether `$/showMessage` is logged, too; false where the client prints it to
            the same stream.
    """

    shape: WriteShape = attrs.field(factory=WriteShape)
    text_limit: int = 4096
    loses_large_frames: bool = False
    splits_echo: bool = False
    brief_tools: bool = False
    finishes_deleted: bool = False
    diagnostics_are_zero_based: bool = False
    flymake_counts_lines: bool = False
    approval_seconds: float = math.inf
    counts_stopped: bool = False
    prefixes_tools: bool = True
    shows_pictures: bool = False
    drops_pictures: bool = False
    shows_subagents: bool = False
    shows_messages: bool = True
    has_plain_own_texts: bool = False
    names_changed_files: bool = False
    merge_seconds: float = 0.0
    repaint_seconds: float = 0.0
    characters_per_second: float = 68_000.0
    names_agent: str = "agent"
    rejects_by_itself: bool = False
    rejection_ends_turn: bool = False
    logs_messages: bool = True

    def agent_name(self, behavior: str) -> str:
        """Return the client's name of an agent."""
        return self.names_agent if behavior == "agent" else behavior

    def first_position(self, source: str) -> tuple[int, int]:
        """Return the numbers of the first line and character in a diagnostic of a source."""
        if not self.diagnostics_are_zero_based:
            return 1, 1
        return int(self.flymake_counts_lines and "flymake" in source), 0


DEFAULT_PROFILE = ClientProfile()

_MERGE_SECONDS = 0.03
"""Two frames of a screen: Emacs needs 8 ms for a delta and paints 100 KB a second."""

# Emacs loses messages that share a read with the answer to a synchronous request, and its buffer of
# a deleted chat stays busy without a `finished`.
# lsp-mode and Flycheck count from 0 there, Flymake counts lines from 1; its sources are named after
# the functions that made them, such as `eglot-flymake-backend`.
_EMACS = ClientProfile(
    shape=WriteShape(pause_after_answer=0.01),
    finishes_deleted=True,
    names_changed_files=True,
    diagnostics_are_zero_based=True,
    flymake_counts_lines=True,
    merge_seconds=_MERGE_SECONDS,
)

# Before 2026-02 Emacs also lost half a frame between two reads, and read 4096 bytes at most.
_OLD_EMACS = ClientProfile(
    shape=WriteShape(size=4096, pause_after_answer=0.01, pause_between=0.004),
    text_limit=1024,
    loses_large_frames=True,
    splits_echo=True,
    brief_tools=True,
    finishes_deleted=True,
    names_changed_files=True,
    diagnostics_are_zero_based=True,
    flymake_counts_lines=True,
    merge_seconds=_MERGE_SECONDS,
)

# Neovim parses each read (64 KiB at most) separately.
_NEOVIM = ClientProfile(
    shape=WriteShape(size=32_768, pause_between=0.004),
    loses_large_frames=True,
    diagnostics_are_zero_based=True,
    shows_messages=False,
    merge_seconds=_MERGE_SECONDS,
)

# The plugins built on the shared web page drop `$/showMessage`, as Neovim's does (W-15); the page
# drops `image` contents and shows system texts and questions plain. At each delta it renders the
# Markdown of the whole content again, 0.15 to 0.4 s for 100 KB, and hears no click meanwhile.
_WEB_PAGE = ClientProfile(
    drops_pictures=True,
    shows_messages=False,
    has_plain_own_texts=True,
    merge_seconds=_MERGE_SECONDS,
    repaint_seconds=4e-6,
    characters_per_second=32_000.0,
)
_ZERO_BASED = attrs.evolve(_WEB_PAGE, diagnostics_are_zero_based=True)

# In a pipe and as an agent, `chat` rejects calls itself: no prompt with instructions follows.
_OUR_OWN = ClientProfile(rejects_by_itself=True, logs_messages=False)

DRAFT_SECONDS = 60.0
"""Deadline of an approval by a draft client; the draft has no message for it (W-52)."""

_BY_NAME = {
    "eca-server chat": _OUR_OWN,
    "Neovim": _NEOVIM,
    "VsCode": _ZERO_BASED,
    "IntelliJ": _ZERO_BASED,
    "Desktop": _WEB_PAGE,
}


def profile_for(initialize_params: Any, revision: Revision = Revision.R2025_10) -> ClientProfile:
    """Return the profile of a client, from its raw `initialize` params and revision."""
    profile = _named(_mapping(initialize_params))
    if revision is Revision.DRAFT:
        return attrs.evolve(profile, approval_seconds=DRAFT_SECONDS, counts_stopped=True)
    if revision is not Revision.CURRENT:
        return profile
    shows_all = not profile.loses_large_frames
    return attrs.evolve(
        profile,
        prefixes_tools=False,
        shows_pictures=shows_all and not profile.drops_pictures,
        shows_subagents=shows_all,
        names_agent="code",
        rejection_ends_turn=not profile.rejects_by_itself,
    )


def _named(params: Mapping[str, Any]) -> ClientProfile:
    name = _mapping(params.get("clientInfo")).get("name")
    if name == "emacs":
        assistant = _mapping(_mapping(params.get("capabilities")).get("codeAssistant"))
        return _EMACS if "chatCapabilities" in assistant else _OLD_EMACS
    return _BY_NAME.get(name, DEFAULT_PROFILE) if isinstance(name, str) else DEFAULT_PROFILE


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
