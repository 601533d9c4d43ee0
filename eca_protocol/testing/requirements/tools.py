"""Rows of tool calls: their contents and the user's decisions."""

from __future__ import annotations

from functools import partial

from eca_protocol.revisions import Revision, Window
from eca_protocol.testing.requirements.row import SINCE_2025_10, row

_call = partial(row, section="Chat Content Received")
_approve = partial(row, section="Chat approve tool call")
_reject = partial(row, section="Chat reject tool call")

ROWS = (
    _call("TOOL-1", "server", "`toolCallPrepare` is sent for each piece of the arguments."),
    _call("TOOL-2", "client", "The pieces of one call's arguments are joined in order."),
    _call("TOOL-3", "server", "`toolCallRun` is sent once per call."),
    _call(
        "TOOL-4",
        "server",
        "`manualApproval` is true if and only if the call waits for the user's approval.",
    ),
    _call("TOOL-5", "server", "`toolCallRunning` is sent once per call, when it starts."),
    _call("TOOL-6", "server", "`toolCalled` is sent once per call, when it has a result."),
    _call(
        "TOOL-7",
        "server",
        "`toolCalled` has the outputs, the error flag and the duration in milliseconds.",
    ),
    _call("TOOL-8", "server", "`toolCallRejected` is sent once per call, with its reason."),
    _call(
        "TOOL-9",
        "server",
        "The reason is `user-choice` for the user's rejection, else `user-config`.",
    ),
    _call("TOOL-10", "server", "The origin of a call is `native` or `mcp`."),
    _call(
        "TOOL-11",
        "server",
        "Every content of a call names the tool's server.",
        window=SINCE_2025_10,
    ),
    _call("TOOL-12", "server", "A summary describes the call.", level="should"),
    _call(
        "TOOL-13",
        "server",
        "A call that changes a file has its path, its diff and the numbers of changed lines.",
        ruling="W-35",
    ),
    _approve("TOOL-14", "server", "An approved call runs, and the turn continues."),
    _approve(
        "TOOL-15",
        "server",
        "`save: session` approves this tool until the end of the session.",
        window=SINCE_2025_10,
    ),
    _approve("TOOL-16", "client", "A waiting call is approved by chat id and call id."),
    _approve(
        "TOOL-17",
        "client",
        "An approval may be saved for the session.",
        window=SINCE_2025_10,
    ),
    _reject("TOOL-18", "server", "A rejected call does not run."),
    _reject(
        "TOOL-19",
        "server",
        "The model continues after a rejection.",
        window=Window(until=Revision.R2025_10),
        ruling="W-31",
    ),
    _reject("TOOL-20", "client", "A waiting call is rejected by chat id and call id."),
)
