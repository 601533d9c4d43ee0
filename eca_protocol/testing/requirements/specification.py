"""Rows of the specification's prose; see `row.rows` for the notation."""

from __future__ import annotations

from typing import Final

from eca_protocol.testing.requirements.row import rows

ROWS: Final = rows(
    """
# ECA Protocol
BASE-1 both Either side may send requests and notifications at any time.

# Header Part
BASE-2 both A message is header lines, an empty line, and its body.
BASE-3 both A header line is a name, a colon, a space and a value.
BASE-4 both Lines and the whole header block end with CR LF when written.
BASE-5 both Whitespace around a header value and the case of a header name are ignored.
BASE-6 both Content-Length counts the bytes of the body, not its characters.
BASE-7 both A header block without Content-Length is a protocol error.
BASE-8 both A Content-Length that is not a plain decimal number is a protocol error.
BASE-9 both Two different lengths in one header block are a protocol error.
BASE-10 both Content-Type may be missing; its default is JSON-RPC in UTF-8.
BASE-11 both Other headers are ignored, and headers may have any order.
BASE-12 both Header bytes outside ASCII are a protocol error.

# Content Part
BASE-13 both A body is one JSON-RPC 2.0 message.
BASE-14 both A Content-Type that names UTF-8, in any spelling, is accepted.
BASE-15 both A different charset is answered with an error, and the stream continues.

# JSON-RPC 2.0
BASE-16 both Every message has `jsonrpc: "2.0"`; other versions are refused with -32600.
BASE-17 both A request gets exactly one response, with its id.
BASE-18 both A notification is never answered.
BASE-19 both An error has an integer code, a message, and optional data.
BASE-20 both An id that is neither a number nor a string is refused with -32600 and id null.
BASE-21 both A method that is not a string is refused with -32600.
BASE-22 both Params that are neither an object nor an array are refused.
BASE-23 both A body that is not JSON is refused with -32700 and id null.
BASE-24 both JSON that is no request, notification or response is refused with -32600.
BASE-25 both A request for an unknown method is refused with -32601.
BASE-26 both Params that do not match their method are refused with -32602.
BASE-27 both An internal error is reported as -32603, without internal details.
BASE-28 both A batch is refused with -32600, and none of its messages runs.
BASE-29 both Responses are matched to requests by id, in any order.
BASE-30 both A response to no pending request is ignored.
BASE-31 both observed `$/cancelRequest` cancels a running request, which is then answered with
    -32800.
BASE-32 server should The error for invalid params names the field.

# Initialize
LIFE-1 client `initialize` is the first request.
LIFE-2 server A request before `initialize` is refused with -32002.
LIFE-3 server W-10 `initialize` is answered with an object.
LIFE-4 server A second `initialize` is refused with -32600.
LIFE-5 client `processId` is always written; it is null if there is no parent process.
LIFE-6 server W-14 The server exits when its parent process has exited.
LIFE-7 client The client sends its name, its version and its capabilities.
LIFE-8 server W-28 `chatBehavior` of the initialization options is the first behaviour.
LIFE-9 server W-42 The server sends only requests that the client's capabilities announce.
LIFE-10 server W-15 `workspaceFolders` are the workspace roots.
LIFE-11 client A client with one project sends its root as one workspace folder.

# Initialized
LIFE-12 client `initialized` follows the response to `initialize`.
LIFE-13 server W-10 Notifications start after `initialized`.

# Lifecycle Messages
LIFE-14 server W-11 One `config/updated` after `initialized` announces models, behaviours and
    defaults.
LIFE-15 server W-11 Then `tool/serverUpdated` announces the native tools.
LIFE-16 server should Capabilities and costs of models load after `initialized` without delaying it.
LIFE-17 server MCP servers start after the first update.

# Shutdown
LIFE-18 server `shutdown` has no params, and its result is null.
LIFE-19 server W-13 Pending operations finish before the response to `shutdown`.
LIFE-20 server MCP server processes exit before the response to `shutdown`.
LIFE-21 server W-13 A failed shutdown is answered with an error that has a code and a message.
LIFE-22 server After `shutdown` every further request is refused.

# Exit
LIFE-23 client should `exit` is sent after the response to `shutdown`.
LIFE-24 server W-13 `exit` has no params and ends the process.
LIFE-25 server The server releases all its resources when it ends.

# Chat Prompt
CHAT-1 server A prompt without `chatId` opens a chat, and the response has its new id.
CHAT-2 server A prompt with a `chatId` continues that chat.
CHAT-3 server `message` is sent to the model unchanged, as the user's message.
CHAT-4 server The model named in the prompt answers it; by default, the selected model.
CHAT-5 server W-28 A prompt's behaviour applies to its turn.
CHAT-6 server A prompt's contexts are sent to the model.
CHAT-7 server The response to a prompt has the chat, the model and a status.
CHAT-8 server W-21 The status `prompting` means that a request to the model is in progress.
CHAT-9 server The status `login` means that the user has to log in first.
CHAT-10 client Later prompts of a chat carry the id of its first response.

# Chat Content Received
CHAT-11 server W-26 Every content names its chat and its role.
CHAT-12 server The model's text is streamed in pieces, in order.
CHAT-13 server W-20 `progress` describes the current activity while a turn runs.
CHAT-14 server W-20 Every turn ends with `progress` finished.
CHAT-15 server The start, the texts and the end of a reasoning share one id.
CHAT-16 server The end of a reasoning has its duration in milliseconds.
CHAT-17 server W-26 A link is sent with its title.
CHAT-18 server until:2025-10 W-27 `sessionTokens` counts the input and output tokens of the whole
    chat.
CHAT-19 server Costs are those of the last message and of the whole chat.
CHAT-20 server `limit` has the model's context and output limits in tokens.
CHAT-21 server since:2025-10 `metadata` sets the title of the chat.
CHAT-22 client A content is delivered to the turn of the chat that it names.
CHAT-23 client A turn's contents end with the finished progress.

# Chat Query Context
CHAT-24 server The result of `chat/queryContext` is a list of contexts.
CHAT-25 server W-40 A query filters the list of contexts; a blank one does not.
CHAT-26 server Contexts that the client already has are taken into account.

# Chat Query Commands
CHAT-27 server The result of `chat/queryCommands` has names and descriptions.
CHAT-28 server A query filters the list of commands; a blank one does not.
CHAT-29 server W-40 The result of a query has the `chatId` of the query.
CHAT-30 server A prompt `/name` runs the command with that name.
CHAT-31 server Prompts of MCP servers are commands.

# Chat stop prompt
CHAT-32 server W-23 A stop ends the model's work for the chat.
CHAT-33 server Output of the model after a stop is dropped.
CHAT-34 server A stopped chat accepts the next prompt.

# Chat delete
CHAT-35 server W-24 A delete removes the messages, tokens and costs of the chat.
CHAT-36 server The result of a delete is an empty object.
CHAT-37 client should A chat that the client deleted starts without history.

# Chat selected behavior changed
CHAT-38 server The selected behaviour applies to later prompts.

# Chat Prompt
CHAT-39 server A request to the model holds nothing of another chat.

# Chat Content Received
TOOL-1 server `toolCallPrepare` is sent for each piece of the arguments.
TOOL-2 client The pieces of one call's arguments are joined in order.
TOOL-3 server `toolCallRun` is sent once per call.
TOOL-4 server `manualApproval` is true if and only if the call waits for the user's approval.
TOOL-5 server `toolCallRunning` is sent once per call, when it starts.
TOOL-6 server `toolCalled` is sent once per call, when it has a result.
TOOL-7 server `toolCalled` has the outputs, the error flag and the duration in milliseconds.
TOOL-8 server `toolCallRejected` is sent once per call, with its reason.
TOOL-9 server The reason is `user-choice` for the user's rejection, else `user-config`.
TOOL-10 server The origin of a call is `native` or `mcp`.
TOOL-11 server since:2025-10 Every content of a call names the tool's server.
TOOL-12 server should A summary describes the call.
TOOL-13 server W-35 A call that changes a file has its path, its diff and the numbers of changed
    lines.

# Chat approve tool call
TOOL-14 server An approved call runs, and the turn continues.
TOOL-15 server since:2025-10 `save: session` approves this tool until the end of the session.
TOOL-16 client A waiting call is approved by chat id and call id.
TOOL-17 client since:2025-10 An approval may be saved for the session.

# Chat reject tool call
TOOL-18 server A rejected call does not run.
TOOL-19 server until:2025-10 W-31 The model continues after a rejection.
TOOL-20 client A waiting call is rejected by chat id and call id.

# Chat Prompt
CTX-1 server A file context is sent as the text of the file.
CTX-2 server W-41 `linesRange` limits a file context to those lines.
CTX-3 server W-41 A directory context is sent as the contents of the directory.
CTX-4 server A web context is sent as the text at its URL.
CTX-5 server should The deprecated repository map is accepted and provided by the server.
CTX-6 server W-41 A cursor context is a position or, if its ends differ, a selection.
CTX-7 server A resource context is read from the MCP server that it names.
CTX-8 both The contexts of one prompt may have different types.

# Editor diagnostics
EDIT-1 server `editor/getDiagnostics` requests the diagnostics of one uri.
EDIT-2 server W-42 Without uri it requests the diagnostics of all workspaces.
EDIT-3 client `editor/getDiagnostics` is answered by a handler.
EDIT-4 client The handler receives None for a missing uri.
EDIT-5 both W-42 Positions in a diagnostic count from 1.

# Config updated
CONF-1 server `config/updated` lists the models and the behaviours.
CONF-2 server W-11 The first update also has the selected model and behaviour.
CONF-3 server W-11 A change of configuration or keys is announced when it happens.
CONF-4 client A missing or null member has not changed.
CONF-5 client A `select*` member replaces the client's selection.
CONF-6 server `welcomeMessage` is the first text of a new chat.

# Tool updated
CONF-7 server `tool/serverUpdated` announces the native tools with the server name ECA.
CONF-8 server The native server is always running.
CONF-9 server Each change of an MCP server's status is announced.
CONF-10 server A running MCP server is announced with its tools.
CONF-11 server A tool is announced with its schema and with `disabled`.

# Stop MCP server
CONF-12 server `mcp/stopServer` ends that server's process.
CONF-13 server The stop of a server is announced.
CONF-14 client An MCP server is stopped by name.

# Start MCP server
CONF-15 server `mcp/startServer` starts a stopped server.
CONF-16 server The start of a server and its outcome are announced.
CONF-17 client An MCP server is started by name.

# showMessage
GEN-1 server `$/showMessage` has a message for the user and its severity.
GEN-2 client W-15 `$/showMessage` reaches the client's user.

# ECA Protocol
GEN-3 client Every message that a client can send has a typed method.
GEN-4 client Every request of the server has a handler.
GEN-5 client Every notification of the server has an event.
"""
)
