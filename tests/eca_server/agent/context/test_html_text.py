import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_server.agent.context.html_text import Page, html_to_text


def page_of(source: str, url: str = "https://example.org/docs/index.html") -> Page:
    return html_to_text(source, url=url, checkpoint=lambda: None)


def test_a_page_is_its_text_in_paragraphs():
    page = page_of("""<!doctype html><html><head><title> The
      title </title><meta charset=utf-8></head>
      <body><h1>Head</h1><p>One   <b>two</b>
      three.<p>Four<br>five &amp; &eacute;&#33;</body></html>""")
    assert page.title == "The title"
    assert page.text == "# Head\n\nOne two three.\n\nFour\nfive & é!"


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("<ul><li>a<li>b</ul>", "- a\n- b"),
        ("<table><tr><th>a<td>b</td></tr><tr><td>c</table>", "| a | b\n| c"),
        ("<p>see <img src=x alt='a cat'>", "see a cat"),
        (
            "<pre>if x:\n    <b>y</b> &lt; 1\n\n\tz</pre>after",
            "```\nif x:\n    y < 1\n\n\tz\n```\n\nafter",
        ),
        ('<a href="/a?b=1&amp;c">there</a>', "[there](https://example.org/a?b=1&c)"),
        ("<a class=x href=page.html>there</a>", "[there](https://example.org/docs/page.html)"),
        ("<a href='#top'>there</a>", "there"),
        ("<a href='javascript:alert(1)'>there</a>", "there"),
        ("<a href='http://[bad'>there</a>", "there"),
        ("<a data-href='/x'>there</a>", "there"),
        ("<a>there</a>", "there"),
        ("<a href='/x'>there", "there"),
        ("<a href='/x'><b>the</b> <i>re</i></a>!", "[the re](https://example.org/x)!"),
        ("see <a href='/x'> it </a>now", "see [it](https://example.org/x) now"),
        ("<a href='/x'></a>", ""),
        ("a < b <3 c", "a < b <3 c"),
        ("a<p", "a"),
        ("a<!-- b", "a"),
        ("a<script>b", "a"),
        ("a<b title='>x", "a"),
        ("it<i title=don't>s</i> fine", "its fine"),
        ("</p></a></title></pre>a", "a"),
        ("<pre>a", "```\na"),
        ("<title>a", "a"),
        # A reader does not see these.
        ("a <script>if (a < b) { '<p>x</p>' }</script>b", "a b"),
        ("a <SCRIPT type='x>y'>x</script >b", "a b"),
        ("a <style>p > a { x }</style>b", "a b"),
        ("a <!-- <p>x</p> -->b", "a b"),
        ("a <svg><text>x</text></svg>b", "a b"),
        ("a <template><p>x</template>b", "a b"),
        ("a <noscript>x</noscript>b", "a b"),
    ],
)
def test_lists_code_links_and_broken_tags_become_text(source, text):
    assert page_of(source).text == text


PIECES = [
    *("<", "<!--", "<a", "<a ='", '<a href="', "<script>", "</script", "<a href=/x>", "<pre>"),
    *("<title>", "= ", "&", "&#", " ", "<![CDATA[", "<p>\n", "<a href    ", "</a>"),
    *("<svg></svg>", "<a href=/x>y</a>"),
]


def test_a_hostile_page_costs_linear_time():
    for piece in PIECES:
        source = piece * (20_000 // len(piece))
        started = time.process_time()
        page_of(source)
        page_of("<a " + source)
        assert time.process_time() - started < 0.2, piece


def test_the_checkpoint_ends_a_long_page():
    with pytest.raises(KeyError):
        html_to_text("<p>" * 2_000, url="https://example.org", checkpoint={}.popitem)


TAGS = st.sampled_from(
    ["<a href='/x'>", "</a>", "<p>", "<pre>", "</pre>", "<title>", "</title>", "<!--", "-->"]
)


@given(st.lists(TAGS | st.text(max_size=5)).map("".join))
def test_no_page_is_an_error(source):
    page = page_of(source)
    assert "\n\n\n" not in page.text
    assert "\n" not in page.title
