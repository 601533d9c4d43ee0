"""Keys in a netrc file."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_server.config.settings import Provider
from eca_server.models.credentials.lookup import find_key
from eca_server.models.credentials.netrc import NetrcError, netrc_file, password_in
from eca_server.secret import Secret

KEY = "planted-0123456789-key"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "netrc"


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
def test_an_entry_is_found_by_its_machine_login_and_port(file: Path, entry, password) -> None:
    file.write_text(
        """# a comment machine api.one.example password never
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
    )
    assert password_in(file, entry) == Secret(password)


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
def test_what_is_wrong_is_reported_without_the_value(file: Path, text, line, words) -> None:
    file.write_text(text)
    with pytest.raises(NetrcError, match=words) as caught:
        password_in(file, "wanted")
    assert caught.value.line == line
    assert KEY not in str(caught.value)


def test_a_missing_file_is_a_problem_of_the_provider_that_names_it(file: Path) -> None:
    credential = find_key("p", Provider(key_rc="api.example"), {}, netrc=file)
    assert credential.key is None
    assert credential.problem is not None
    assert credential.problem.source == str(file)
    assert find_key("p", Provider(), {}, netrc=file).problem is None


def test_a_variable_counts_before_the_file(file: Path) -> None:
    file.write_text(f"machine api.example password {KEY}")
    provider = Provider(key_rc="api.example")
    assert find_key("p", provider, {"P_API_KEY": "other"}, netrc=file).source == "P_API_KEY"
    credential = find_key("p", provider, {}, netrc=file)
    assert credential.key == Secret(KEY)
    assert credential.source == f"api.example in {file}"


def test_the_users_file_is_where_netrc_leads_or_in_the_home_folder() -> None:
    assert netrc_file({"HOME": "/home/u"}) == Path("/home/u/.netrc")
    assert netrc_file({"HOME": "/home/u", "NETRC": "/etc/n"}) == Path("/etc/n")


@given(text=st.text(alphabet=st.sampled_from('machine login password default macdef "\\#\n x')))
def test_any_text_is_read_or_refused(tmp_path_factory, text: str) -> None:
    file = tmp_path_factory.getbasetemp() / "any-netrc"
    file.write_text(text)
    result = None
    try:
        assert password_in(file, "x").reveal().strip()
    except NetrcError as fault:
        result = str(fault)
    assert result is None or result.startswith("expected")
