"""`view_image`: pictures for models with image input, and no other files."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from eca_server.agent.tools.tool import ToolError
from eca_server.agent.tools.view_image import ViewImage
from eca_server.models.attachments import MAX_IMAGE_BYTES
from eca_server.models.history import ImagePart, TextPart
from tests.eca_server.agent.chat.agent_session import calls, of_calls, session
from tests.eca_server.agent.tools.file_tools import files_in, prepare, run

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20
PICTURES = {
    "image/png": PNG,
    "image/jpeg": b"\xff\xd8\xff\xe0" + b"\0" * 20,
    "image/gif": b"GIF89a" + b"\0" * 20,
    "image/webp": b"RIFF\0\0\0\0WEBP" + b"\0" * 20,
}


@pytest.fixture
def tool(tmp_path: Path) -> ViewImage:
    return ViewImage(files=files_in(tmp_path))


@pytest.mark.parametrize("media_type", PICTURES)
async def test_a_picture_is_shown_by_its_content(tool, tmp_path, media_type):
    (tmp_path / "shot.txt").write_bytes(PICTURES[media_type])
    text, picture = (await run(tool, path="shot.txt")).parts
    assert isinstance(text, TextPart)
    assert picture == ImagePart(media_type=media_type, data=PICTURES[media_type])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"text", "Expected a PNG, JPEG, GIF or WebP picture, got a different type"),
        (b"%PDF-1.7", "got application/pdf"),
        (PNG + b"\0" * MAX_IMAGE_BYTES, "smaller copy"),
    ],
    ids=["text", "PDF", "too large"],
)
async def test_what_is_no_picture_is_refused(tool, tmp_path, data, message):
    (tmp_path / "a.png").write_bytes(data)
    with pytest.raises(ToolError, match=message):
        await run(tool, path="a.png")


async def test_the_place_that_is_judged_is_the_place_that_is_opened(tmp_path):
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.mkdir()
    (outside / "a.png").write_bytes(PNG)
    (inside / "link.png").symlink_to(outside / "a.png")
    call = await prepare(ViewImage(files=files_in(inside)), path="link.png")
    (place,) = call.places
    assert place.real_path == (outside / "a.png").resolve()


@pytest.mark.parametrize("sees", [True, False])
async def test_only_models_with_image_input_are_offered_it(tmp_path, *, sees):
    (tmp_path / "a.png").write_bytes(PNG)
    script = calls(("eca_view_image", {"path": "a.png"}))
    async with session(tmp_path, script) as (ours, provider):
        models = ours.connection.config.providers["p"].models
        models["m"] = attrs.evolve(models["m"], image_input=sees)  # type: ignore[index]
        ours.connection.parts.models.renew()
        await ours.turn("go")
        offered = {each["function"]["name"] for each in provider.requests[0].body["tools"]}
        assert ("eca_view_image" in offered) is sees
        assert of_calls(ours)[-1]["error"] is not sees


async def test_a_picture_outside_the_workspace_asks(tmp_path):
    inside = tmp_path / "in"
    inside.mkdir()
    (tmp_path / "a.png").write_bytes(PNG)
    async with session(inside, calls(("eca_view_image", {"path": "../a.png"}))) as (ours, _):
        await ours.prompt("go")
        assert (await ours.content("toolCallRun"))["manualApproval"] is True
