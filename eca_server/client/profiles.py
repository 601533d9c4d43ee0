"""Profiles of clients with needs of their own: the only module with names of clients.

Every row works around an observed defect or difference of a real client; rulings W-6, W-24 and
W-42.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from eca_protocol.outbox import WriteShape
from eca_protocol.revisions import Revision


@attrs.frozen(kw_only=True)
class Writing:
    """The form in which a client reads frames and texts.

    Attributes:
        shape: how frames are put into writes.
        text_limit: UTF-8 bytes of one text content; longer ones are split.
        loses_large_frames: whether it loses a frame above the shape's size; displayed texts and
            lists are then cut to fit.
        splits_echo: whether the user's echo is split as well; its pieces join to the exact text.
        ends_echo: whether the user's echo gets a line end, without which the client writes the
            answer on the user's line (W-20).
        drops_repeats: whether it drops every text that is equal to the user's prompt, as it does
            with the echo, so that the answer "1" to the prompt "1" is lost.
        merge_seconds: the interval in which deltas of one content are joined; 0: none are.
        repaint_seconds: the time it paints per character of a content at each delta, since it
            paints the whole content again; 0: it paints the delta alone.
        characters_per_second: the rate at which a flood of merged deltas is written.
    """

    shape: WriteShape = attrs.field(factory=WriteShape)
    text_limit: int = 4096
    loses_large_frames: bool = False
    splits_echo: bool = False
    ends_echo: bool = False
    drops_repeats: bool = False
    merge_seconds: float = 0.0
    repaint_seconds: float = 0.0
    characters_per_second: float = 68_000.0

    @property
    def brief_tools(self) -> bool:
        """True if tools are announced without schemas and with one short line, to fit one read."""
        return self.loses_large_frames and self.shape.size <= _SMALL_READ


@attrs.frozen(kw_only=True)
class Display:
    """The contents and messages that a client of today shows, and how.

    Attributes:
        shows_pictures: whether it shows `image` contents; other clients get a text with the file
            of each (W-26).
        shows_subagents: whether it shows the chats of subagents; other clients see only their
            requests for approval and their result.
        replaces_rewrites: whether it knows the correction of a rewrite; other clients get the new
            text when it is complete.
        shows_other_chats: whether it shows the chats that commands begin (`/btw`, `/import`).
        shows_one_text: whether it shows a chat as one Markdown text, in which a block of code that
            an answer leaves open would contain all that follows.
        shows_messages: whether it shows `$/showMessage`; else a chat repeats the message (W-15).
        formats_messages: whether it uses the text of `$/showMessage` as a format, so that a single
            `%` is an error by which it loses the rest of its read.
        has_plain_own_texts: whether it shows questions and system texts without Markdown, and
            questions without line ends; links work in the model's answers alone.
        names_changed_files: whether it appends the name of a changed file to a call's summary.
        shows_rejected_changes: whether it shows the details of a rejected change of a file.
    """

    shows_pictures: bool = True
    shows_subagents: bool = True
    replaces_rewrites: bool = True
    shows_other_chats: bool = True
    shows_one_text: bool = False
    shows_messages: bool = True
    formats_messages: bool = False
    has_plain_own_texts: bool = False
    names_changed_files: bool = False
    shows_rejected_changes: bool = True


@attrs.frozen(kw_only=True)
class ClientProfile:
    """The needs of a client; the defaults are those of a client that speaks CURRENT.

    Attributes:
        writing: the form of frames and texts.
        display: the contents and messages that it shows.
        finishes_deleted: whether a deleted chat's running turn still gets its `finished`.
        first_positions: the numbers of the first line and character in a diagnostic, by a part of
            the name of its source; the first match counts.
        approval_seconds: the deadline of an approval; infinite for clients that can approve.
        counts_stopped: whether it gets the usage of a stopped turn, too.
        prefixes_tools: whether the names of native tools are sent with the prefix `eca_` (W-33).
        resends_steers: whether it sends a message to a running turn again, as a prompt, if the turn
            ended without it; other clients get it repeated (W-22).
        enter_approves: whether the key that sends a message to a running turn, or an answer, also
            approves every waiting call; an approval in that instant does not count.
        names_variants: whether each prompt names the model and the variant that it shows; a prompt
            without a variant then has none.
        joins_arguments: whether its user edits the arguments of an MCP server as one text, which it
            splits at blanks.
        forgets_announcements: whether its page, when loaded late or again, knows only the last
            `config/updated`, no servers and no jobs.
        names_agent: its name of the built-in agent that is not `plan` (W-28).
        names_no_agent: whether its prompts name no agent although people write them; the prompts of
            other such clients are those of programs.
        rejection_ends_turn: whether the turn ends after the user has rejected a call, since the
            next prompt is the user's answer to the model (W-31); false also for a client that
            rejects without the user.
        logs_messages: whether `$/showMessage` is logged, too; false where the client prints it to
            the same stream.
    """

    writing: Writing = attrs.field(factory=Writing)
    display: Display = attrs.field(factory=Display)
    finishes_deleted: bool = False
    first_positions: Sequence[tuple[str, tuple[int, int]]] = (("", (1, 1)),)
    approval_seconds: float = math.inf
    counts_stopped: bool = False
    prefixes_tools: bool = False
    resends_steers: bool = False
    enter_approves: bool = False
    names_variants: bool = False
    joins_arguments: bool = False
    forgets_announcements: bool = False
    names_agent: str = "code"
    names_no_agent: bool = False
    rejection_ends_turn: bool = True
    logs_messages: bool = True

    def agent_name(self, behavior: str) -> str:
        """Return the client's name of an agent."""
        return self.names_agent if behavior == "agent" else behavior

    def first_position(self, source: str) -> tuple[int, int]:
        """Return the numbers of the first line and character in a diagnostic of a source."""
        return next(first for part, first in self.first_positions if part in source)


def _before_current(profile: ClientProfile) -> ClientProfile:
    """Return the profile of a client that speaks an older edition."""
    return attrs.evolve(
        profile,
        display=attrs.evolve(profile.display, shows_pictures=False, shows_subagents=False),
        prefixes_tools=True,
        names_agent="agent",
        rejection_ends_turn=False,
    )


DEFAULT_PROFILE = _before_current(ClientProfile())

_SMALL_READ = 4096

_ZERO_BASED = (("", (0, 0)),)

_MERGE_SECONDS = 0.03
"""Two frames of a screen: Emacs needs 8 ms for a delta and paints 100 KB a second."""

# Emacs loses messages that share a read with the answer to a synchronous request, and its buffer of
# a deleted chat stays busy without a `finished`.
# lsp-mode and Flycheck count from 0 there, Flymake counts lines from 1; its sources are named after
# the functions that made them, such as `eglot-flymake-backend`.
_EMACS = ClientProfile(
    writing=Writing(
        shape=WriteShape(pause_after_answer=0.01, limits_values=True), merge_seconds=_MERGE_SECONDS
    ),
    display=Display(names_changed_files=True, formats_messages=True, shows_one_text=True),
    finishes_deleted=True,
    resends_steers=True,
    first_positions=(("flymake", (1, 0)), *_ZERO_BASED),
)

# Before 2026-02 Emacs also lost half a frame between two reads, and read 4096 bytes at most. In
# October 2025 it fails at the details of a rejected change, whose buttons then remain.
_OLD_EMACS = attrs.evolve(
    _EMACS,
    writing=attrs.evolve(
        _EMACS.writing,
        shape=attrs.evolve(_EMACS.writing.shape, size=_SMALL_READ, pause_between=0.004),
        text_limit=1024,
        loses_large_frames=True,
        splits_echo=True,
        ends_echo=True,
    ),
    display=attrs.evolve(
        _EMACS.display, shows_pictures=False, shows_subagents=False, shows_rejected_changes=False
    ),
    resends_steers=False,
)

# Neovim parses each read (64 KiB at most) separately. It drops the echo of its last prompt only; of
# an earlier one, which has waited in the queue, it is shown like the answer and needs a line end.
_NEOVIM = ClientProfile(
    writing=Writing(
        shape=WriteShape(size=32_768, pause_between=0.004),
        loses_large_frames=True,
        ends_echo=True,
        drops_repeats=True,
        merge_seconds=_MERGE_SECONDS,
    ),
    display=Display(
        shows_pictures=False, shows_subagents=False, shows_messages=False, shows_one_text=True
    ),
    first_positions=_ZERO_BASED,
    names_no_agent=True,
)

# The plugins built on the shared web page drop `$/showMessage`, as Neovim's does (W-15); the page
# drops `image` contents and shows system texts and questions plain. At each delta it renders the
# Markdown of the whole content again and hears no click meanwhile: 0.06 s of a processor for 120 KB
# of short lines, 0.23 s for lists and mixed text, and several times that on a busy machine. Longer
# intervals with more text in each write were measured and made it worse.
_WEB_PAGE = ClientProfile(
    writing=Writing(
        merge_seconds=_MERGE_SECONDS, repaint_seconds=4e-6, characters_per_second=32_000.0
    ),
    display=Display(shows_pictures=False, shows_messages=False, has_plain_own_texts=True),
    resends_steers=True,
    enter_approves=True,
    names_variants=True,
    joins_arguments=True,
)
_WEB_PAGE_ZERO_BASED = attrs.evolve(_WEB_PAGE, first_positions=_ZERO_BASED)

_OUR_OWN = ClientProfile(
    display=Display(shows_other_chats=False), rejection_ends_turn=False, logs_messages=False
)

DRAFT_SECONDS = 60.0
"""Deadline of an approval by a draft client; the draft has no message for it (W-52)."""

_BY_NAME = {
    "eca-server chat": _OUR_OWN,
    "eca-server acp": ClientProfile(names_no_agent=True),
    "Neovim": _NEOVIM,
    "VsCode": attrs.evolve(
        _WEB_PAGE_ZERO_BASED,
        display=attrs.evolve(_WEB_PAGE.display, replaces_rewrites=False),
        forgets_announcements=True,
    ),
    "IntelliJ": _WEB_PAGE_ZERO_BASED,
    "Desktop": _WEB_PAGE,
}

CLIENTS = ("emacs", *_BY_NAME)
"""The names of the clients that have a profile of their own."""


def profile_for(initialize_params: Any, revision: Revision = Revision.R2025_10) -> ClientProfile:
    """Return the profile of a client, from its raw `initialize` params and revision."""
    params = _mapping(initialize_params)
    name = _mapping(params.get("clientInfo")).get("name")
    name = name if isinstance(name, str) else ""
    profile = _BY_NAME.get(name, ClientProfile())
    if name == "emacs":
        assistant = _mapping(_mapping(params.get("capabilities")).get("codeAssistant"))
        profile = _EMACS if "chatCapabilities" in assistant else _OLD_EMACS
    if revision is Revision.CURRENT:
        return profile
    older = _before_current(profile)
    if revision is Revision.DRAFT:
        return attrs.evolve(older, approval_seconds=DRAFT_SECONDS, counts_stopped=True)
    return older


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
