"""OpenTelemetry: optional traces and metrics of the work with models and tools.

It is enabled by the standard variables (`OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_TRACES_EXPORTER`, ...)
or by the same properties in the configuration (`otlp`). Names follow the GenAI semantic
conventions. The library is imported only if telemetry is enabled, in a thread, before the first
span. Message contents are recorded only if the environment variable
`OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` allows it, never by a project's configuration.
The shutdown waits briefly for unsent data.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import attrs
import trio

from eca_server.secret import Secret

if TYPE_CHECKING:
    from opentelemetry.metrics import Histogram
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span

_log = logging.getLogger("eca_server.system.telemetry")

FLUSH_SECONDS = 2.0
"""Limit of the last flush, counted from the start of the shutdown."""

SERVICE = "eca-server"

_ENDPOINT = "OTEL_EXPORTER_OTLP_{}ENDPOINT"
_EXPORTER = "OTEL_{}_EXPORTER"
_CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"

_DURATION_BUCKETS = [0.01 * 2**power for power in range(14)]
_TOKEN_BUCKETS = [4**power for power in range(14)]


class Operation:
    """An operation that is recorded as a span; this base class records nothing.

    Attributes:
        records_content: whether message contents are recorded, too.
    """

    is_recorded = False
    records_content = False

    def set(self, **attributes: Any) -> None:
        """Set attributes of the span; `__` in a name is a dot, None is left out."""

    def count_tokens(self, kind: str, number: int | None) -> None:
        """Record a number of tokens; `kind` is input or output."""

    def fail(self, kind: str) -> None:
        """Mark the operation as failed."""


_SILENT = Operation()
_NOT_RECORDED = nullcontext(_SILENT)


@attrs.define(eq=False, slots=False)
class _RecordedOperation(Operation):
    is_recorded = True

    _span: Span
    _tokens: Histogram
    _labels: Mapping[str, Any]
    records_content: bool
    error: str | None = None

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
    """The imported library, with providers of its own, not those of the process."""

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
        """Record a span for the block; for a model, record its duration, too."""
        from opentelemetry.trace import SpanKind  # noqa: PLC0415 - see the module's docstring

        labels = {"gen_ai.operation.name": name, **attributes}
        is_model = name == "chat"
        started = time.perf_counter()
        with self._tracer.start_as_current_span(
            f"{name} {subject}",
            kind=SpanKind.CLIENT if is_model else SpanKind.INTERNAL,
            attributes=labels,
            record_exception=False,  # an exception's message may quote message contents
            set_status_on_exception=False,
        ) as span:
            recorded = _RecordedOperation(span, self._tokens, labels, self._wants_content)
            try:
                yield recorded
            except Exception as error:
                if recorded.error is None:
                    recorded.fail(str(getattr(error, "kind", type(error).__qualname__)))
                raise
            finally:
                if is_model:
                    failed = {} if recorded.error is None else {"error.type": recorded.error}
                    self._duration.record(time.perf_counter() - started, {**labels, **failed})

    def close(self) -> None:
        self._traces.shutdown()
        self._metrics.shutdown()


class _Telemetry:
    """The telemetry of one connection, which imports the library when it is needed.

    Attributes:
        is_enabled: whether the variables ask for it; read for each operation, so computed once.
        deadline: the end of the last flush, on trio's clock.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._library: _Library | None = None
        self._is_loaded = False
        self._loading = trio.Lock()
        self.deadline = math.inf
        self.configure({})

    def configure(self, properties: Mapping[str, str]) -> None:
        """Set the configuration's properties, which replace variables of the same name."""
        variables = {name.upper().replace(".", "_"): text for name, text in properties.items()}
        variables.pop(_CONTENT, None)
        self._variables = {**self._environ, **variables}
        self.is_enabled = _is_enabled(self._variables)

    @asynccontextmanager
    async def operation(
        self, name: str, subject: str, attributes: Mapping[str, Any]
    ) -> AsyncIterator[Operation]:
        library = await self._loaded_library()
        if library is None:
            yield _SILENT
            return
        labels = {
            each.replace("__", "."): text for each, text in attributes.items() if text is not None
        }
        with library.span(name, subject, labels) as span:
            yield span

    async def _loaded_library(self) -> _Library | None:
        if not self._is_loaded:
            async with self._loading:
                if not self._is_loaded:
                    self._library = await trio.to_thread.run_sync(self._load)
                    self._is_loaded = True
        return self._library

    def _load(self) -> _Library | None:
        try:
            return _Library(self._variables)
        except ImportError as error:
            _log.warning(
                "OpenTelemetry is enabled but not installed (%s): "
                "run pip install 'eca-protocol[otel]'",
                error,
            )
        except Exception as error:  # noqa: BLE001 - a wrong variable must not break a turn
            _log.warning("OpenTelemetry does not start: %s: %s", type(error).__name__, error)
        return None

    async def close(self) -> None:
        """Send unsent data, within the deadline."""
        if self._library is not None:
            deadline = min(self.deadline, trio.current_time() + FLUSH_SECONDS)
            with trio.CancelScope(deadline=deadline, shield=True):
                await trio.to_thread.run_sync(self._library.close, abandon_on_cancel=True)


_current: ContextVar[_Telemetry | None] = ContextVar("telemetry", default=None)


@asynccontextmanager
async def record_telemetry(environ: Mapping[str, str]) -> AsyncIterator[None]:
    """Record telemetry of the block and its tasks, as the environment configures."""
    telemetry = _Telemetry(environ)
    token = _current.set(telemetry)
    try:
        yield
    finally:
        await telemetry.close()
        _current.reset(token)


def configure(properties: Mapping[str, Secret]) -> None:
    """Set the configuration's properties (`otel.exporter.otlp.endpoint`) before the first span."""
    telemetry = _current.get()
    if telemetry is not None:
        telemetry.configure({name: text.reveal() for name, text in properties.items()})


def begin_flush() -> None:
    """Start the limit of the last flush when the shutdown begins."""
    telemetry = _current.get()
    if telemetry is not None:
        telemetry.deadline = trio.current_time() + FLUSH_SECONDS


def is_enabled() -> bool:
    """Return whether telemetry is enabled for this connection."""
    telemetry = _current.get()
    return telemetry is not None and telemetry.is_enabled


def operation(name: str, subject: str, **attributes: Any) -> AbstractAsyncContextManager[Operation]:
    """Record the block as a span; an exception sets its `error.type`.

    Args:
        name: the operation, in the terms of the conventions: `chat`, `execute_tool`,
            `invoke_agent`.
        subject: the rest of the span's name: the model, the tool, the agent.
        attributes: as in `Operation.set`; they also label metrics.
    """
    telemetry = _current.get()
    if telemetry is None or not telemetry.is_enabled:
        return _NOT_RECORDED
    return telemetry.operation(name, subject, attributes)


def _is_enabled(variables: Mapping[str, str]) -> bool:
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
    """Return the arguments of an exporter, or None; it reads further variables itself."""
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
