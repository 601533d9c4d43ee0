"""Pictures, sources and calls: shown as they come, described for others, and shown again (W-43)."""

import base64
import errno
import itertools
import os
import re
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from eca_protocol.messages import ChatImageContent, ChatTextContent
from eca_protocol.testing.provider import Provider, chunk, hang, reply, wait
from eca_server.agent.chat.pictures import (
    MOST_FILES,
    MOST_PICTURES,
    FirstPictures,
    Gallery,
    picture_content,
)
from eca_server.agent.mcp.messages import ToolResult
from eca_server.client.content_formatting import LARGEST_PICTURE, ContentFormatter
from eca_server.client.profiles import ClientProfile, Display
from eca_server.models.events import TextDelta
from eca_server.models.history import BlockPart, ImagePart, TextPart
from tests.eca_server.agent.chat.agent_session import ALLOW, calls, older, today
from tests.eca_server.agent.chat.current import current
from tests.eca_server.agent.chat.editor import SCRIPT, Content, call, contents, provider_config
from tests.eca_server.agent.chat.mcp_session import GIT, status
from tests.eca_server.models.openai_responses import scripted

PNG = b"\x89PNG\r\n\x1a\nof a model"
JPEG = b"\xff\xd8\xffof a server"
GIF = b"GIF89a of a file"


def shown(data: bytes, media_type: str) -> tuple[str, dict[str, Any]]:
    encoded = base64.b64encode(data).decode()
    return "assistant", {"type": "image", "mediaType": media_type, "base64": encoded}


def pictures(received: list[tuple[str, Content]]) -> list[tuple[str, Any]]:
    """The pictures, and what stands before each."""
    pairs = itertools.pairwise(received)
    return [(before[1]["type"], each) for before, each in pairs if each[1]["type"] == "image"]


@pytest.mark.requirement("FIELD:ChatImageContent.type", "VALUE:ChatImageContent.type=image",
                         "FIELD:ChatImageContent.mediaType", "FIELD:ChatImageContent.base64",
                         "VALUE:ChatContent=ChatImageContent")  # fmt: skip
async def test_pictures_are_shown_where_they_come_and_given_to_the_model(tmp_path, places):
    (tmp_path / "a.gif").write_bytes(GIF)
    url = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
    made = chunk({"choices": [{"index": 0, "delta": {"images": [{"image_url": {"url": url}}]}}]})
    called = calls(("eca_read_file", {"path": str(tmp_path / "a.gif")}), ("git__echo", {}))
    async with Provider([called, reply("Look: ", made)], otherwise=reply("ok")) as provider:
        config = provider_config(provider.url, mcpServers=GIT, **ALLOW)
        options = {"data": tmp_path / "data", "folder": tmp_path}
        async with current(config, **options) as ours:
            await status(ours, "git", "running")
            picture = ImagePart(data=JPEG, media_type="image/jpeg")
            places["git"].session.result = ToolResult(content=(picture,))
            await ours.turn("go")
            expected = [
                ("toolCalled", shown(GIF, "image/gif")),
                ("toolCalled", shown(JPEG, "image/jpeg")),
                ("text", shown(PNG, "image/png")),
            ]
            live = pictures(contents(ours.received))
            assert sorted(live[:2], key=lambda each: each[1][1]["mediaType"]) == expected[:2]
            assert live[2:] == expected[2:]
            messages = str(provider.requests[1].body["messages"])
            for data in (GIF, JPEG):
                assert messages.count(base64.b64encode(data).decode()) == 1
            await ours.turn("and now?")
            assert url not in str(provider.requests[2].body)
        async with current(config, **options) as ours:
            assert pictures(await ours.reopen()) == expected


@pytest.mark.long(but=2)
@pytest.mark.parametrize("client", ["Neovim", "VsCode", "IntelliJ", "Desktop"])
async def test_a_file_is_linked_until_the_chat_is_gone_where_none_is_shown(tmp_path, client):
    def linked(messages: Any) -> list[Path]:
        words = r"\[a picture: image/png, [0-9]+ bytes\]"
        if client == "Neovim":
            uris = re.findall(words + r"\((.+?)\)", str(messages))
            return [Path(unquote(urlsplit(uri).path)) for uri in uris]
        return [Path(path) for path in re.findall(words + r" `(.+?)`", str(messages))]

    (tmp_path / "a.png").write_bytes(PNG)
    script = f'draw\ncall eca_read_file {{"path": "{tmp_path / "a.png"}"}}\nsay done'
    neovim = {"clientInfo": {"name": client}, "data": tmp_path / "da ta", "folder": tmp_path}
    async with current(**neovim) as ours:
        for chat in ("c", "d"):
            await ours.turn(script, chat, model=SCRIPT)
        files = linked(ours.received)
        assert len(set(files)) == 4
        assert files[1].read_bytes() == PNG
        for each in files:
            assert stat.S_IMODE(each.stat().st_mode) == 0o600
            for folder in (each.parent, each.parent.parent):
                assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    async with current(**neovim) as ours:
        assert linked(await ours.reopen()) == files[:2]
        await ours.ask("chat/delete", {"chatId": "c"})
        await ours.ask("chat/clear", {"chatId": "d", "messages": True})
    assert [each for each in (tmp_path / "da ta").rglob("*.p*") if each.is_file()] == []
    async with current(**{**neovim, "clientInfo": {"name": "other"}}) as ours:
        await ours.turn(script, model=SCRIPT)
        assert linked(ours.received) == []
    assert list((tmp_path / "da ta").rglob("*.png")) == []


async def test_a_chat_has_so_many_files_and_a_failing_disk_costs_links(tmp_path, monkeypatch):
    gallery = Gallery(tmp_path / "data")
    picture_contents = [picture_content(PNG + bytes([n])) for n in range(MOST_FILES + 1)]
    for each in picture_contents:
        await gallery.store("c", each)
    assert [gallery.link("c", each) is None for each in picture_contents] == [
        False
    ] * MOST_FILES + [True]
    await gallery.remove("never")

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "fsync", full)
    await gallery.store("d", picture_contents[0])
    assert gallery.link("d", picture_contents[0]) is None
    files = [each for each in (tmp_path / "data" / "pictures").rglob("*") if each.is_file()]
    assert len(files) == MOST_FILES
    (tmp_path / "file").touch()
    broken = Gallery(tmp_path / "file")
    await broken.store("c", picture_contents[0])
    assert broken.link("c", picture_contents[0]) is None


async def test_an_answer_holds_only_so_many_pictures(client):
    received = await client.turn("draw\n" * (MOST_PICTURES + 2), model=SCRIPT)
    assert [each["type"] for each in received].count("image") == MOST_PICTURES
    [notice] = [each["text"] for each in received if "were dropped" in each.get("text", "")]
    assert notice.startswith(f"The answer contained {MOST_PICTURES + 2} pictures")


async def test_what_belongs_to_a_picture_too_many_is_dropped_with_it():
    picture, block = ImagePart(media_type="image/png", data=PNG), BlockPart(raw={})
    first = FirstPictures()
    events = [*[picture, block] * (MOST_PICTURES + 1), block, TextDelta("x"), block]
    dropped = [place for place, event in enumerate(events) if first.drops(event)]
    assert dropped == [2 * MOST_PICTURES, 2 * MOST_PICTURES + 1]


@pytest.mark.parametrize(
    ("content", "substitute"),
    [
        (picture_content(PNG), None),
        (picture_content(b"<svg/>"), "[a picture: application/octet-stream, 6 bytes]"),
        (ChatImageContent(media_type="image/png", base64="A" * LARGEST_PICTURE), None),
        (
            ChatImageContent(media_type="image/png", base64="A" * (LARGEST_PICTURE + 2) + "=="),
            "[a picture: image/png, 6,291,457 bytes]",
        ),
    ],
    ids=["small", "none", "large", "too large"],
)
async def test_what_no_frame_holds_and_what_is_no_picture_is_reported_in_text(content, substitute):
    formatter = ContentFormatter(ClientProfile(display=Display(shows_pictures=True)))
    [written] = formatter.messages("c", "assistant", content)
    if substitute is None:
        assert (written.role, written.content) == ("assistant", content)
    else:
        assert (written.role, written.content) == ("system", ChatTextContent(text=substitute))


async def test_openai_s_own_tool_is_switched_on_by_the_user_and_its_picture_shown():
    data = base64.b64encode(JPEG).decode()
    item = {"type": "image_generation_call", "id": "ig", "status": "completed", "result": data}
    drawing = {"type": "image_generation"}
    script = [scripted.reply(scripted.other(item)), scripted.reply(scripted.message("Done"))]
    models = {"m": {"extraPayload": {"tools": [drawing]}}}
    api = {"api": "openai-responses", "models": models}
    async with today(*script, provider=api) as (ours, provider):
        await ours.turn("Draw", model="p/m")
        assert pictures(contents(ours.received))[0][1] == shown(JPEG, "image/jpeg")
        await ours.turn("What is it?", model="p/m")
        for request in provider.requests:
            assert request.body["tools"][-1] == drawing
        [back] = [each for each in provider.requests[1].body["input"] if each.get("type")]
        assert (back["type"], back["result"]) == (item["type"], data)
        assert str(provider.requests[1].body).count(data) == 1


PAGE = "https://e.test/a"


def urls(received: list) -> list[str]:
    return [each["url"] for each in received if each["type"] == "url"]


@pytest.mark.requirement("W-26c")
@pytest.mark.parametrize(
    ("script", "links", "shown"),
    [
        (f"say see [A]({PAGE}) there\ncite {PAGE} A", [PAGE], f"see [A]({PAGE}) there"),
        ("say a\ncite javascript:alert(1) A", [], "a"),
        ("cite https://e.test/a_(b) [1] x\\nb", ["https://e.test/a_(b)"],
            r"[\[1\] x\\nb](https://e.test/a_%28b%29)"),
    ],
    ids=["a text that has the link", "what is no page", "odd characters"],
)  # fmt: skip
async def test_a_link_is_one_and_only_for_a_page_on_the_web(ours, script, links, shown):
    received = await ours.turn(script, model=SCRIPT)
    assert urls(received) == links
    assert received.answer.strip() == shown


async def test_sources_of_a_search_are_shown_as_they_come_and_stored_by_a_stop() -> None:
    cites = [scripted.citation(PAGE, "A", 0, 4), scripted.citation(PAGE, "A", 5, 9)]
    answer = [scripted.search("rain", PAGE), scripted.message("Rain", cites=cites)]
    begun = scripted.answer(*answer)[:-5]
    script = [
        scripted.reply(
            scripted.search("rain", PAGE),
            scripted.message("Rain", cites=cites),
            scripted.call("directory_tree", "{}"),
        ),
        scripted.reply(scripted.message("Again", cites=cites)),
        scripted.steps(begun, wait("here"), hang()),
    ]
    async with older(*script, provider={"api": "openai-responses"}) as (ours, provider):
        received = await ours.turn("Will it rain?", model="p/m")
        assert urls(received) == [PAGE]
        assert received.answer == f"Rain [A]({PAGE})Again"
        states = [each["text"] for each in received if each["type"] == "progress"]
        assert "Using the provider's web search" in states
        await ours.prompt("And now?", model="p/m")
        await provider.until(lambda: "here" in provider.reached)
        await ours.content("url")
        await ours.expect_stopped()
        assert urls(ours.contents()) == [PAGE, PAGE]
        assert ours.contents().finishes == 2
        await provider.until(lambda: provider.requests[-1].closed_by_client)


ENDS = {"toolCalled", "toolCallRejected", "reasonFinished", "url", "text"}


def looks(received: Sequence[tuple[str, Content]]) -> list[Mapping[str, Any]]:
    """Return what the user sees at the end: finished calls and thoughts, sources, joined texts."""
    shown_contents: list[dict[str, Any]] = []
    for role, content in received:
        if content["type"] not in ENDS or role == "system":
            continue
        if (
            content["type"] == "text"
            and shown_contents
            and shown_contents[-1]["type"] == "text"
            and role != "user"
        ):
            shown_contents[-1]["text"] += content["text"]
            continue
        hides = {"reasonFinished": "id"}.get(content["type"])
        shown_contents.append({key: value for key, value in content.items() if key != hides})
    # A card stays where its call began, whenever that ends.
    return sorted(shown_contents, key=lambda each: str(each.get("id", "")))


@pytest.mark.requirement("W-43d")
async def test_calls_thoughts_and_sources_look_as_they_looked(tmp_path, places):
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "old.txt").write_text("old\n")
    script = "\n".join(
        [
            "think hm",
            call("write_file", path=str(folder / "new.txt"), content="new\n"),
            'call git__echo {"text": "x"}',
            call("shell_command", command="exit 3"),
            call("directory_tree"),
            "say As",
            "cite https://example.org/a(b) An [Example]",
            "cite https://example.org/a(b) An [Example]",
        ]
    )
    config = {
        "mcpServers": GIT,
        "toolCall": {"approval": {"byDefault": "allow", "deny": {"eca__directory_tree": {}}}},
    }
    options = {"data": tmp_path / "data", "folder": folder}
    async with current(config, **options) as ours:
        await status(ours, "git", "running")
        places["git"].session.result = ToolResult(content=(TextPart('{"a": [1]}'),))
        await ours.turn(script, model=SCRIPT)
        live = looks(contents(ours.received))
        kinds = [each["type"] for each in live]
        assert kinds.count("toolCalled") == 3
        assert kinds.count("toolCallRejected") == kinds.count("url") == 1
        assert "new.txt" in str([each.get("details") for each in live])
        assert "[An \\\\[Example" in str(live)
        assert looks(await ours.reopen()) == live
    async with current(config, **options) as ours:
        assert looks(await ours.reopen()) == live


async def test_a_call_and_a_thought_of_no_time_at_all_show_no_bare_zero(tmp_path):
    async with current(data=tmp_path, folder=tmp_path) as ours:
        await ours.turn("think hm\ncall eca_no_such_tool {}\nsay done", model=SCRIPT)
        times = [c["totalTimeMs"] for _, c in contents(ours.received) if "totalTimeMs" in c]
        assert len(times) == 2
        assert all(times)
