"""The inspector's server: its access checks, and slow readers that delay nothing."""

from typing import Any

import pytest
import trio

from eca_protocol.http_server import HTTPRequest
from eca_protocol.transcript import lock_file
from eca_server.workbench.inspector.command import Follower
from eca_server.workbench.inspector.inspection import Inspection
from eca_server.workbench.inspector.serving import Feed, Site

HEAD = b'{"transcript":1,"started":"2026-01-02T03:04:05+00:00","command":["eca"]}\n'
ENTRY = b'{"at":0.1,"from":"client","message":{"jsonrpc":"2.0","method":"exit"}}\n'
EXIT = b'{"at":0.2,"exit":0}\n'


class Answer:
    """A recorder of a site's answer; with `gate`, it reads nothing before the gate is set."""

    def __init__(self, gate: trio.Event | None = None) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.sent: list[bytes] = []
        self._gate = gate

    async def respond(self, status: int, body: bytes = b"", headers: Any = ()) -> None:
        await self.start(status, headers)
        self.sent.append(body)

    async def start(self, status: int, headers: Any = ()) -> None:
        self.status, self.headers = status, dict(headers)

    async def send(self, *pieces: bytes) -> None:
        if self._gate is not None:
            await self._gate.wait()
        await trio.lowlevel.checkpoint()
        self.sent += pieces


def a_site(port: int = 4711) -> Site:
    feed = Feed()
    feed.add(b"a secret part")
    feed.close()
    site = Site("kept.jsonl", feed)
    site.port = port
    return site


GOOD = {
    "host": "127.0.0.1:4711",
    "origin": "http://127.0.0.1:4711",
    "authorization": "Bearer TOKEN",
}
EVIL = "evil.example:4711"
AT_PORT_80 = ("127.0.0.1", "localhost:80")  # browsers leave the port out


@pytest.mark.parametrize(
    ("method", "target", "changed", "status"),
    [
        ("POST", "/parts", {}, 200),
        ("POST", "/parts", {"host": "localhost:4711", "origin": "http://localhost:4711"}, 200),
        *(
            ("POST", "/parts", {"host": host, "origin": f"http://{host}"}, 200)
            for host in AT_PORT_80
        ),
        ("GET", "/parts", {}, 405),
        ("POST", "/", {}, 404),
        ("POST", "/other", {}, 404),
        ("POST", "/parts", {"host": EVIL}, 403),
        ("GET", "/", {"host": EVIL}, 403),
        ("GET", "/", {"host": "127.0.0.1"}, 403),
        ("GET", "/", {"host": None}, 403),
        ("POST", "/parts", {"origin": f"http://{EVIL}"}, 403),
        ("POST", "/parts", {"origin": "http://127.0.0.1:80"}, 403),
        ("POST", "/parts", {"origin": "https://127.0.0.1:4711"}, 403),
        ("POST", "/parts", {"origin": "null"}, 403),
        ("POST", "/parts", {"origin": None}, 403),
        ("POST", "/parts", {"authorization": None}, 403),
        ("POST", "/parts", {"authorization": "Bearer \xff"}, 403),
        ("POST", "/parts?TOKEN", {"authorization": "Bearer "}, 403),
    ],
)
async def test_only_the_page_with_the_token_gets_the_parts(method, target, changed, status):
    is_at_80 = "origin" in changed and changed.get("host") in AT_PORT_80
    site, answer = a_site(80 if is_at_80 else 4711), Answer()
    headers = {name: value for name, value in {**GOOD, **changed}.items() if value is not None}
    headers = {name: value.replace("TOKEN", site.token) for name, value in headers.items()}
    target = target.replace("TOKEN", site.token)
    request = HTTPRequest(method=method, target=target, headers=headers, body=b"")
    await site.handle(request, answer)  # type: ignore[arg-type]  # has the methods that are used
    assert answer.status == status
    assert (b"a secret part" in answer.sent) == (status == 200)
    assert not any(name.startswith("access-control") for name in answer.headers)


async def test_the_page_itself_contains_no_data_and_no_token() -> None:
    site, answer = a_site(), Answer()
    request = HTTPRequest(method="GET", target="/", headers={"host": GOOD["host"]}, body=b"")
    await site.handle(request, answer)  # type: ignore[arg-type]  # as above
    assert answer.status == 200
    assert b"a secret part" not in answer.sent[0]
    assert site.token.encode() not in answer.sent[0]
    assert answer.headers["content-security-policy"] == "frame-ancestors 'none'"
    assert answer.headers["cache-control"] == "no-store"
    assert site.address == f"http://127.0.0.1:4711/#{site.token}"
    assert site.token != a_site().token
    assert len(site.token) >= 43


async def test_each_reader_gets_all_parts_and_a_slow_one_loses_the_oldest(nursery: trio.Nursery):
    feed, gate = Feed(max_stored=4), trio.Event()
    slow, quick, late = Answer(gate), Answer(), Answer()
    feed.add(b"head")
    for reader in (slow, quick):
        nursery.start_soon(feed.read, reader)
    for part in (b"11", b"22", b"33", b"44"):
        await trio.testing.wait_all_tasks_blocked()
        feed.add(part)
    nursery.start_soon(feed.read, late)
    await trio.testing.wait_all_tasks_blocked()
    assert (feed.readers, feed.drained.is_set()) == (3, False)
    feed.close()
    gate.set()
    await feed.drained.wait()
    assert feed.readers == 0
    assert quick.sent == [b"head", b"11", b"22", b"33", b"44"]
    assert slow.sent == late.sent == [b"head", b"33", b"44"]


@pytest.mark.parametrize(
    ("pieces", "count"),
    [
        ((HEAD, ENTRY, EXIT), 2),
        ((HEAD + ENTRY[:30], ENTRY[30:] + ENTRY, EXIT[:3], EXIT[3:]), 3),
        ((HEAD[:10], HEAD[10:] + ENTRY + EXIT), 2),
        ((HEAD, ENTRY, b"nonsense\n"), 1),
    ],
)
async def test_a_transcript_is_followed_while_it_is_written(
    pieces, count, tmp_path, autojump_clock, nursery
):
    path, feed, answer = tmp_path / "kept.jsonl", Feed(), Answer()
    path.touch()
    with path.open("rb") as file, path.open("ab", buffering=0) as writer:
        lock_file(writer.fileno())
        follower = Follower(file, Inspection("kept.jsonl", lambda data: data), feed)
        nursery.start_soon(follower.follow)
        nursery.start_soon(feed.read, answer)
        for piece in pieces:
            await trio.sleep(1)
            writer.write(piece)
        await feed.drained.wait()
    text = b"".join(answer.sent).decode()
    assert text.count('"exit",') == count
    assert ('"fault"' in text) == (pieces[-1] == b"nonsense\n")


@pytest.mark.parametrize("ending", ["tap", "writer"])
async def test_a_record_without_an_end_is_followed_until_its_writer_is_gone(
    ending, tmp_path, capsys, autojump_clock
):
    path, feed, answer = tmp_path / "kept.jsonl", Feed(), Answer()
    entry = ENTRY.replace(b"exit", b"initialized")
    path.write_bytes(HEAD + entry)
    with path.open("rb") as file, path.open("ab", buffering=0) as writer:
        lock_file(writer.fileno())
        follower = Follower(file, Inspection("kept.jsonl", lambda data: data), feed)
        with trio.move_on_after(100):
            await follower.follow()
            raise AssertionError("the record was still being written")
        writer.write(entry)
        if ending == "tap":
            follower.tap_has_ended.set()
        else:
            writer.close()
        with trio.fail_after(100):
            await follower.follow()
    await feed.read(answer)
    why = "kept.jsonl: the record ends before the end of the conversation"
    assert f'"fault":"{why}"' in b"".join(answer.sent).decode()
    assert capsys.readouterr().err == f"eca-server inspect: {why}\n"
