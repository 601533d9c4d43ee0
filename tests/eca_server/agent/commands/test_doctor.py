from __future__ import annotations

from typing import Any

import attrs
import pytest

from eca_server.agent.commands.doctor import report
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
    values: dict[str, Any] = {
        "about": (),
        "sources": (),
        "problems": (),
        "providers": (),
        "selected_model": "simulator/echo",
    }
    return report(**values | changed).splitlines()


def test_it_reports_the_program_and_the_selected_model():
    text = "\n".join(lines_of(about=["ECA 9.8.7", "- JSON engine: orjson"]))
    for part in ("ECA 9.8.7", "orjson", "simulator/echo"):
        assert part in text


def test_it_reports_the_state_and_the_problems_of_each_source():
    lines = lines_of(
        sources=[
            Source(name="ECA_CONFIG", state="absent"),
            Source(name="/a/config.json", state="used"),
            Source(name="/b/config.json", state="broken"),
        ],
        problems=[
            Problem(source="/b/config.json", line=3, column=7, message="expected more"),
            Problem(source="/a/config.json", line=2, key="chat.title", message="expected x"),
        ],
    )
    states = [line.partition(": ")[2].split()[0] for line in lines if "config.json: " in line]
    assert states == ["present", "invalid,"]
    assert any("ECA_CONFIG: not found" in line for line in lines)
    assert any("/b/config.json:3:7" in line for line in lines)
    assert any("/a/config.json:2" in line and "chat.title" in line for line in lines)


@pytest.mark.parametrize(
    ("name", "provider", "named"),
    [
        ("p", Provider(key=Secret(KEY)), ["providers.p.key"]),
        ("p", Provider(key_env="NAMED_KEY"), ["found", "NAMED_KEY"]),
        ("p", Provider(key_env="UNSET"), ["missing", "UNSET", "P_API_KEY"]),
        ("broken", Provider(), ["invalid", "BROKEN_API_KEY"]),
    ],
)
def test_it_names_the_source_of_a_key_and_never_the_key(name, provider, named):
    lines = lines_of(providers=[facts(name, provider, "m")])
    (line,) = [line for line in lines if "key: " in line and line.startswith("  ")]
    assert all(part in line for part in named)
    assert KEY not in "\n".join(lines)


def test_a_key_that_cannot_be_sent_is_among_the_problems():
    assert any(
        line.startswith("- environment: BROKEN_API_KEY: ")
        for line in lines_of(providers=[facts("broken", Provider())])
    )


def test_a_key_inside_a_url_is_hidden():
    urls = [f"https://host/v1?key={KEY}", f"https://me:{KEY}@host/v1", f"https://host/{KEY}/v1"]
    for url in urls:
        provider = Provider(url=url, key=Secret(KEY))
        text = "\n".join(lines_of(providers=[facts("p", provider)]))
        assert KEY not in text
        assert "https://" in text


def test_values_in_the_query_of_a_url_are_masked():
    provider = Provider(url="https://me@host/v1?sig=planted&api-version=3")
    text = "\n".join(lines_of(providers=[facts("p", provider)]))
    assert "https://host/v1?sig=***&api-version=***" in text
    assert "planted" not in text


def test_a_provider_without_key_and_url_is_complete():
    simulator = llm.Provider(name="simulator", api="simulator")
    lines = lines_of(providers=[simulator, facts("p", Provider())])
    assert any("key: none needed" in line for line in lines)
    assert any("url: http://own/v1 (from P_API_URL)" in line for line in lines)
    assert not any("url: missing" in line for line in lines)


def test_a_key_that_is_a_common_word_is_not_masked():
    provider = Provider(key=Secret("ollama"), url="http://ollama:11434")
    assert any("- ollama (" in line for line in lines_of(providers=[facts("ollama", provider)]))


def test_a_long_list_of_models_is_cut_with_its_number():
    models = [f"m{number}" for number in range(25)]
    (line,) = [
        line for line in lines_of(providers=[facts("p", Provider(), *models)]) if "models" in line
    ]
    assert "m9" in line
    assert "m10" not in line
    assert "15 more" in line


def test_it_lists_the_approval_rules():
    lines = lines_of(behavior="plan", approval=["deny x (toolCall.approval.deny.x)", "else"])
    assert "- deny x (toolCall.approval.deny.x)" in lines
    assert any("agent plan" in line for line in lines)


def test_it_names_the_state_of_the_sandbox():
    assert "Command sandbox (toolCall.sandbox): off" in lines_of()
    assert any("auto; not usable: x" in line for line in lines_of(sandbox="auto; not usable: x"))


def test_it_names_the_stored_logins():
    assert "Stored logins: none" in lines_of()
    assert "Stored logins: groq, openai" in lines_of(logins=["openai", "groq"])


def test_a_problem_is_reported_once():
    broken = facts("broken", Provider())
    assert broken.credential is not None
    problem = broken.credential.problem
    assert lines_of(providers=[broken], problems=[problem]) == lines_of(providers=[broken])
