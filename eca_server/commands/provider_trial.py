"""`/doctor online`: asks each provider, and says what is wrong in words that a person can act on.

The rule it keeps: the cheapest request that proves url and key. That is the list of models, which
is free; where there is none, or anybody may see it, it is an answer of a few tokens.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs
import trio

from eca_server.commands.command import without_keys
from eca_server.llm.backend import Backend, BackendError, Request
from eca_server.llm.configured import ProviderFacts
from eca_server.llm.errors import explanation_of
from eca_server.llm.history import Message, TextPart
from eca_server.llm.known_providers import KNOWN_PROVIDERS, server_of
from eca_server.llm.models import Models
from eca_server.secret import mask_url

__all__ = ["SECONDS", "Verdict", "try_providers"]

SECONDS = 20.0
"""What one provider is given for its answer; they are asked at the same time."""

_HI = Request(
    messages=[Message(role="user", parts=(TextPart("Say hi."),))],
    max_output_tokens=16,  # the least that all of them take
)
_NO_LIST = (404, 405, 501)


@attrs.frozen(kw_only=True)
class Verdict:
    """What came of asking one provider.

    Attributes:
        provider: its name.
        works: url and key are right.
        words: how that was seen, or what is wrong and what to do.
    """

    provider: str
    works: bool
    words: str


async def try_providers(models: Models) -> list[Verdict]:
    """Ask every provider that is configured or has a key, at the same time; in their order."""
    asked = [facts for facts in models.providers if facts.location is not None and facts.is_there]
    found: dict[str, Verdict] = {}

    async def ask(facts: ProviderFacts) -> None:
        found[facts.name] = await _ask(models, facts)

    async with trio.open_nursery() as nursery:
        for facts in asked:
            nursery.start_soon(ask, facts)
    return [found[facts.name] for facts in asked]


async def _ask(models: Models, facts: ProviderFacts) -> Verdict:
    began = trio.current_time()
    works = False
    try:
        with trio.fail_after(SECONDS):
            words = await _proof(models, facts)
        works = True
        words = f"works: {words} after {(trio.current_time() - began) * 1000:.0f} ms"
    except BackendError as error:
        words = f"{explanation_of(error)}{_where_to_look(facts, error)}"
    except trio.TooSlowError:
        words = f"no answer came within {SECONDS:.0f} s. Check the url and the network."
    return Verdict(provider=facts.name, works=works, words=without_keys(words, models.secrets))


async def _proof(models: Models, facts: ProviderFacts) -> str:
    """Ask a provider until it is sure that url and key are right; how that is known.

    Raises:
        BackendError: something is wrong.
    """
    url = None if facts.location is None else facts.location.url
    known = KNOWN_PROVIDERS.get(server_of(facts.name, url))
    listed = None
    lists = _lists(models, facts.name)
    if lists is not None:
        try:
            count = len(await lists().models())
            listed = f"it lists {count} model{'' if count == 1 else 's'}"
        except BackendError as error:
            if error.status not in _NO_LIST and error.kind != "protocol":
                raise
            if _first_model(models, facts) is None:
                raise
    if listed is not None and not (known and known.list_is_public):
        return listed
    name = _first_model(models, facts)
    if name is not None:
        return await _say_hi(models, name)
    if listed is not None:
        return f"{listed}, but that proves no key, and no model is configured to be asked"
    models.find(f"{facts.name}/{next(iter(facts.models), 'any')}")  # says what is missing
    raise BackendError(
        "configuration", f"it has no model to ask: set providers.{facts.name}.models"
    )


async def _say_hi(models: Models, name: str) -> str:
    backend = models.find(name).backend
    try:
        async with backend.stream(_HI) as events:
            async for _ in events:
                pass
    except BackendError as error:
        if error.kind != "empty_response":  # a few tokens may not be enough for a word
            raise
    return f"{name} answered"


def _lists(models: Models, provider: str) -> Callable[[], Backend] | None:
    return next(
        (make for endpoint, make in models.endpoints.items() if endpoint.provider == provider), None
    )


def _first_model(models: Models, facts: ProviderFacts) -> str | None:
    offered = (name for name in models.names if name.startswith(f"{facts.name}/"))
    return next(offered, None)


def _where_to_look(facts: ProviderFacts, error: BackendError) -> str:
    """What of the configuration such an error is about."""
    location, credential = facts.location, facts.credential
    if error.kind in ("auth", "permission", "quota") and credential and credential.source:
        return f" The key was found in {credential.source}."
    at_url = error.kind in ("network", "timeout", "protocol") or error.status in _NO_LIST
    if at_url and location is not None and location.url is not None:
        source = location.source or "what is known of it"
        return f" The url is {mask_url(location.url)}, from {source}."
    return ""
