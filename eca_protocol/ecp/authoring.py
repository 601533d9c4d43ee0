"""What can be evaluated: an agent, made of a function, a class or an object.

    @agent(name="desk")
    class Desk:
        def __init__(self) -> None:
            self.seen = 0

        @on_step
        async def answer(self, text: str) -> Result:
            self.seen += 1
            return Result(public_output=f"{self.seen}: {text}")

    serve_stdio(Desk)

A class gives each conversation an instance of its own. A function has no state; an object keeps
its own, which `on_reset` is to clear. Functions that are not async run in a thread, so that a
conversation can end while one of them computes.
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

__all__ = ["Agent", "agent", "as_agent", "on_initialize", "on_reset", "on_step"]

_MARK: Final = "__ecp_hook__"
_DESCRIPTION: Final = "__ecp_agent__"

_ClassT = TypeVar("_ClassT", bound=type)
_HookT = TypeVar("_HookT", bound=Callable[..., Any])

Hook = Callable[..., Any]

computing: Final[set[threading.Thread]] = set()
"""The threads in which hooks run at the moment."""


@attrs.frozen(kw_only=True)
class Hooks:
    """What one conversation calls. Each may be async or not."""

    step: Hook
    initialize: Hook | None = None
    reset: Hook | None = None


@attrs.frozen(kw_only=True)
class Agent:
    """An agent as it is served.

    Attributes:
        name: what it is called in reports.
        begin: the hooks of a new conversation; called at the first `agent/initialize`.
        capabilities: what it declares, each with its options.
        renews: whether `begin` gives a conversation that knows nothing of those before it, so
            that it is called again for each `agent/initialize` and needs no reset hook.
    """

    name: str
    begin: Callable[[], Hooks]
    capabilities: Mapping[str, Mapping[str, Any]] = attrs.field(factory=dict)
    renews: bool = True


def agent(
    name: str | None = None, capabilities: Mapping[str, Mapping[str, Any]] | None = None
) -> Callable[[_ClassT], _ClassT]:
    """Name a class as an agent, and declare its capabilities beyond those its hooks show.

    Raises:
        TypeError: a capability's options are no mapping.
    """
    declared = dict(capabilities or {})
    for key, options in declared.items():
        if not isinstance(options, Mapping):
            raise TypeError(f"capabilities.{key}: expected a mapping of options, got {options!r}")

    def decorate(cls: _ClassT) -> _ClassT:
        setattr(cls, _DESCRIPTION, (name or cls.__name__, declared))
        return cls

    return decorate


def _hook(which: str) -> Callable[[_HookT], _HookT]:
    def decorate(function: _HookT) -> _HookT:
        setattr(function, _MARK, which)
        return function

    return decorate


on_step = _hook("step")
"""Decorates the method that answers one input: `(self, text) -> Result | str | mapping`."""

on_reset = _hook("reset")
"""Decorates the method that forgets the conversation: `(self)`."""

on_initialize = _hook("initialize")
"""Decorates the method that hears the evaluator's `config`: `(self, config)`."""


def as_agent(target: Any, *, name: str | None = None) -> Agent:
    """An `Agent` of a function, of a class with a step hook (or a method `step`), or of an object.

    Raises:
        TypeError: it has nothing that could answer a step.
    """
    if isinstance(target, Agent):
        return target if name is None else attrs.evolve(target, name=name)
    if not inspect.isclass(target) and not _found(target) and callable(target):
        called = name or str(getattr(target, "__name__", type(target).__name__))
        return Agent(name=called, begin=lambda: Hooks(step=target))
    cls = target if inspect.isclass(target) else type(target)
    described, declared = getattr(cls, _DESCRIPTION, (cls.__name__, {}))
    hooks = _found(target)
    if "step" not in hooks:
        raise TypeError(f"{cls.__name__}: expected a method marked @on_step, or one called step")
    capabilities = dict(declared)
    if "reset" in hooks or inspect.isclass(target):
        capabilities.setdefault("reset", {})
    return Agent(
        name=name or described,
        begin=functools.partial(_begin, target),
        capabilities=capabilities,
        renews=inspect.isclass(target),
    )


def _begin(target: Any) -> Hooks:
    instance = target() if inspect.isclass(target) else target
    return Hooks(**{which: getattr(instance, name) for which, name in _found(instance).items()})


def _found(target: Any) -> dict[str, str]:
    """The hooks of a class or an object: the marked methods, else a method called `step`."""
    cls = target if inspect.isclass(target) else type(target)
    found: dict[str, str] = {}
    for name in dir(cls):
        which = getattr(getattr(cls, name, None), _MARK, None)
        if which is not None:
            found[which] = name
    if "step" not in found and callable(getattr(cls, "step", None)):
        found["step"] = "step"
        if callable(getattr(cls, "reset", None)):
            found.setdefault("reset", "reset")
    return found


async def run_hook(hook: Hook, *arguments: Any) -> Any:
    """Call a hook: async ones here, others in a thread that a cancellation leaves behind."""
    if inspect.iscoroutinefunction(hook) or inspect.iscoroutinefunction(
        getattr(hook, "__call__", None)  # noqa: B004 - an object's own async __call__
    ):
        return await hook(*arguments)
    outcome = await anyio.to_thread.run_sync(_compute, hook, arguments, abandon_on_cancel=True)
    return await outcome if inspect.isawaitable(outcome) else outcome


def _compute(hook: Hook, arguments: tuple[Any, ...]) -> Any:
    computing.add(threading.current_thread())
    try:
        return hook(*arguments)
    finally:
        computing.discard(threading.current_thread())


def as_result(outcome: Any) -> Result:
    """What a step hook gave, as a `Result`: a text is the public output.

    Raises:
        TypeError: it is none of Result, str and mapping; or a field is of the wrong type.
    """
    if isinstance(outcome, Result):
        return outcome
    if isinstance(outcome, str):
        return Result(public_output=outcome)
    if isinstance(outcome, Mapping):
        return Result(**outcome)
    raise TypeError(
        f"the step gave {type(outcome).__name__}: expected a Result, a string or a mapping"
    )
