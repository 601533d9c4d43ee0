"""Rows of the Agent Client Protocol, version 1, that bind agents; see `row.rows` for the notation.

A section is the page of the protocol's documentation, or JSON-RPC 2.0, on which the row is based.
"""

from __future__ import annotations

from typing import Final

from eca_protocol.testing.requirements.row import rows

ROWS: Final = rows(
    """
# ACP: Transports
ACP-1 server The output has JSON-RPC 2.0 messages, one a line, and nothing else.
ACP-2 server A message has the members and types that the schema gives its method.
ACP-3 server Each request gets one answer, with its own id.
ACP-4 server should The end of the input ends the agent.

# ACP: JSON-RPC
ACP-5 server A request for an unknown method is answered with -32601.
ACP-6 server An unknown notification is ignored.
ACP-7 server should A line that is no JSON is answered with -32700 and the id null.
ACP-8 server After a line that is no JSON the next request is served.
ACP-9 server should Missing and wrong params are answered with -32602.
ACP-10 server A request with the id of a pending request does not harm the pending one.
ACP-11 server A prompt to an unknown session is answered with an error.
ACP-12 server A request that `$/cancel_request` names is answered, at once or in the end.

# ACP: Initialization
ACP-13 server `initialize` with version 1 is answered with version 1.
ACP-14 server `initialize` with an unknown version is answered with the agent's latest version.
ACP-15 server should The answer to `initialize` has the agent's name and version.
ACP-16 server The agent uses no capability that the client did not announce.
ACP-17 server should A session before `initialize` is refused.

# ACP: Session Setup
ACP-18 server Each new session has an id of its own.
ACP-19 server should A working directory that is no absolute path is refused.
ACP-20 server `session/load` sends the whole conversation before its answer.
ACP-21 server `session/resume` sends nothing of the conversation before its answer.
ACP-22 server A session that is opened again continues with its history.
ACP-23 server `session/list` has the sessions of the requested directory, and no others.
ACP-24 server `session/close` cancels the running prompt of its session.
ACP-25 server should A deleted session is not listed, and an unknown one is deleted silently.
ACP-26 server should A method without an announced capability is answered with -32601.

# ACP: Session Config Options
ACP-27 server A change of a setting is answered with all settings, the new value among them.
ACP-28 server should An unknown mode or value of a setting is refused.

# ACP: Prompt Turn
ACP-29 server The text of the model arrives complete and unchanged.
ACP-30 server A turn that runs to its end is answered with `end_turn`.
ACP-31 server Nothing of a turn is sent after the answer of its prompt.
ACP-32 server A prompt may have texts and resource links.
ACP-33 server Sessions that run at once get only the text of their own turns.

# ACP: Tool Calls
ACP-34 server A tool call is announced by `tool_call` before it is updated.
ACP-35 server should A tool call is announced once, and has one end.
ACP-36 server should All tool calls have ended when a prompt is answered, unless it is cancelled.
ACP-37 server An allowed tool call runs, and ends as completed.
ACP-38 server A rejected tool call does not run, and its prompt is answered without an error.
ACP-39 server should A request for permission has options to allow and to reject, with unique ids.

# ACP: Cancellation
ACP-40 server A prompt that is cancelled at its start is answered `cancelled` at once.
ACP-41 server A prompt that is cancelled before the model answers is answered `cancelled` at once.
ACP-42 server A prompt that is cancelled in a text is answered `cancelled` at once.
ACP-43 server A prompt that is cancelled while a tool runs is answered `cancelled` at once.
ACP-44 server A prompt that is cancelled during a request for permission is answered `cancelled`
    at once, and the tool call does not run.
ACP-45 server After a cancelled prompt the next one runs to its end.
ACP-46 server A cancellation without a running prompt is ignored.
"""
)
