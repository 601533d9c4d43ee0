"""One typed method for each message that a client sends, named as in the method table.

A method takes the fields of its message's params by name, and returns the message's result. Most
methods exist only in CURRENT: with an older server their requests raise LocalProtocolError, and
their notifications are not sent.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

from eca_protocol import messages as m
from eca_protocol.client.session import Session

__all__ = ["Calls"]

P = ParamSpec("P")
R = TypeVar("R")


def _request(
    method: str, params: Callable[P, Any], result: type[R], doc: str
) -> Callable[Concatenate[Session, P], Coroutine[Any, Any, R]]:
    """Return the method for a request; `result` is only its type."""

    async def request(self: Session, /, *args: P.args, **fields: P.kwargs) -> R:
        answer: R = await self.request(method, params(*args, **fields))
        return answer

    request.__doc__ = doc
    return request


def _notification(
    method: str, params: Callable[P, Any], doc: str
) -> Callable[Concatenate[Session, P], None]:
    """Return the method for a notification."""

    def notify(self: Session, /, *args: P.args, **fields: P.kwargs) -> None:
        self.notify(method, params(*args, **fields))

    notify.__doc__ = doc
    return notify


class Calls(Session):
    """The client's side of the protocol, message by message; see `Session` for its exceptions.

    A message of the user is identified by the `content_id` of its echo.
    """

    async def chat_prompt(
        self,
        message: str,
        *,
        chat_id: str | None = None,
        model: str | None = None,
        behavior: m.ChatBehavior | None = None,
        variant: str | None = None,
        trust: bool | None = None,
        contexts: Sequence[m.ChatContext] = (),
    ) -> m.ChatPromptResponse:
        """Send a prompt; its contents come as events. See `Chat.prompt` for a turn with both.

        `behavior` is sent under the revision's name for it. `trust` lets tools run without
        approval. `variant` and `trust` are not sent to servers older than CURRENT.
        """
        params = m.ChatPromptParams(
            chat_id=chat_id,
            message=message,
            model=model,
            behavior=behavior,
            agent=behavior,
            variant=variant,
            trust=trust,
            contexts=tuple(contexts),
        )
        result: m.ChatPromptResponse = await self.request("chat/prompt", params)
        return result

    chat_inline_prompt = _request(
        "chat/inlinePrompt",
        m.ChatInlinePromptParams,
        m.ChatPromptResponse,
        """Send a prompt of a chat that is shown inline in a file; its contents come as events.

        A new chat begins with the messages of `source_chat_id`.
        """,
    )
    chat_prompt_stop = _notification(
        "chat/promptStop", m.ChatPromptStopParams, "Stop the chat's running turn."
    )
    chat_prompt_steer = _notification(
        "chat/promptSteer",
        m.ChatPromptSteerParams,
        "Send a message to the running turn, for its next request to the model.",
    )
    chat_prompt_steer_remove = _notification(
        "chat/promptSteerRemove",
        m.ChatPromptSteerRemoveParams,
        "Withdraw the message of `chat_prompt_steer`, unless the model has received it.",
    )
    chat_tool_call_approve = _notification(
        "chat/toolCallApprove",
        m.ChatToolCallApproveParams,
        'Approve a waiting tool call; `save="session"` approves later calls of the tool, too.',
    )
    chat_tool_call_reject = _notification(
        "chat/toolCallReject", m.ChatToolCallRejectParams, "Reject a waiting tool call."
    )
    chat_query_context = _request(
        "chat/queryContext",
        m.ChatQueryContextParams,
        m.ChatQueryContextResponse,
        "Return the contexts that match a query; a blank query matches all.",
    )
    chat_query_files = _request(
        "chat/queryFiles",
        m.ChatQueryFilesParams,
        m.ChatQueryFilesResponse,
        "Return the files and directories whose path contains `query`.",
    )
    chat_query_commands = _request(
        "chat/queryCommands",
        m.ChatQueryCommandsParams,
        m.ChatQueryCommandsResponse,
        "Return the slash commands that match a query; a blank query matches all.",
    )
    chat_delete = _request(
        "chat/delete",
        m.ChatDeleteParams,
        m.ChatDeleteResponse,
        "Delete a chat with its messages, tokens and costs.",
    )
    chat_selected_behavior_changed = _notification(
        "chat/selectedBehaviorChanged",
        m.ChatSelectedBehaviorChanged,
        "Select the default behaviour of prompts.",
    )
    chat_selected_agent_changed = _notification(
        "chat/selectedAgentChanged",
        m.ChatSelectedAgentChanged,
        "Select the default agent, as newer editions call it.",
    )
    chat_selected_model_changed = _notification(
        "chat/selectedModelChanged",
        m.ChatSelectedModelChanged,
        "Select the default model of prompts, for one chat or for all.",
    )

    chat_list = _request(
        "chat/list",
        m.ChatListParams,
        m.ChatListResponse,
        "Return the chats of the workspace, the newest first.",
    )
    chat_open = _request(
        "chat/open",
        m.ChatOpenParams,
        m.ChatOpenResponse,
        "Let the server replay a chat; its contents come as events before the answer.",
    )
    chat_history = _request(
        "chat/history",
        m.ChatHistoryParams,
        m.ChatHistoryResponse,
        "Return a page of a chat's contents; `before` and `after` are cursors of an answer.",
    )
    chat_clear = _request(
        "chat/clear",
        m.ChatClearParams,
        m.ChatClearResponse,
        "Delete a chat's `messages`, but not the chat.",
    )
    chat_update = _request(
        "chat/update",
        m.ChatUpdateParams,
        m.ChatUpdateResponse,
        "Set a chat's title or the trust in its tools; None changes nothing.",
    )
    chat_rollback = _request(
        "chat/rollback",
        m.ChatRollbackParams,
        m.ChatRollbackResponse,
        """Go back to before a message.

        `include` undoes the messages, the changes of tools, or (empty) both.
        """,
    )
    chat_fork = _request(
        "chat/fork",
        m.ChatForkParams,
        m.ChatForkResponse,
        "Start a new chat with the messages up to `content_id`; it comes as an event, too.",
    )
    chat_add_flag = _request(
        "chat/addFlag", m.ChatAddFlagParams, m.ChatAddFlagResponse, "Set a named flag at a message."
    )
    chat_remove_flag = _request(
        "chat/removeFlag",
        m.ChatRemoveFlagParams,
        m.ChatRemoveFlagResponse,
        "Remove the flag at a message.",
    )

    workspace_did_change_workspace_folders = _notification(
        "workspace/didChangeWorkspaceFolders",
        m.WorkspaceDidChangeWorkspaceFoldersParams,
        "Announce a change of the project's roots.",
    )
    mcp_start_server = _notification(
        "mcp/startServer", m.MCPStartServerParams, "Start a stopped MCP server."
    )
    mcp_stop_server = _notification("mcp/stopServer", m.MCPStopServerParams, "Stop an MCP server.")
    mcp_connect_server = _notification(
        "mcp/connectServer",
        m.MCPConnectServerParams,
        "Log in to an MCP server whose status is `requires-auth`.",
    )
    mcp_logout_server = _notification(
        "mcp/logoutServer", m.MCPLogoutServerParams, "Delete the login to an MCP server."
    )
    mcp_enable_server = _notification(
        "mcp/enableServer", m.MCPEnableServerParams, "Enable an MCP server."
    )
    mcp_disable_server = _notification(
        "mcp/disableServer", m.MCPDisableServerParams, "Stop and disable an MCP server."
    )
    mcp_add_server = _request(
        "mcp/addServer",
        m.MCPAddServerParams,
        m.MCPAddServerResult,
        "Add an MCP server; its status comes as events.",
    )
    mcp_update_server = _request(
        "mcp/updateServer",
        m.MCPUpdateServerParams,
        m.MCPUpdateServerResult,
        "Change the command or URL of an MCP server; None changes nothing.",
    )
    mcp_remove_server = _request(
        "mcp/removeServer",
        m.MCPRemoveServerParams,
        m.MCPRemoveServerResult,
        "Stop and remove an MCP server.",
    )
    providers_list = _request(
        "providers/list",
        m.ProvidersListParams,
        m.ProvidersListResult,
        "Return the providers of models, with their logins and models.",
    )
    providers_login = _request(
        "providers/login",
        m.ProvidersLoginParams,
        m.ProvidersLoginResult,
        "Begin a login; the answer contains the next step.",
    )
    providers_login_input = _request(
        "providers/loginInput",
        m.ProvidersLoginInputParams,
        m.ProvidersLoginResult,
        "Send the user's input as `data`, by the keys of the login's fields.",
    )
    providers_logout = _request(
        "providers/logout",
        m.ProvidersLogoutParams,
        m.ProvidersLogoutResult,
        "Delete the login to a provider.",
    )
    jobs_list = _request(
        "jobs/list", m.JobsListParams, m.JobsListResult, "Return the background jobs."
    )
    jobs_kill = _request(
        "jobs/kill",
        m.JobsKillParams,
        m.JobsKillResult,
        "End a job; `killed` is false if it was not running.",
    )
    jobs_read_output = _request(
        "jobs/readOutput",
        m.JobsReadOutputParams,
        m.JobsReadOutputResult,
        "Return a job's output so far.",
    )
    completion_inline = _request(
        "completion/inline",
        m.CompletionInlineParams,
        m.CompletionInlineResponse,
        "Return completions at `position` (counted from 1) of a document.",
    )
    rewrite_prompt = _request(
        "rewrite/prompt",
        m.RewritePromptParams,
        m.RewritePromptResponse,
        "Rewrite a part of a file; the new text comes as events with `id`.",
    )
