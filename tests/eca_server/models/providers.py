"""The models of some providers, without a configuration file."""

from collections.abc import Mapping, Sequence
from typing import Any

from eca_protocol.http import HTTPClient
from eca_server.config.settings import Config, Provider
from eca_server.models.backend import ModelInfo
from eca_server.models.listings import Endpoint, Listing
from eca_server.models.models import Models


def models_of(
    providers: Mapping[str, Provider],
    *,
    http: HTTPClient | None = None,
    listed: Mapping[str, Sequence[str | ModelInfo]] | None = None,
    environ: Mapping[str, str] | None = None,
    **config: Any,
) -> Models:
    """Return the models of these providers; `listed` has the models that some of them list."""

    def listing(endpoint: Endpoint) -> Listing | None:
        names = (listed or {}).get(endpoint.provider)
        return Listing(models=tuple(map(_named, names)), at=0) if names else None

    return Models(
        Config(providers=providers, **config),
        environ=environ or {},
        http=http or HTTPClient(),
        listing=listing,
    )


def _named(name: str | ModelInfo) -> ModelInfo:
    return ModelInfo(name=name) if isinstance(name, str) else name
