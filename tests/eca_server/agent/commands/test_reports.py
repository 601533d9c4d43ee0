"""The reports `/doctor` and `/config`: what is configured and its sources, without secrets."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_server.agent.commands import config, doctor
from eca_server.agent.commands.network_report import describe_network
from eca_server.config.loading import LoadedConfig, load
from eca_server.config.login_settings import Network
from eca_server.config.problems import Problem, Source
from eca_server.config.settings import Model, Provider
from eca_server.models import provider as llm
from eca_server.models.credentials.lookup import find_key, find_url
from eca_server.secret import Secret

KEY = "planted-0123456789-key"
ENVIRON = {"NAMED_KEY": KEY, "BROKEN_API_KEY": f"{KEY}\n{KEY}", "P_API_URL": "http://own/v1"}


def facts(name: str, provider: Provider, *models: str) -> llm.Provider:
    return llm.Provider(
        name=name,
        api="openai-chat",
        settings=attrs.evolve(provider, models=dict.fromkeys(models, Model())),
        location=find_url(name, provider, ENVIRON),
        credential=find_key(name, provider, ENVIRON),
    )


def lines_of(**changed: Any) -> list[str]:
    """Return the lines of a doctor's report."""
    names = ("about", "sources", "problems", "providers")
    values: dict[str, Any] = dict.fromkeys(names, ()) | {"selected_model": "simulator/echo"}
    return doctor.report(**values | changed).splitlines()


def lines_about(provider: Provider, name: str = "p") -> list[str]:
    return lines_of(providers=[facts(name, provider)])


def test_it_reports_the_program_the_model_the_rules_the_sandbox_and_the_logins():
    denial = "- deny x (toolCall.approval.deny.x)"
    for changed, expected in [
        ({"about": ["ECA 9.8.7", "- JSON engine: orjson"]}, ["ECA 9.8.7", "orjson", "tor/echo"]),
        ({"behavior": "plan", "approval": [denial, "else"]}, [denial, "agent plan"]),
        ({}, ["Command sandbox (toolCall.sandbox): off", "Stored logins: none"]),
        ({"sandbox": "auto; not usable: x"}, ["auto; not usable: x"]),
        ({"logins": ["openai", "groq"]}, ["Stored logins: groq, openai"]),
    ]:
        text = "\n".join(lines_of(**changed))
        assert all(part in text for part in expected)


@pytest.mark.parametrize(
    ("environ", "ca_cert_file", "expected"),
    [
        ({}, None, ["proxy: none", "certificate authorities: the usual and the system's"]),
        (
            {"HTTPS_PROXY": f"http://me:a/{KEY}@proxy:3128", "no_proxy": "intranet"},
            "/c",
            [
                "proxy (HTTPS_PROXY): http://proxy:3128",
                "without a proxy (NO_PROXY): intranet",
                "certificate authorities: the usual and the system's, and network.caCertFile (/c)",
            ],
        ),
        (
            {"ALL_PROXY": f"me:{KEY}#://b@proxy:1080", "SSL_CERT_FILE": "/only.pem"},
            None,
            [
                "proxy (ALL_PROXY): http://proxy:1080",
                "certificate authorities: only those of SSL_CERT_FILE (/only.pem)",
            ],
        ),
    ],
)
def test_it_reports_the_proxies_without_their_logins_and_the_authorities(
    environ, ca_cert_file, expected, monkeypatch
):
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert [*describe_network(Network(ca_cert_file=ca_cert_file))] == expected
    assert "- proxy: none" in lines_of(network=["proxy: none"])


def test_it_reports_the_state_and_the_problems_of_each_source():
    states = {"ECA_CONFIG": "absent", "/a/config.json": "used", "/b/config.json": "broken"}
    lines = lines_of(
        sources=[Source(name=name, state=state) for name, state in states.items()],
        problems=[
            Problem(source="/b/config.json", line=3, column=7, message="expected more"),
            Problem(source="/a/config.json", line=2, key="chat.title", message="expected x"),
        ],
    )
    shown = [line.partition(": ")[2].split()[0] for line in lines if "config.json: " in line]
    assert shown == ["present", "invalid,"]
    assert any("ECA_CONFIG: not found" in line for line in lines)
    assert any("/b/config.json:3:7" in line for line in lines)
    assert any("/a/config.json:2" in line and "chat.title" in line for line in lines)


@pytest.mark.parametrize(
    ("name", "provider", "named"),
    [
        ("p", Provider(key=Secret(KEY)), ["providers.p.key"]),
        ("p", Provider(key_env="NAMED_KEY"), ["found", "NAMED_KEY"]),
        ("p", Provider(key_env="UNSET"), ["missing", "UNSET", "P_API_KEY"]),
        ("p", Provider(), ["none (if one is needed, set P_API_KEY"]),
        ("broken", Provider(), ["invalid", "BROKEN_API_KEY"]),
    ],
)
def test_it_names_the_source_of_a_key_and_never_the_key(name, provider, named):
    lines = lines_about(provider, name)
    (line,) = [line for line in lines if "key: " in line and line.startswith("  ")]
    assert all(part in line for part in named)
    assert KEY not in "\n".join(lines)
    is_problem = any(line.startswith("- environment: BROKEN_API_KEY: ") for line in lines)
    assert is_problem is (name == "broken")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (f"https://host/v1?key={KEY}", "https://"),
        (f"https://me:{KEY}@host/v1", "https://"),
        (f"https://host/{KEY}/v1", "https://"),
        ("https://me@host/v1?sig=planted&api-version=3", "//host/v1?sig=***&api-version=***"),
    ],
)
def test_secrets_inside_a_url_are_hidden(url, shown):
    text = "\n".join(lines_about(Provider(url=url, key=Secret(KEY))))
    assert KEY not in text
    assert "planted" not in text
    assert shown in text


def test_a_provider_is_listed_with_what_it_needs_and_some_of_its_models():
    simulator = llm.Provider(name="simulator", api="simulator")
    models = [f"m{number}" for number in range(25)]
    lines = lines_of(providers=[simulator, facts("p", Provider(), *models)])
    assert any("key: none needed" in line for line in lines)
    assert any("url: http://own/v1 (from P_API_URL)" in line for line in lines)
    assert not any("url: missing" in line for line in lines)
    (line,) = [line for line in lines if "m9" in line]
    assert "m10" not in line
    assert "15 more" in line
    word = Provider(key=Secret("ollama"), url="http://ollama:11434")
    assert any("- ollama (" in line for line in lines_about(word, "ollama"))


def load_file(
    folder: Path, options: Mapping[str, Any], *, text: str = "{}", **environ: str
) -> LoadedConfig:
    file = folder / "config.json"
    file.write_text(text)
    return load(
        initialization_options=options, roots=(), environ=environ, config_file=file, home=folder
    )


def test_each_value_has_the_last_source_that_set_it(tmp_path):
    options = {"chat": {"title": False}, "retry": {"maxRetries": 2}, "disabledTools": ["grep"]}
    text = '{"retry": {"maxRetries": 3, "baseDelayMs": 5}, "disabledTools": null}'
    lines = config.report(load_file(tmp_path, options, text=text), ()).splitlines()
    file = tmp_path / "config.json"
    assert "- `chat.title`: `false` (initializationOptions)" in lines
    assert f"- `retry.maxRetries`: `3` ({file})" in lines
    assert f"- `retry.baseDelayMs`: `5` ({file})" in lines
    assert not any("disabledTools" in line for line in lines)
    assert f"- {file}: present" in lines
    assert "- ECA_CONFIG: not found" in lines


def test_a_reference_is_shown_unresolved_and_problems_are_listed(tmp_path):
    options = {
        "providers": {"p": {"key": "${env:SECRET}", "url": "http://${env:SECRET}/", "keyEnv": "N"}},
        "customTools": {"t": {"command": "curl -H ${env:SECRET}"}},
    }
    text = config.report(load_file(tmp_path, options, SECRET=KEY), ())
    assert KEY not in text
    assert '`providers.p.key`: `"${env:SECRET}"`' in text
    assert '`providers.p.keyEnv`: `"N"`' in text
    assert "No setting is configured." in config.report(load_file(tmp_path, {}), ()).splitlines()
    text = config.report(load_file(tmp_path, {}, text='{\n"defaultModel": 1}'), ())
    assert f"- {tmp_path / 'config.json'}:2:1" in text


SECRET_PATHS = [
    "providers/p/key",
    "providers/p/extraHeaders/Authorization",
    "providers/p/models/m/extraPayload/x",
    "mcpServers/s/env/TOKEN",
    "mcpServers/s/headers/X",
    "mcpServers/s/clientSecret",
    "remote/password",
    "apiKeys",
    "otlp/otel.exporter.otlp.headers",
]


@given(
    st.sampled_from(SECRET_PATHS),
    st.sampled_from(["%s", "a ${env:A:} %s", "${env:A:%s}"]),
    st.booleans(),
)
def test_no_secret_is_shown(path, shape, nested):
    text = shape % KEY
    value: Any = [{"a": text}] if nested else text
    for name in reversed(path.split("/")):
        value = {name: value}
    configuration = load(initialization_options={"pureConfig": True, **value}, roots=(), environ={})
    assert KEY not in config.report(configuration, ())


@pytest.mark.parametrize("path", ["mcpServers/s/url", "providers/p/url"])
def test_the_keys_of_an_address_are_not_shown(path):
    section, name, key = path.split("/")
    options = {section: {name: {key: f"https://{KEY}@host/v1?other={KEY}"}}, "pureConfig": True}
    text = config.report(load(initialization_options=options, roots=(), environ={}), ())
    assert KEY not in text
    assert "https://host/v1?other=***" in text


def test_a_value_cannot_leave_its_line_nor_show_a_key_in_use_nor_be_huge(tmp_path):
    options = {
        "welcomeMessage": f"a`b\n- `c`: d {KEY}",
        "defaultModel": "key/word",
        "x": {f"k{number}": 1 for number in range(5_000)},
        "y": "z" * 10_000,
    }
    text = config.report(load_file(tmp_path, options), [Secret(KEY), Secret("word")])
    (line,) = [line for line in text.splitlines() if "welcomeMessage" in line]
    assert json.dumps("a'b\n- 'c': d ***") in line
    assert "key/word" in text
    assert len(text) < 30_000
    assert "and 4703 more" in text
