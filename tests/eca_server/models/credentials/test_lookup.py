"""Where the keys and the URLs of providers are found: settings, variables, netrc, logins."""

from pathlib import Path

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
from eca_server.models.credentials.netrc import NetrcError, netrc_file, password_in
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


NAMED, PLAIN, OF_FILE = Provider(key_env="NAMED"), Provider(), Provider(key_rc="api.example")
CONFIGURED = Provider(key=Secret("set"), key_env="NAMED")
ENVIRON = {"NAMED": "named", "P_API_KEY": f" {KEY}\n", "BLANK": " \n"}


@pytest.mark.parametrize(
    ("settings", "environ", "stored", "key", "source"),
    [
        (CONFIGURED, ENVIRON, "login", "set", "providers.p.key"),
        (NAMED, ENVIRON, "login", "login", LOGIN),
        (NAMED, ENVIRON, None, "named", "NAMED"),
        (PLAIN, ENVIRON, None, KEY, "P_API_KEY"),
        (Provider(key_env="BLANK"), ENVIRON, None, KEY, "P_API_KEY"),
        (NAMED, ENVIRON | {"NAMED": ""}, None, KEY, "P_API_KEY"),
        (OF_FILE, ENVIRON, None, KEY, "P_API_KEY"),
        (OF_FILE, {}, None, "of netrc", "api.example in {file}"),
        (PLAIN, {}, None, None, None),
    ],
)
def test_a_key_is_looked_for_in_the_documented_order(
    tmp_path, settings, environ, stored, key, source
):
    file = tmp_path / "netrc"
    file.write_text('machine api.example password "of netrc"')
    credential = find_key("p", settings, environ, stored=stored and Secret(stored), netrc=file)
    assert credential.key == (key and Secret(key))
    assert credential.source == (source and source.format(file=file))
    if settings.key_env == "NAMED":
        assert credential.variables == ("NAMED", "P_API_KEY")


@pytest.mark.parametrize("bad", [f"{KEY}\n{KEY}", f"{KEY}\x7f{KEY}", f"ключ-{KEY}"])
def test_a_key_that_cannot_be_sent_is_a_problem_that_does_not_show_it(bad):
    credential = find_key("p", NAMED, {"NAMED": bad, "P_API_KEY": "another"})
    assert (credential.key, credential.source) == (None, "NAMED")
    assert (credential.problem.source, credential.problem.key) == ("environment", "NAMED")
    assert KEY not in repr(credential) + str(credential.problem)


def test_a_url_is_looked_for_in_the_documented_order():
    environ = {"NAMED": " http://named ", "P_API_URL": "http://own", "BLANK": " "}
    configured = find_url("p", Provider(url="http://a", url_env="NAMED"), environ)
    assert configured == Location(url="http://a", source="providers.p.url")
    assert find_url("p", Provider(url_env="NAMED"), environ).url == "http://named"
    assert find_url("p", Provider(url_env="BLANK"), environ).source == "P_API_URL"
    assert find_url("p", PLAIN, {}) == Location()


def test_nothing_found_shows_a_key():
    url = f"https://user:{KEY}@host/?key={KEY}"
    shown = repr(find_key("p", PLAIN, {"P_API_KEY": KEY}))
    shown += repr(find_url("p", Provider(url=url), {}))
    assert KEY not in shown


def test_a_child_process_gets_no_key_of_ours():
    others = {"PATH": "/bin", "LONGER": "ollamas", "OTHER_API_KEY": "not ours"}
    ours = {"NAMED": KEY, "COPY": f"Bearer {KEY}", "Q_API_KEY": "a b", "WORD": "ollama"}
    environ = {**others, **ours, "ECA_CONFIG": "{}", "P_API_KEY": ""}
    credentials = [
        find_key("p", NAMED, environ),
        Credential(provider="q", key=Secret("ollama"), variables=("Q_API_KEY",)),
    ]
    assert child_environment(environ, credentials) == harden_environment(others)


@given(st.dictionaries(st.text(min_size=1), st.text()), st.text(min_size=1))
def test_no_variable_of_a_child_holds_the_key_that_was_found(environ, name):
    environ["NAMED"] = KEY
    rest = child_environment(environ, [find_key(name, NAMED, environ)])
    assert KEY not in " ".join(rest.values())
    assert rest.items() <= harden_environment(environ).items()


NETRC = """# a comment machine api.one.example password never
machine api.one.example login key password first
machine api.one.example
  login other  # behind a pair
  account whatever
\tpassword second

macdef init
machine api.one.example password never

machine api.one.example port 8443 login key password third
machine api.two.example login a@b.c password with@mark
machine api.three.example login key password "quo\\"ted and spaced"
machine api.four.example password #hash
default login anonymous password anybody
"""


@pytest.mark.parametrize(
    ("entry", "password"),
    [
        ("api.one.example", "first"),
        ("API.ONE.example", "first"),
        ("key@api.one.example", "first"),
        ("other@api.one.example", "second"),
        ("api.one.example:8443", "third"),
        ("a@b.c@api.two.example", "with@mark"),
        ("api.three.example", 'quo"ted and spaced'),
        ("api.four.example", "#hash"),
    ],
)
def test_an_entry_of_netrc_is_found_by_its_machine_login_and_port(tmp_path, entry, password):
    (tmp_path / "netrc").write_text(NETRC)
    assert password_in(tmp_path / "netrc", entry) == Secret(password)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("", None, "found none"),
        ("default password anybody", None, "found none"),
        ("machine wanted login key", None, "found none"),
        (f"\nmachine wanted password {KEY}\n{KEY} more", 3, "expected machine"),
        (f"password {KEY}", 1, "expected machine"),
        ("machine wanted\npassword", 2, "after password"),
        (f'machine wanted password "{KEY}\\nb"', 1, "control character"),
    ],
)
def test_what_is_wrong_in_netrc_is_reported_without_the_value(tmp_path, text, line, words):
    (tmp_path / "netrc").write_text(text)
    with pytest.raises(NetrcError, match=words) as caught:
        password_in(tmp_path / "netrc", "wanted")
    assert caught.value.line == line
    assert KEY not in str(caught.value)


def test_a_missing_netrc_is_a_problem_of_the_provider_that_names_it(tmp_path):
    file = tmp_path / "netrc"
    credential = find_key("p", OF_FILE, {}, netrc=file)
    assert credential.key is None
    assert credential.problem.source == str(file)
    assert find_key("p", PLAIN, {}, netrc=file).problem is None


def test_the_users_netrc_is_where_its_variable_leads_or_in_the_home_folder():
    assert netrc_file({"HOME": "/home/u"}) == Path("/home/u/.netrc")
    assert netrc_file({"HOME": "/home/u", "NETRC": "/etc/n"}) == Path("/etc/n")


@given(text=st.text(alphabet=st.sampled_from('machine login password default macdef "\\#\n x')))
def test_any_netrc_is_read_or_refused(tmp_path_factory, text):
    file = tmp_path_factory.getbasetemp() / "any-netrc"
    file.write_text(text)
    result = None
    try:
        assert password_in(file, "x").reveal().strip()
    except NetrcError as fault:
        result = str(fault)
    assert result is None or result.startswith("expected")
