"""The choice of a proxy for a URL."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_protocol.proxies import proxy_for

PROXY = "http://proxy.example:3128"


@pytest.mark.parametrize(
    ("url", "proxies", "expected"),
    [
        ("https://a.example/", {"https": PROXY}, PROXY),
        ("http://a.example/", {"https": PROXY}, None),
        ("HTTP://a.example/", {"http": PROXY}, PROXY),
        ("https://a.example/", {"all": PROXY}, PROXY),
        ("https://a.example/", {"https": "proxy.example:3128"}, PROXY),
        ("https://a.example/", {"https": ""}, None),
        ("https://a.example/", {}, None),
    ],
)
def test_the_scheme_decides_which_proxy_it_is(url, proxies, expected):
    assert proxy_for(url, proxies) == expected


LOCAL = "localhost:11434 LOCALHOST a.localhost 127.0.0.1:1 127.8.8.8 [::1]:8080"


@pytest.mark.parametrize("host", LOCAL.split())
def test_this_machine_is_never_asked_through_a_proxy(host):
    assert proxy_for(f"http://{host}/", {"http": PROXY}) is None


@pytest.mark.parametrize(
    ("no_proxy", "url", "direct"),
    [
        ("*", "https://a.example/", True),
        ("a.example", "https://a.example/", True),
        ("A.Example", "https://a.EXAMPLE/", True),
        ("a.example", "https://a.example./", True),
        ("x, a.example ,y", "https://a.example/", True),
        ("example", "https://a.example/", True),
        (".example", "https://a.example/", True),
        ("*.example", "https://a.example/", True),
        ("a.example", "https://notA.example/", False),
        ("b.example", "https://a.example/", False),
        ("a.example:8443", "https://a.example:8443/", True),
        ("a.example:443", "https://a.example/", True),
        ("a.example:8443", "https://a.example/", False),
        ("10.0.0.0/8", "http://10.1.2.3/", True),
        ("10.0.0.0/8", "http://11.1.2.3/", False),
        ("10.0.0.0/99", "http://10.1.2.3/", False),
        ("192.0.2.1", "http://192.0.2.1/", True),
        ("192.0.2.1", "http://192.0.2.10/", False),
        ("2001:db8::1", "http://[2001:db8::1]/", True),
        ("[2001:db8::1]", "http://[2001:db8:0::1]/", True),
        ("2001:db8::/32", "http://[2001:db8::7]/", True),
        ("", "https://a.example/", False),
        (",,", "https://a.example/", False),
    ],
)
def test_no_proxy_names_what_is_asked_directly(no_proxy, url, direct):
    proxies = {"http": PROXY, "https": PROXY, "no": no_proxy}
    assert proxy_for(url, proxies) == (None if direct else PROXY)


@given(st.text())
def test_whatever_is_in_no_proxy_there_is_an_answer(no_proxy):
    assert proxy_for("https://a.example/", {"https": PROXY, "no": no_proxy}) in (None, PROXY)
