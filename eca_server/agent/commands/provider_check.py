"""`/doctor online`: checks the URL and the key of each provider by a request.

Rule: send the cheapest request that proves URL and key. This is the list of models, which is free;
without such a list, or where it needs no key, it is an answer of a few tokens.
"""

from __future__ import annotations

import attrs
import trio

from eca_server.agent.commands.command import mask_keys
from eca_server.models.backend import BackendError, Request
from eca_server.models.errors import explanation_of
from eca_server.models.history import Message, TextPart
from eca_server.models.models import Models
from eca_server.models.provider import Provider
from eca_server.secret import mask_url

SECONDS = 20.0
"""Time limit for the answer of each provider; all are asked at the same time."""

_REQUEST = Request(
    messages=[Message(role="user", parts=(TextPart("Say hi."),))],
    max_output_tokens=16,  # the smallest value that every API accepts
)
_NO_LIST = (404, 405, 501)


@attrs.frozen(kw_only=True)
class CheckResult:
    """The result of checking one provider.

    Attributes:
        works: true if URL and key are valid.
        message: the proof, or the error and what to do.
    """

    provider: str
    works: bool
    message: str


async def check_providers(models: Models) -> list[CheckResult]:
    """Check every provider that is configured or has a key, at the same time."""
    providers = [provider for provider in models.providers if provider.location is not None]
    results: dict[str, CheckResult] = {}

    async def ask(provider: Provider) -> None:
        results[provider.name] = await _ask(models, provider)

    async with trio.open_nursery() as nursery:
        for provider in providers:
            nursery.start_soon(ask, provider)
    return [results[provider.name] for provider in providers]


async def _ask(models: Models, provider: Provider) -> CheckResult:
    started = trio.current_time()
    works = False
    try:
        with trio.fail_after(SECONDS):
            message = await _proof(models, provider)
        works = True
        message = f"works: {message} after {(trio.current_time() - started) * 1000:.0f} ms"
    except BackendError as error:
        message = f"{explanation_of(error)}{_where_to_look(provider, error)}"
    except trio.TooSlowError:
        message = f"no answer within {SECONDS:.0f} s. Check the URL and the network."
    return CheckResult(
        provider=provider.name, works=works, message=mask_keys(message, models.secrets)
    )


async def _proof(models: Models, provider: Provider) -> str:
    """Send requests until they prove URL and key, and return the proof as a text.

    Raises:
        BackendError: the check failed.
    """
    known = provider.known_server
    listed = None
    lists = next(
        (make for endpoint, make in models.endpoints.items() if endpoint.provider == provider.name),
        None,
    )
    if lists is not None:
        try:
            count = len(await lists().models())
            listed = f"lists {count} model{'' if count == 1 else 's'}"
        except BackendError as error:
            if error.status not in _NO_LIST and error.kind != "protocol":
                raise
            if _first_model(models, provider) is None:
                raise
    if listed is not None and not (known and known.list_is_public):
        return listed
    name = _first_model(models, provider)
    if name is not None:
        return await _ask_model(models, name)
    if listed is not None:
        return f"{listed}, but this does not prove the key, and no model is configured to ask"
    model = next(iter(provider.models), "any")
    models.find(f"{provider.name}/{model}")  # raises if something is missing
    raise BackendError(
        "configuration", f"no model is configured: set providers.{provider.name}.models"
    )


async def _ask_model(models: Models, name: str) -> str:
    backend = models.find(name).backend
    try:
        async with backend.stream(_REQUEST) as events:
            async for _ in events:
                pass
    except BackendError as error:
        if error.kind != "empty_response":  # a few tokens may be too few for a word
            raise
    return f"{name} answered"


def _first_model(models: Models, provider: Provider) -> str | None:
    offered = (name for name in models.names if name.startswith(f"{provider.name}/"))
    return next(offered, None)


def _where_to_look(provider: Provider, error: BackendError) -> str:
    """Return a sentence on the setting that may have caused an error, or ""."""
    location, credential = provider.location, provider.credential
    if error.kind in ("auth", "permission", "quota") and credential and credential.source:
        return f" The key was found in {credential.source}."
    kinds = ("configuration", "network", "timeout", "protocol")
    at_url = error.kind in kinds or error.status in _NO_LIST
    if at_url and location is not None and location.url is not None:
        source = location.source or "its built-in default"
        return f" The URL is {mask_url(location.url)}, from {source}."
    return ""
