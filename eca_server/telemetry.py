"""OpenTelemetry: what the server tells of its work with models and tools, if it is asked for.

It is asked for by the standard variables (`OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_TRACES_EXPORTER`,
...) or by the same as properties in the configuration (`otlp`). The names are those of the GenAI
semantic conventions. The rules it keeps: where nobody asked, nothing of the library is imported;
where somebody did, that is done in a thread, before the first thing that is told. What was said is
told only if `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` says so in the environment, since
a project's own configuration must not decide that. The end waits for what is unsent, a little.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import trio

from eca_server.secret import Secret

if TYPE_CHECKING:
    from opentelemetry.metrics import Histogram
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span

__all__ = ["FLUSH_SECONDS", "Operation", "configure", "ending", "operation", "telling"]

_log = logging.getLogger("eca_server.telemetry")

FLUSH_SECONDS = 2.0
"""What is unsent is given this long, from when the connection begins to end."""

SERVICE = "eca-server"

_ENDPOINT = "OTEL_EXPORTER_OTLP_{}ENDPOINT"
_EXPORTER = "OTEL_{}_EXPORTER"
_CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"

_DURATION_BUCKETS = [0.01 * 2**power for power in range(14)]
_TOKEN_BUCKETS = [4**power for power in range(14)]


class Operation:
    """Something that is told as a span; this one of nobody who listens.

    Attributes:
        wanted: somebody listens.
        wants_content: what was said is told, too.
    """

    wanted = False
    wants_content = False

    def set(self, **attributes: Any) -> None:
        """Tell more; `__` in a name is a dot, what is None is left out."""

    def count_tokens(self, kind: str, number: int | None) -> None:
        """Add to the metric of tokens; `kind` is input or output."""

    def fail(self, kind: str) -> None:
        """It did not end well."""


_SILENT = Operation()


class _Told(Operation):
    wanted = True

    def __init__(
        self, span: Span, tokens: Histogram, labels: Mapping[str, Any], wants_content: bool
    ) -> None:
        self._span = span
        self._tokens = tokens
        self._labels = labels
        self.error: str | None = None
        self.wants_content = wants_content

    def set(self, **attributes: Any) -> None:
        for name, value in attributes.items():
            if value is not None:
                self._span.set_attribute(name.replace("__", "."), value)

    def count_tokens(self, kind: str, number: int | None) -> None:
        if number:
            self._tokens.record(number, {**self._labels, "gen_ai.token.type": kind})

    def fail(self, kind: str) -> None:
        from opentelemetry.trace import StatusCode  # noqa: PLC0415 - see the module's docstring

        self.error = kind
        self._span.set_attribute("error.type", kind)
        self._span.set_status(StatusCode.ERROR)


class _Library:
    """The library, loaded; its providers are our own, not the process's."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - see above

        name = variables.get("OTEL_SERVICE_NAME") or SERVICE
        resource = Resource.create({"service.name": name})
        self._traces = _tracer_provider(variables, resource)
        self._metrics = _meter_provider(variables, resource)
        self._tracer = self._traces.get_tracer(SERVICE)
        meter = self._metrics.get_meter(SERVICE)
        self._duration = meter.create_histogram(
            "gen_ai.client.operation.duration",
            unit="s",
            description="GenAI operation duration.",
            explicit_bucket_boundaries_advisory=_DURATION_BUCKETS,
        )
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage",
            unit="{token}",
            description="Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=_TOKEN_BUCKETS,
        )
        self._wants_content = variables.get(_CONTENT, "").lower() in ("true", "1", "span_only")

    @contextmanager
    def span(self, name: str, subject: str, attributes: Mapping[str, Any]) -> Iterator[Operation]:
        """A span, the parent of those that begin in the block; of a model with its duration."""
        from opentelemetry.trace import SpanKind  # noqa: PLC0415 - see the module's docstring

        labels = {"gen_ai.operation.name": name, **attributes}
        is_model = name == "chat"
        began = time.perf_counter()
        with self._tracer.start_as_current_span(
            f"{name} {subject}",
            kind=SpanKind.CLIENT if is_model else SpanKind.INTERNAL,
            attributes=labels,
            record_exception=False,  # an exception's words may quote what was said
            set_status_on_exception=False,
        ) as span:
            told = _Told(span, self._tokens, labels, self._wants_content)
            try:
                yield told
            except Exception as error:
                if told.error is None:
                    told.fail(str(getattr(error, "kind", type(error).__qualname__)))
                raise
            finally:
                if is_model:
                    failed = {} if told.error is None else {"error.type": told.error}
                    self._duration.record(time.perf_counter() - began, {**labels, **failed})

    def close(self) -> None:
        """Send what is unsent."""
        self._traces.shutdown()
        self._metrics.shutdown()


class _Telling:
    """Whether somebody listens to one connection, and the library once it is needed."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.environ = environ
        self.properties: Mapping[str, str] = {}
        self.deadline = math.inf
        self._library: _Library | None = None
        self._looked = False
        self._loading = trio.Lock()

    @property
    def variables(self) -> Mapping[str, str]:
        """The properties as variables, which come before those of the environment."""
        told = {name.upper().replace(".", "_"): text for name, text in self.properties.items()}
        told.pop(_CONTENT, None)
        return {**self.environ, **told}

    async def library(self) -> _Library | None:
        """The library; None: nobody asked for it, or it is not there."""
        if not self._looked and _is_asked_for(self.variables):
            async with self._loading:
                if not self._looked:
                    self._library = await trio.to_thread.run_sync(self._load)
                    self._looked = True
        return self._library

    def _load(self) -> _Library | None:
        try:
            return _Library(self.variables)
        except ImportError as fault:
            _log.warning(
                "OpenTelemetry is asked for but not installed (%s): "
                "install eca-protocol with the extra `otel`",
                fault,
            )
        except Exception as fault:  # noqa: BLE001 - a wrong variable must not cost an answer
            _log.warning("OpenTelemetry does not start: %s: %s", type(fault).__name__, fault)
        return None

    async def close(self) -> None:
        """Send what is unsent, within bounds."""
        if self._library is not None:
            deadline = min(self.deadline, trio.current_time() + FLUSH_SECONDS)
            with trio.CancelScope(deadline=deadline, shield=True):
                await trio.to_thread.run_sync(self._library.close, abandon_on_cancel=True)


_telling: ContextVar[_Telling | None] = ContextVar("telling", default=None)


@asynccontextmanager
async def telling(environ: Mapping[str, str]) -> AsyncIterator[None]:
    """What runs in the block, its tasks included, is told as the environment asks for."""
    ours = _Telling(environ)
    token = _telling.set(ours)
    try:
        yield
    finally:
        await ours.close()
        _telling.reset(token)


def configure(properties: Mapping[str, Secret]) -> None:
    """Take the configuration's properties (`otel.exporter.otlp.endpoint`), until they are used."""
    ours = _telling.get()
    if ours is not None:
        ours.properties = {name: text.reveal() for name, text in properties.items()}


def ending() -> None:
    """The connection begins to end: what that takes is taken from the time for what is unsent."""
    ours = _telling.get()
    if ours is not None:
        ours.deadline = trio.current_time() + FLUSH_SECONDS


@asynccontextmanager
async def operation(name: str, subject: str, **attributes: Any) -> AsyncIterator[Operation]:
    """Tell of what happens in the block; an error that leaves it is its `error.type`.

    Args:
        name: of the operation, in the conventions' words: `chat`, `execute_tool`, `invoke_agent`.
        subject: of the span's name: the model, the tool, the agent.
        attributes: as of `Operation.set`; those of a metric, too.
    """
    ours = _telling.get()
    library = None if ours is None else await ours.library()
    if library is None:
        yield _SILENT
        return
    told = {each.replace("__", "."): text for each, text in attributes.items() if text is not None}
    with library.span(name, subject, told) as span:
        yield span


def _is_asked_for(variables: Mapping[str, str]) -> bool:
    if variables.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    return any(_address(variables, kind) or _exports(variables, kind) for kind in _KINDS)


_KINDS = ("TRACES", "METRICS")


def _exports(variables: Mapping[str, str], kind: str) -> bool:
    return variables.get(_EXPORTER.format(kind), "") == "otlp"


def _address(variables: Mapping[str, str], kind: str) -> str | None:
    own = variables.get(_ENDPOINT.format(f"{kind}_"))
    base = variables.get(_ENDPOINT.format(""))
    return own or (f"{base.rstrip('/')}/v1/{kind.lower()}" if base else None)


def _options(variables: Mapping[str, str], kind: str) -> dict[str, Any] | None:
    """What an exporter is made with; None: there is to be none. It reads more variables itself."""
    chosen = variables.get(_EXPORTER.format(kind), "otlp")
    if chosen != "otlp" or not (_address(variables, kind) or _exports(variables, kind)):
        return None
    from opentelemetry.util.re import parse_env_headers  # noqa: PLC0415 - see the docstring

    both = "OTEL_EXPORTER_OTLP_HEADERS"
    headers = variables.get(f"OTEL_EXPORTER_OTLP_{kind}_HEADERS") or variables.get(both) or ""
    return {
        "endpoint": _address(variables, kind),
        "headers": parse_env_headers(headers, liberal=True),
    }


def _tracer_provider(variables: Mapping[str, str], resource: Any) -> TracerProvider:
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415 - see the docstring

    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    options = _options(variables, "TRACES")
    if options is not None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
            OTLPSpanExporter,
        )
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(**options)))
    return provider


def _meter_provider(variables: Mapping[str, str], resource: Any) -> MeterProvider:
    from opentelemetry.sdk.metrics import MeterProvider  # noqa: PLC0415 - see the docstring

    readers = []
    options = _options(variables, "METRICS")
    if options is not None:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import (  # noqa: PLC0415
            OTLPMetricExporter,
        )
        from opentelemetry.sdk.metrics.export import (  # noqa: PLC0415
            PeriodicExportingMetricReader,
        )

        readers = [PeriodicExportingMetricReader(OTLPMetricExporter(**options))]
    return MeterProvider(metric_readers=readers, resource=resource, shutdown_on_exit=False)
