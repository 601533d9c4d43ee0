"""Pages: their content is visible and harmless, and only their own script may run."""

import base64
import hashlib
import html
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_server.workbench.inspector.serving import render_live_page
from eca_server.workbench.pages import _environment
from tests.eca_server.workbench.page_reader import Page


def shown(text: str, template: str = "{{ text }}") -> str:
    return _environment().from_string(template).render(text=text)


@pytest.mark.parametrize(
    ("text", "markup"),
    [
        ("plain\n\tüñï 日本 🙂", "plain\n\tüñï 日本 🙂"),
        ("<b>&\"'", "&lt;b&gt;&amp;&quot;&#x27;"),
        ("\x1b[31m", "<i>\\u{1b}</i>[31m"),
        ("a\r\n", "a<i>\\u{d}</i>\n"),
        ("\u202eexe\u2066", "<i>\\u{202e}</i>exe<i>\\u{2066}</i>"),
        ("\ud83d", "<i>\\u{d83d}</i>"),
        ("a\U000e0041", "a<i>\\u{e0041}</i>"),
        ("می\u200cخواهم 👩\u200d👧", "می\u200cخواهم 👩\u200d👧"),
        ("pass\u200dword\u200c", "pass<i>\\u{200d}</i>word<i>\\u{200c}</i>"),
        ("م\u200c\u200dم", "م<i>\\u{200c}</i><i>\\u{200d}</i>م"),
    ],
)
def test_a_text_is_shown_with_all_that_is_in_it(text: str, markup: str) -> None:
    assert shown(text) == markup
    assert shown(text, "{{ text|attribute }}") == re.sub("</?i>", "", markup)
    assert (
        shown(text, "{% macro m() %}<p>{{ text }}</p>{% endmacro %}{{ m() }}") == f"<p>{markup}</p>"
    )


@given(st.text(st.sampled_from("<>&\"'/!-=ab \x00\u202e\ud800")) | st.text())
def test_no_text_becomes_a_tag(text: str) -> None:
    read = Page(shown(text, '<p title="{{ text|attribute }}">{{ text }}'))
    assert set(read.tags) <= {"p", "i"}
    assert read.text == html.unescape(shown(text, "{{ text|attribute }}"))


def test_a_page_lets_run_only_what_it_carries() -> None:
    made = render_live_page("<a>")
    assert "<title>&lt;a&gt;: inspected</title>" in made
    assert re.search(r'charset="utf-8">\n<meta http-equiv="Content-Security-Policy"', made)
    for tag in ("style", "script"):
        code = made.split(f"<{tag}>")[1].split(f"</{tag}>")[0]
        digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in made
    body = made.split("<body>")[1].split("<script>")[0]
    assert not re.search(r'\son\w+=|style="|https?://|url\(', body)
