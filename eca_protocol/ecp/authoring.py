"""Agents that can be evaluated, made of a function, a class or an object.

    @agent(name="desk")
    class Desk:
        def __init__(self) -> None:
            self.count = 0

        @on_step
        async def answer(self, text: str) -> Result:
            self.count += 1
            return Result(public_output=f"{self.count}: {text}")

    serve_stdio(Desk)

Each conversation gets its own instance of a class. A function has no state. An object keeps its
state until its `on_reset` hook clears it. Synchronous functions run in a thread, so that a
conversation can end while one of them runs.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import anyio.to_thread
import attrs

from eca_protocol.ecp.messages import Result

_MARK: Final = "__ecp_hook__"
_DESCRIPTION: Final = "__ecp_agent__"

_TargetT = TypeVar("_TargetT", bound=Callable[..., Any])
_HookT = TypeVar("_HookT", bound=Callable[..., Any])

Hook = Callable[..., Any]

active_threads: Final[set[threading.Thread]] = set()
"""The threads in which hooks are running."""


@attrs.frozen(kw_only=True)
class Hooks:
    """The hooks of one conversation, each synchronous or async."""

    step: Hook
    initialize: Hook | None = None
    reset: Hook | None = None


@attrs.frozen(kw_only=True)
class Agent:
    """An agent ready to be served.

    Attributes:
        name: the agent's name in reports.
        make_hooks: returns the hooks of a new conversation; called at the first
            `agent/initialize`.
        capabilities: the declared capabilities with their options.
        isolated: True if conversations share no state. Then each `agent/initialize` and each
            `agent/reset` calls `make_hooks` again, and no reset hook is needed.
    """

    name: str
    make_hooks: Callable[[], Hooks]
    capabilities: Mapping[str, Mapping[str, Any]] = attrs.field(factory=dict)
    isolated: bool = True


def agent(
    name: str | None = None, capabilities: Mapping[str, Mapping[str, Any]] | None = None
) -> Callable[[_TargetT], _TargetT]:
    """Name a class or function as an agent, and declare capabilities that its hooks do not imply.

    Raises:
        TypeError: the name is no text; or the capabilities, or the options of one, are not a
            mapping.
    """
    if not isinstance(name, str | None):
        raise TypeError(f"agent: expected a name, got {name!r}; write `@agent()` without one")
    if not isinstance(capabilities, Mapping | None):
        raise TypeError(
            f"capabilities: expected a mapping of names to options, got {capabilities!r}"
        )
    declared = dict(capabilities or {})
    for key, options in declared.items():
        if not isinstance(options, Mapping):
            raise TypeError(f"capabilities.{key}: expected a mapping of options, got {options!r}")

    def decorate(target: _TargetT) -> _TargetT:
        setattr(target, _DESCRIPTION, (name or target.__name__, declared))
        return target

    return decorate


def _hook(kind: str) -> Callable[[_HookT], _HookT]:
    def decorate(function: _HookT) -> _HookT:
        setattr(function, _MARK, kind)
        return function

    return decorate


on_step = _hook("step")
"""Decorator of the method that answers one input: `(self, text) -> Result | str | mapping`."""

on_reset = _hook("reset")
"""Decorator of the method that clears the conversation's state: `(self)`."""

on_initialize = _hook("initialize")
"""Decorator of the method that receives the evaluator's `config`: `(self, config)`."""


def as_agent(target: Any, *, name: str | None = None) -> Agent:
    """Make an `Agent` of a function, or of a class or object with a step hook or method `step`.

    Raises:
        TypeError: `target` has no step hook, or two hooks of one kind.
    """
    if isinstance(target, Agent):
        return target if name is None else attrs.evolve(target, name=name)
    if not inspect.isclass(target) and not _hook_names(target) and callable(target):
        own_name = str(getattr(target, "__name__", type(target).__name__))
        declared_name, declared = getattr(target, _DESCRIPTION, (own_name, {}))
        return Agent(
            name=name or declared_name,
            make_hooks=lambda: Hooks(step=target),
            capabilities=declared,
        )
    cls = target if inspect.isclass(target) else type(target)
    declared_name, declared = getattr(cls, _DESCRIPTION, (cls.__name__, {}))
    hooks = _hook_names(target)
    if "step" not in hooks:
        raise TypeError(f"{cls.__name__}: expected a method marked @on_step, or one called step")
    capabilities = dict(declared)
    if "reset" in hooks or inspect.isclass(target):
        capabilities.setdefault("reset", {})
    return Agent(
        name=name or declared_name,
        make_hooks=functools.partial(_make_hooks, target),
        capabilities=capabilities,
        isolated=inspect.isclass(target),
    )


def _make_hooks(target: Any) -> Hooks:
    instance = target() if inspect.isclass(target) else target
    return Hooks(**{kind: getattr(instance, name) for kind, name in _hook_names(instance).items()})


def _hook_names(target: Any) -> dict[str, str]:
    """Map each kind of hook to its method's name.

    Without a marked step, methods called `step` and `reset` count.
    """
    cls = target if inspect.isclass(target) else type(target)
    names: dict[str, str] = {}
    for name in dir(cls):
        kind = getattr(getattr(cls, name, None), _MARK, None)
        if kind is not None and names.setdefault(kind, name) != name:
            both = f"{names[kind]} and {name}"
            raise TypeError(f"{cls.__name__}: expected one method marked @on_{kind}, got {both}")
    if "step" not in names and callable(getattr(cls, "step", None)):
        names["step"] = "step"
        if callable(getattr(cls, "reset", None)):
            names.setdefault("reset", "reset")
    return names


async def run_hook(hook: Hook, *arguments: Any) -> Any:
    """Call a hook; a synchronous one runs in a thread, which a cancellation abandons."""
    if inspect.iscoroutinefunction(hook) or inspect.iscoroutinefunction(
        getattr(hook, "__call__", None)  # noqa: B004 - an object's own async __call__
    ):
        return await hook(*arguments)
    outcome = await anyio.to_thread.run_sync(
        _run_in_thread, hook, arguments, abandon_on_cancel=True
    )
    return await outcome if inspect.isawaitable(outcome) else outcome


def _run_in_thread(hook: Hook, arguments: tuple[Any, ...]) -> Any:
    active_threads.add(threading.current_thread())
    try:
        return hook(*arguments)
    finally:
        active_threads.discard(threading.current_thread())


def as_result(outcome: Any) -> Result:
    """Convert a step hook's return value to a `Result`; a text is the public output.

    Raises:
        TypeError: the value is neither a Result nor a str nor a mapping, or a field has a wrong
            type.
    """
    if isinstance(outcome, Result):
        return outcome
    if isinstance(outcome, str):
        return Result(public_output=outcome)
    if isinstance(outcome, Mapping):
        return Result(**outcome)
    raise TypeError(
        f"expected the step to return a Result, a string or a mapping, got {type(outcome).__name__}"
    )
