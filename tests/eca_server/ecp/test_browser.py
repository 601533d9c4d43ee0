"""The HTML report in a real browser: its controls work, and no other script runs."""

from pathlib import Path

import pytest

from eca_server.ecp.reports.html import render_html
from eca_server.ecp.results import ScenarioReport
from tests.eca_server.ecp.sample_reports import POLITE, a_report

pytestmark = pytest.mark.long

SHOWN = "[...document.querySelectorAll('#items > details:not([hidden])')].map(e => e.id).join()"
OPEN = "[...document.querySelectorAll('#items > details[open]')].map(e => e.id).join()"
BACK = "getComputedStyle(document.body).backgroundColor"
AT = "document.activeElement.closest('#items > details')?.id ?? ''"


def write(folder: Path, text: str) -> str:
    file = folder / "report.html"
    file.write_text(text, "utf-8")
    return file.as_uri()


def test_hostile_output_executes_nothing_and_every_control_works(browser, tmp_path):
    url = write(tmp_path, render_html(a_report(warnings=("odd",))))
    browser.open(url)
    assert browser.value("document.title") == "Library desk: 4 of 9 checks passed"
    assert (
        browser.value("document.querySelectorAll('img, iframe, object, style, script').length") == 2
    )
    assert browser.value(SHOWN) == "s1,s2,s3,s4"
    browser.press("f")
    assert browser.value(SHOWN) == "s2,s3,s4"
    browser.press("a")
    browser.value("document.querySelector('button[data-show=flaky]').click()")
    assert browser.value(SHOWN) == "s4"
    assert browser.value("document.querySelector('#count').textContent") == "1 of 4 shown"
    browser.press("a")

    browser.press("j")
    assert browser.value(AT) == "s1"
    browser.press("n")
    assert browser.value(AT) == "s2"
    browser.press("Enter")
    assert browser.value(OPEN) == "s2"
    browser.press("k")
    assert browser.value(AT) == "s1"
    browser.press("o")
    assert browser.value(OPEN) == "s1,s2,s3,s4"
    browser.press("o")
    assert browser.value(OPEN) == ""

    browser.press("/")
    for key in "b-17":
        browser.press(key)
    browser.until(SHOWN, "s1")
    browser.value("location.hash = '#s3'")
    browser.until(OPEN, "s3")
    assert browser.value(SHOWN) == "s1,s2,s3,s4"

    order = "document.querySelector('#order')"
    browser.value(f"{order}.value = 'faults'; {order}.dispatchEvent(new Event('change'))")
    assert browser.value(SHOWN) == "s2,s3,s4,s1"

    light = browser.value(BACK)
    browser.press("t")
    dark = browser.value(BACK)
    assert {light, dark} == {"rgb(246, 247, 249)", "rgb(18, 20, 23)"}
    browser.call("Emulation.setEmulatedMedia", media="print")
    text = browser.value("getComputedStyle(document.body).color")
    assert text == "rgb(28, 32, 38)"
    browser.value("dispatchEvent(new Event('beforeprint'))")
    assert browser.value("document.querySelectorAll('details:not([open])').length") == 0
    browser.value("dispatchEvent(new Event('afterprint'))")
    assert browser.value(OPEN) == "s3"

    assert browser.value("document.title") == "Library desk: 4 of 9 checks passed"
    assert browser.faults() == []
    assert browser.requests() == [url]


def test_markup_that_were_not_escaped_would_still_run_nothing(browser, tmp_path):
    attack = (
        '<script>document.title="owned"</script><img src=x onerror="document.title=\'owned\'">'
        '<img src="http://127.0.0.1:9/x.png"><p style="display:none">a</p>'
        '<iframe srcdoc="<script>top.document.title=1</script>"></iframe><main>'
    )
    browser.open(write(tmp_path, render_html(a_report()).replace("<main>", attack)))
    assert browser.value("document.title") == "Library desk: 4 of 9 checks passed"
    assert browser.value("document.querySelector('p[style]').offsetHeight") > 0
    assert browser.value(SHOWN) == "s1,s2,s3,s4"
    assert all("Content Security Policy" in str(fault) for fault in browser.faults())
    assert len(browser.faults()) >= 5


def test_ten_thousand_scenarios_open(browser, tmp_path):
    many = [
        ScenarioReport(name=f"question {place}", index=place, steps=(POLITE, POLITE))
        for place in range(10_000)
    ]
    browser.open(write(tmp_path, render_html(a_report(*many))))
    browser.value("document.querySelector('input[type=search]').value = 'question 77 b-17'")
    search = "document.querySelector('input[type=search]')"
    browser.value(f"{search}.dispatchEvent(new Event('input'))")
    matches = sum("77" in str(place) for place in range(10_000))
    count = "document.querySelector('#count').textContent"
    browser.until(count, f"{matches} of 10000 shown", seconds=60)
    assert browser.faults() == []
