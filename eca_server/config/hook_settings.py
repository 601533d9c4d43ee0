"""`hooks`: the user's commands that run on events, some of which they may block.

Invariant: a damaged matcher never loosens a guard: an unreadable part matches every call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias, get_args

import attrs

from eca_server.config.matchers import BadMatcher, compile_matcher
from eca_server.config.reading import (
    FLAG,
    NAME,
    NUMBER,
    SCRIPT_PATH,
    TEXT,
    Place,
    Reader,
    choice,
    each,
    listing,
    record,
    setting,
)
from eca_server.config.tool_settings import RULE, RULES, ApprovalRule

HookEvent: TypeAlias = Literal[
    "sessionStart",
    "sessionEnd",
    "chatStart",
    "chatEnd",
    "chatStatusChanged",
    "subagentStart",
    "preRequest",
    "postRequest",
    "subagentPostRequest",
    "preToolCall",
    "postToolCall",
    "preCompact",
    "postCompact",
]
Matcher: TypeAlias = str | Mapping[str, ApprovalRule]

_OLDER_NAMES = {"prePrompt": "preRequest", "postPrompt": "postRequest"}
_EVENT = choice(*get_args(HookEvent))


def _read_event(value: object, place: Place) -> object:
    return _EVENT.read(_OLDER_NAMES.get(value, value) if isinstance(value, str) else value, place)


def _read_matcher(value: object, place: Place) -> object:
    if not isinstance(value, str):
        place.expect(isinstance(value, Mapping), "a string or an object", value)
        return RULES.read(value, place)
    try:
        compile_matcher(value)
    except BadMatcher as error:
        place.refuse(f"{error} (until this is fixed the hook runs for every call)")
    return value


_MATCHER = Reader(
    read=_read_matcher,
    build=lambda merged: merged if isinstance(merged, str) else RULES.build(merged),
    schema={"type": ["string", "object"], "additionalProperties": RULE.schema},
)


@attrs.frozen(kw_only=True, repr=False)
class HookAction:
    """One item of a hook's `actions`; either `shell` or `file` is set.

    Attributes:
        type: always `shell`.
        shell: a script.
        file: the path of a script; relative to the directory of the configuration file or, in a
            folder's configuration, to the folder.
        timeout: in milliseconds; default: the hook's.
    """

    type: Literal["shell"] = setting(choice("shell"), default="shell")
    shell: str | None = setting(NAME)
    file: str | None = setting(SCRIPT_PATH)
    timeout: float | None = setting(NUMBER)


@attrs.frozen(kw_only=True, repr=False)
class Hook:
    """`hooks.<name>`.

    Attributes:
        type: the event that runs the hook; without it, the hook never runs.
        matcher: the tool calls it runs for: a regular expression for `server__tool`, or selectors
            of tools with patterns for arguments. For compaction events, the trigger, as one word.
            Default: all.
        actions: the scripts, run one after the other.
        visible: whether the chat shows that the hook ran.
        run_on_error: whether the hook also runs after a failed tool call.
        timeout: limit of each action, in milliseconds.
        description: a note for people.
    """

    type: HookEvent | None = setting(attrs.evolve(_EVENT, read=_read_event))
    matcher: Matcher | None = setting(_MATCHER)
    actions: tuple[HookAction, ...] = setting(listing(record(HookAction)), default=())
    visible: bool = setting(FLAG, default=True)
    run_on_error: bool = setting(FLAG, default=False)
    timeout: float = setting(NUMBER, default=30_000)
    description: str = setting(TEXT, default="")


_HOOK = record(Hook)


def _read_hook(value: object, place: Place) -> object:
    if isinstance(value, list):
        place.refuse(
            "expected an object with `type`, `matcher` and `actions`, got a list, as in the "
            "settings of other programs"
        )
    return _HOOK.read(value, place)


HOOKS: Reader = each(attrs.evolve(_HOOK, read=_read_hook))
"""Reader of `hooks`, by the user's name for each."""
