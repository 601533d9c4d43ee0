from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_server.config.settings import Provider
from eca_server.models.credentials.lookup import (
    LOGIN,
    Credential,
    Location,
    child_environment,
    find_key,
    find_url,
    variable_of,
)
from eca_server.secret import Secret
from eca_server.system.child_process import harden_environment

KEY = "planted-0123456789-key"


@pytest.mark.parametrize(
    ("provider", "variable"),
    [
        ("openai", "OPENAI_API_KEY"),
        ("my-corp", "MY_CORP_API_KEY"),
        ("myCorp", "MY_CORP_API_KEY"),
        ("z.ai v2", "Z_AI_V2_API_KEY"),
        ("-odd-", "ODD_API_KEY"),
    ],
)
def test_a_providers_variable_is_its_name_in_capitals(provider, variable):
    assert variable_of(provider, "KEY") == variable


def test_a_key_is_looked_for_in_the_documented_order():
    environ = {"NAMED": "from-named", "MY_CORP_API_KEY": "from-own"}
    configured = Provider(key=Secret("from-config"), key_env="NAMED")
    credentials = [
        find_key("my-corp", configured, environ),
        find_key("my-corp", Provider(key_env="NAMED"), environ),
        find_key("my-corp", Provider(), environ),
        find_key("my-corp", Provider(), {}),
    ]
    assert [(result.key and result.key.reveal(), result.source) for result in credentials] == [
        ("from-config", "providers.my-corp.key"),
        ("from-named", "NAMED"),
        ("from-own", "MY_CORP_API_KEY"),
        (None, None),
    ]
    assert credentials[0].variables == ("NAMED", "MY_CORP_API_KEY")


@pytest.mark.parametrize("blank", ["", "  ", "\n"])
def test_a_blank_variable_is_no_key(blank):
    credential = find_key(
        "p", Provider(key_env="NAMED"), {"NAMED": blank, "P_API_KEY": f" {KEY}\n"}
    )
    assert (credential.key, credential.source) == (Secret(KEY), "P_API_KEY")


@pytest.mark.parametrize("bad", [f"{KEY}\n{KEY}", f"{KEY}\x7f{KEY}", f"ключ-{KEY}"])
def test_a_key_that_cannot_be_sent_is_a_problem_that_does_not_show_it(bad):
    environ = {"NAMED": bad, "P_API_KEY": "another"}
    credential = find_key("p", Provider(key_env="NAMED"), environ)
    assert credential.key is None
    assert credential.source == "NAMED"
    assert credential.problem is not None
    assert (credential.problem.source, credential.problem.key) == ("environment", "NAMED")
    assert KEY not in repr(credential) + str(credential.problem)


def test_a_url_is_looked_for_in_the_documented_order():
    environ = {"NAMED": " http://named ", "P_API_URL": "http://own", "BLANK": " "}
    assert find_url("p", Provider(url="http://a", url_env="NAMED"), environ) == Location(
        provider="p", url="http://a", source="providers.p.url"
    )
    assert find_url("p", Provider(url_env="NAMED"), environ).url == "http://named"
    assert find_url("p", Provider(url_env="BLANK"), environ).source == "P_API_URL"
    assert find_url("p", Provider(), {}) == Location(provider="p")


def test_nothing_found_shows_a_key():
    url = f"https://user:{KEY}@host/?key={KEY}"
    shown = repr(find_key("p", Provider(), {"P_API_KEY": KEY}))
    shown += repr(find_url("p", Provider(url=url), {}))
    assert KEY not in shown


def test_a_child_process_gets_no_key_of_ours():
    environ = {
        "PATH": "/bin",
        "ECA_CONFIG": "{}",
        "P_API_KEY": "",
        "NAMED": KEY,
        "COPY": f"Bearer {KEY}",
        "Q_API_KEY": "a b",
        "WORD": "ollama",
        "LONGER": "ollamas",
        "OTHER_API_KEY": "not ours",
    }
    credentials = [
        find_key("p", Provider(key_env="NAMED"), environ),
        Credential(provider="q", key=Secret("ollama"), variables=("Q_API_KEY",)),
    ]
    assert child_environment(environ, credentials) == harden_environment(
        {"PATH": "/bin", "LONGER": "ollamas", "OTHER_API_KEY": "not ours"}
    )


@given(st.dictionaries(st.text(min_size=1), st.text()), st.text(min_size=1))
def test_no_variable_of_a_child_holds_the_key_that_was_found(environ, name):
    environ["NAMED"] = KEY
    credential = find_key(name, Provider(key_env="NAMED"), environ)
    rest = child_environment(environ, [credential])
    assert KEY not in " ".join(rest.values())
    assert rest.items() <= harden_environment(environ).items()


def test_a_stored_login_goes_before_the_environment_and_after_the_configuration():
    environ, login = {"P_API_KEY": "from-own", "NAMED": "from-named"}, Secret("from-login")
    credential = find_key("p", Provider(key_env="NAMED"), environ, stored=login)
    assert (credential.key, credential.source) == (login, LOGIN)
    credential = find_key("p", Provider(key=Secret("from-config")), environ, stored=login)
    assert credential.source == "providers.p.key"
