"""OpenTelemetry: off by default, with the conventions' names, without message contents."""

import gzip
import json
import re
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes

from eca_server.secret import Secret
from eca_server.system import telemetry
from tests import promises
from tests.eca_server import fork_server
from tests.eca_server.processes import run_to_end, wait_until
from tests.eca_server.stranger import environment

SECRET_WORDS = "planted words of a prompt"
CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


class Collector:
    """A fake OpenTelemetry collector."""

    def __init__(self) -> None:
        self.url = ""
        self.headers: list[str | None] = []
        self.bodies: list[tuple[str, bytes]] = []

    def sent(self) -> bytes:
        """Return all that came."""
        return b"".join(body for _, body in self.bodies)

    def spans(self) -> dict[str, dict[str, Any]]:
        """Return the attributes of each span by its name, with its ids."""
        requests = map(ExportTraceServiceRequest.FromString, self._bodies_of("/v1/traces"))
        resources = (each for request in requests for each in request.resource_spans)
        spans = (span for each in resources for scope in each.scope_spans for span in scope.spans)
        return {
            span.name: {
                **_attributes(span.attributes),
                "id": span.span_id,
                "parent": span.parent_span_id,
                "status": span.status.code,
            }
            for span in spans
        }

    def metrics(self) -> dict[str, list[dict[str, Any]]]:
        """Return the attributes of each point of each metric, with its sum."""
        requests = map(ExportMetricsServiceRequest.FromString, self._bodies_of("/v1/metrics"))
        resources = (each for request in requests for each in request.resource_metrics)
        scopes = (scope for each in resources for scope in each.scope_metrics)
        return {
            metric.name: [
                {**_attributes(point.attributes), "sum": point.sum}
                for point in metric.histogram.data_points
            ]
            for scope in scopes
            for metric in scope.metrics
        }

    def _bodies_of(self, path: str) -> list[bytes]:
        return [body for each, body in self.bodies if each == path]


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value"), None) for pair in pairs}


@contextmanager
def collecting(*, hangs: bool = False) -> Iterator[Collector]:
    collector = Collector()
    release = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            collector.headers.append(self.headers.get("x-who"))
            collector.bodies.append((self.path, self._plain(body)))
            if hangs:
                release.wait(30)
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def _plain(self, body: bytes) -> bytes:
            is_packed = self.headers.get("content-encoding") == "gzip"
            return gzip.decompress(body) if is_packed else body

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    collector.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield collector
    finally:
        release.set()
        server.shutdown()
        thread.join()
        server.server_close()


def chat(tmp_path: Path, script: str, **variables: str) -> None:
    command = (*fork_server.ECA, "chat", "--model", "simulator/script", script)
    fork_server.run(command, cwd=tmp_path, env=environment(tmp_path) | variables)


def hook(event: str, output: dict[str, Any]) -> dict[str, Any]:
    shell = {"type": "shell", "shell": f"echo '{json.dumps(output)}'"}
    return {"type": event, "actions": [shell]}


SCRIPT = f'think {SECRET_WORDS}\ncall eca_directory_tree {{"path": "."}}\nsay done\n'


def test_a_turn_is_one_trace_of_the_agent_its_models_and_its_tools(tmp_path):
    with collecting() as collector:
        variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}
        chat(tmp_path, SCRIPT, OTEL_EXPORTER_OTLP_HEADERS="x-who=me", **variables)
        assert set(collector.headers) == {"me"}
        spans, metrics = collector.spans(), collector.metrics()
        agent, model = spans["invoke_agent eca"], spans["chat script"]
        tool = spans["execute_tool eca_directory_tree"]
        assert agent["parent"] == b""
        assert {model["parent"], tool["parent"]} == {agent["id"]}
        assert model["gen_ai.operation.name"] == "chat"
        assert model["gen_ai.provider.name"] == "simulator"
        assert model["gen_ai.request.model"] == "script"
        assert model["gen_ai.conversation.id"] == agent["gen_ai.conversation.id"]
        assert (tool["gen_ai.tool.type"], tool["status"]) == ("function", 0)
        (point,) = metrics["gen_ai.client.operation.duration"]
        assert point["gen_ai.request.model"] == "script"
        tokens = {each["gen_ai.token.type"] for each in metrics["gen_ai.client.token.usage"]}
        assert tokens == {"input", "output"}

        chat(tmp_path, f"fail quota {SECRET_WORDS}", **variables)
        model = collector.spans()["chat script"]
        assert (model["error.type"], model["status"]) == ("quota", 2)
        (point,) = collector.metrics()["gen_ai.client.operation.duration"]
        assert point["error.type"] == "quota"
        assert SECRET_WORDS.encode() not in collector.sent()


@pytest.mark.long
def test_messages_are_traced_only_if_the_environment_asks_for_it(tmp_path):
    hooks = {
        "hides": hook("postToolCall", {"replacedOutput": "what is left"}),
        "rewrites": hook("preToolCall", {"updatedInput": {"path": ".", "max_depth": 1}}),
    }
    with collecting() as collector:
        properties = {
            "otel.exporter.otlp.endpoint": collector.url,
            "otel.instrumentation.genai.capture.message.content": "true",
        }
        config = json.dumps({"otlp": properties, "hooks": hooks})
        chat(tmp_path, SCRIPT, ECA_CONFIG=config)
        assert b"chat script" in collector.sent()
        assert SECRET_WORDS.encode() not in collector.sent()
        chat(tmp_path, SCRIPT, ECA_CONFIG=config, **{CONTENT: "true"})
    spans = collector.spans()
    model, tool = spans["chat script"], spans["execute_tool eca_directory_tree"]
    assert json.loads(tool["gen_ai.tool.call.arguments"]) == {"path": ".", "max_depth": 1}
    assert tool["gen_ai.tool.call.result"] == "what is left"
    assert SECRET_WORDS in model["gen_ai.input.messages"]
    assert json.loads(model["gen_ai.output.messages"])[0]["role"] == "assistant"


@pytest.mark.long(but=1)
@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"},
        {"OTEL_TRACES_EXPORTER": "none", "OTEL_SERVICE_NAME": "x"},
    ],
)
def test_unless_it_is_asked_for_nothing_of_the_library_is_imported(tmp_path, variables):
    program = (
        "import sys\n"
        "from eca_server.cli.main import run\n"
        "run(['chat', 'hi'])\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])\n"
    )
    environ = environment(tmp_path) | variables
    done = run_to_end([sys.executable, "-c", program], env=environ, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


async def test_without_the_library_the_user_is_notified_once_and_the_work_continues(
    monkeypatch, caplog
):
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.resources", None)
    async with telemetry.record_telemetry({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}):
        for _ in range(2):
            async with telemetry.operation("chat", "m") as span:
                assert not span.is_recorded
    (record,) = caplog.records
    assert "eca-protocol[otel]" in record.getMessage()


@pytest.mark.parametrize("began_before", [False, True])
async def test_a_collector_that_hangs_holds_the_end_no_longer_than_its_bound(
    began_before, monkeypatch
):
    monkeypatch.setattr(telemetry, "FLUSH_SECONDS", 0.2)
    with collecting(hangs=True) as collector:
        variables = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": collector.url}
        async with telemetry.record_telemetry(variables):
            async with telemetry.operation("chat", "m") as span:
                assert span.is_recorded
            if began_before:
                telemetry.begin_flush()
                monkeypatch.setattr(telemetry, "FLUSH_SECONDS", 30)
            ended = time.monotonic()
        promises.check(time.monotonic() - ended, limit=4)
        wait_until(lambda: collector.bodies, lambda: "nothing was sent")


async def test_properties_of_the_configuration_come_before_the_environment():
    with collecting() as collector:
        async with telemetry.record_telemetry(
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}
        ):
            telemetry.configure({"otel.exporter.otlp.endpoint": Secret(collector.url)})
            async with telemetry.operation("chat", "m", gen_ai__request__model="m"):
                pass
        assert collector.spans()["chat m"]["gen_ai.request.model"] == "m"


def test_the_names_are_those_of_the_conventions():
    known = {value for value in vars(gen_ai_attributes).values() if isinstance(value, str)}
    root = Path(telemetry.__file__).parents[1]
    used = {
        name.replace("__", ".")
        for file in ("models/tracing.py", "agent/chat/agent.py")
        for name in re.findall(r"\bgen_ai__\w+", (root / file).read_text())
    }
    assert len(used) > 15
    assert used <= known
