"""The inspector in a real browser: a hundred thousand messages, hostile ones, and live ones."""

import json
import os
import re
from pathlib import Path

import pytest

from eca_server.workbench.inspector.command import write_page
from tests.eca_server.conftest import SERVE
from tests.eca_server.ecp.browser import Browser
from tests.eca_server.stranger import message
from tests.eca_server.workbench.inspector.records import long_record

pytestmark = pytest.mark.long

COUNT = "document.querySelector('#count').textContent"
STATE = "document.querySelector('#state').textContent"
TITLE = "(document.querySelector('#opened:not([hidden]) h2')?.textContent ?? '')"
NUMBERS = "[...document.querySelectorAll('.row:not([hidden])')].map(e => Number(e.dataset.number))"
SELECTED = "document.querySelector('.row[aria-selected=true]')?.dataset.number ?? ''"
KEY = "sk-ant-0123456789abcdef"


def page_of(record: Path) -> str:
    page = record.with_suffix(".html")
    assert write_page(record, page) == 0
    return page.as_uri()


def choose(browser: Browser, select: str, value: str) -> None:
    menu = f"document.querySelector('{select}')"
    browser.value(f"{menu}.value = {json.dumps(value)}; {menu}.dispatchEvent(new Event('change'))")


def search(browser: Browser, text: str) -> None:
    box = "document.querySelector('input[type=search]')"
    browser.value(f"{box}.value = {json.dumps(text)}; {box}.dispatchEvent(new Event('input'))")


def test_the_name_of_a_message_is_in_its_row_on_any_screen(browser, tmp_path: Path) -> None:
    record = tmp_path / "long.jsonl"
    long_record(record, 100)
    browser.open(page_of(record))
    for width in (400, 700, 1200):
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        browser.call("Emulation.setDeviceMetricsOverride", **metrics)
        box = browser.value("document.querySelector('.row .what').getBoundingClientRect().toJSON()")
        assert box["left"] > 100
        assert box["width"] >= 100
        assert box["right"] < width


def test_a_hundred_thousand_messages(browser, tmp_path):
    record = tmp_path / "long.jsonl"
    odd = b'{"jsonrpc":"2.0","method":"chat/contentReceived","params":{"needle":1}}'
    long_record(record, 100_000, odd_at=77_777, odd=odd)
    url = page_of(record)
    browser.open(url)
    assert browser.value(COUNT) == "100,000 messages"
    taken = browser.value("performance.getEntriesByType('navigation')[0].loadEventEnd")
    assert taken < 6000, f"it took {taken} ms to open"  # two seconds on a machine with nothing else

    assert browser.value(NUMBERS)[:3] == [0, 1, 2]
    browser.press("End")
    browser.until(SELECTED, "99999")
    assert browser.value("document.querySelectorAll('.row').length") < 100
    browser.press("Home")
    browser.until(SELECTED, "0")
    browser.press("j")
    browser.press("j")
    browser.press("k")
    browser.until(SELECTED, "1")
    browser.press("r")
    browser.until(SELECTED, "0")

    search(browser, "NEEDLE")
    browser.until(COUNT, "1 of 100,000 messages")
    search(browser, "")
    browser.until(COUNT, "100,000 messages")
    choose(browser, "#what", "chat/prompt")
    few = int(browser.value(COUNT).split()[0].replace(",", ""))
    assert 100 < few < 10_000
    choose(browser, "#side", "server")
    assert int(browser.value(COUNT).split()[0].replace(",", "")) == few // 2  # their answers
    choose(browser, "#side", "")
    choose(browser, "#what", "")
    choose(browser, "#chat", "job3")
    assert browser.value(COUNT) != "100,000 messages"
    choose(browser, "#chat", "")

    search(browser, "field:chatcontentreceivedparams")
    browser.until(COUNT, "1 of 100,000 messages")
    search(browser, "")
    browser.until(COUNT, "100,000 messages")
    browser.press("f")
    browser.until(SELECTED, "")
    assert browser.value(COUNT).split()[0] == str(len(browser.value(NUMBERS)))
    browser.press("f")
    browser.value("document.querySelector('#rows').focus()")
    browser.press("n")
    browser.until(TITLE, "77777 chat/contentReceived: ")
    browser.until(SELECTED, "77777")
    shown = browser.value("document.querySelector('#opened').innerText")
    assert "FIELD:ChatContentReceivedParams." in shown
    assert re.search(r"needle\s+1\s+integer\s+unknown key", shown)
    assert f"Content-Length: {len(odd)}\\u{{d}}\n\\u{{d}}\n{odd.decode()}" in shown
    browser.press("Escape")
    browser.until(TITLE, "")

    browser.value("document.querySelector('#time').focus()")
    browser.press("End")
    browser.until(f"{NUMBERS}.at(-1)", 99_999)
    slider = "document.querySelector('#time')"
    assert float(browser.value(f"{slider}.getAttribute('aria-valuenow')")) > 1000
    browser.value("location.hash = '#50000'")
    browser.until(SELECTED, "50000")

    frames = browser.call(
        "Runtime.evaluate", expression=FRAMES, awaitPromise=True, returnByValue=True
    )["result"]["value"]
    assert sorted(frames)[60] < 100, f"frames took {frames} ms while the list was scrolled"
    assert browser.faults() == []
    assert browser.requests() == [url]


FRAMES = """
new Promise((done) => {
  const rows = document.querySelector('#rows');
  const taken = [];
  let last = performance.now();
  const step = (now) => {
    taken.push(Math.round(now - last));
    last = now;
    rows.scrollTop = (taken.length * 7919 * 24) % rows.scrollHeight;
    if (taken.length < 120) requestAnimationFrame(step);
    else done(taken);
  };
  requestAnimationFrame(step);
})
"""


def test_a_hostile_record_is_shown_and_runs_nothing(browser, tmp_path):
    attack = (
        "<img src=x onerror=\"document.title='owned'\"></script><script>alert(1)</script>\u202e"
    )
    record = tmp_path / "hostile.jsonl"
    prompt = {"id": attack, "method": "chat/prompt", "params": {"message": attack, attack: attack}}
    lines = [
        {"transcript": 1, "started": "2026-01-02T03:04:05+00:00", "command": [attack]},
        {"at": 0.1, "from": "client", "message": prompt},
        {"at": 0.2, "from": "server", "message": {"method": attack, "params": {"chatId": attack}}},
        {"at": 0.3, "from": "server", "raw": attack},
        {"at": 1e300, "from": "server", "message": {"method": "__proto__", "params": []}},
    ]
    record.write_text("".join(json.dumps(line) + "\n" for line in lines))
    url = page_of(record)
    browser.open(url)
    for number in range(4):
        browser.value(f"location.hash = '#{number}'")
        browser.until(f"{TITLE}.split(' ')[0]", str(number))
    assert browser.value("document.querySelectorAll('img, iframe').length") == 0
    assert browser.value("document.title") == "hostile.jsonl: inspected"
    browser.value("location.hash = '#0'")
    browser.until(f"{TITLE}.split(' ')[0]", "0")
    text = browser.value("document.querySelector('#opened').innerText")
    assert attack[:-1] + "\\u{202e}" in text
    assert browser.faults() == []
    assert browser.requests() == [url]


def test_a_conversation_is_shown_while_it_runs(browser, start_server, tmp_path):
    record = tmp_path / "live.jsonl"
    tap = ("tap", "--unmasked", "--out", str(record), "--inspect", "--no-open", "--")
    server = start_server(command=(*SERVE[:-1], *tap, *SERVE), env={"TMPDIR": str(tmp_path)})
    params = {"processId": os.getpid(), "capabilities": {}, "workspaceFolders": []}
    server.send(message("initialize", params, request_id=1))
    while not (files := list(tmp_path.glob("eca-inspect-*.html"))) or not files[0].stat().st_size:
        os.sched_yield()
    (redirect,) = files
    assert redirect.stat().st_mode & 0o777 == 0o600
    browser.open(redirect.as_uri())
    browser.until(f"document.querySelector('#count') && {COUNT}", "2 messages")
    assert browser.value(STATE) == "following"
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", browser.value("location.href"))

    prompt = {"chatId": "c", "message": f"say {KEY}"}
    server.send(message("initialized", {}))
    server.send(message("chat/prompt", prompt, request_id=2))
    browser.until("document.body?.innerText.includes('say ***')", True)
    assert KEY in record.read_text()
    browser.value("location.reload()")
    browser.until("document.body?.innerText.includes('say ***')", True)
    browser.until(STATE, "following")

    server.send(message("shutdown", request_id=3))
    server.send(message("exit"))
    server.close_input()
    browser.until(STATE, "ended")
    assert not browser.value(f"document.documentElement.textContent.includes('{KEY}')")
    assert browser.faults() == []
