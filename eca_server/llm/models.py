"""The models a connection can talk to: from the configuration and the keys, by `provider/model`.

Nothing is asked over the network for this. A model that cannot be used is not offered; asked for
all the same, it is answered with what is missing and where to set it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

import attrs

from eca_protocol.errors import ECAError
from eca_protocol.http import HTTPClient
from eca_server.config import Config, Problem
from eca_server.credentials import Credential, Location, find_key, find_url
from eca_server.llm.backend import Backend, BackendError, Capabilities, Request
from eca_server.llm.errors import readable
from eca_server.llm.events import Event
from eca_server.llm.history import Origin
from eca_server.llm.providers import Endpoint, backend_for, known_provider
from eca_server.llm.retry import RetryPolicy, Wait, stream_with_retries
from eca_server.llm.simulator import MODELS, PROVIDER

__all__ = ["Model", "Models", "ProviderFacts", "UnusableModel"]
