"""The configured secrets that the server alone uses, besides the keys of providers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import unquote

from eca_server.config.mcp_settings import secret_arguments, secret_parts
from eca_server.config.settings import Config
from eca_server.secret import Secret, secrets_in


def own_secrets(config: Config) -> Iterator[Secret]:
    """Yield the secrets that no child process needs, whatever variable holds them.

    They are the client secrets of logins at MCP servers, the parts of configured addresses that
    hold a key (of the catalog and OpenTelemetry), and the keys in headers for OpenTelemetry.
    """
    for server in config.mcp_servers.values():
        if server.client_secret is not None:
            yield server.client_secret
    yield from secrets_in_address(config.catalog.url)
    for name, value in config.otlp.items():
        if name.lower().endswith("headers"):
            yield from secrets_in(_headers(value))
        elif name.lower().endswith("endpoint"):
            yield from secrets_in_address(value.reveal())


def secrets_in_address(url: str) -> Iterator[Secret]:
    """Yield the parts of an address that hold a key."""
    return (Secret(part) for part in secret_parts(url) if part)


def secrets_in_command(command: Sequence[str]) -> Iterator[Secret]:
    """Yield the values of a command's options with telling names."""
    return (Secret(value) for value in secret_arguments(command) if value)


def _headers(text: Secret) -> Mapping[str, str]:
    """Return headers written as in `OTEL_EXPORTER_OTLP_HEADERS`."""
    pairs = (pair.partition("=") for pair in text.reveal().split(","))
    return {name.strip(): unquote(value) for name, _, value in pairs}
