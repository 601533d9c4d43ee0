"""The end of a connection closes each part, whatever fails in a different one."""

import errno
from typing import Any

from eca_server.connection.features.hooks import SessionHooks
from tests.eca_server.agent.chat.editor import SCRIPT, editor


async def test_hooks_that_cannot_be_ended_leave_the_end_of_the_chats_alone(monkeypatch):
    async def fail(_: SessionHooks) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(SessionHooks, "end_session", fail)
    async with editor({}) as ours:
        await ours.prompt("wait forever", model=SCRIPT)
        request: Any = ours.request("shutdown")
        await ours.send(request)
        await ours.expect_finished()
        answer = await ours.until(lambda each: each.get("id") == request["id"])
        assert "internal error: OSError" in answer["error"]["message"]
