"""Typed methods for prompts, tool calls, queries and selections, named as in the method table."""

from __future__ import annotations

from collections.abc import Sequence

from eca_protocol import messages as m
from eca_protocol.client.caller import Caller

__all__ = ["ChatCalls"]


class ChatCalls(Caller):
    """A client's messages about a chat; see `Caller` for their exceptions."""

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
        result: m.ChatPromptResponse = await self._request("chat/prompt", params)
        return result

    async def chat_inline_prompt(
        self,
        message: str,
        *,
        chat_id: str,
        source_chat_id: str | None = None,
        model: str | None = None,
        agent: str | None = None,
        variant: str | None = None,
        trust: bool | None = None,
        contexts: Sequence[m.ChatContext] = (),
    ) -> m.ChatPromptResponse:
        """Send a prompt of a chat that is shown inline in a file; its contents come as events.

        A new chat begins with the messages of `source_chat_id`.
        """
        params = m.ChatInlinePromptParams(
            chat_id=chat_id,
            source_chat_id=source_chat_id,
            message=message,
            model=model,
            agent=agent,
            variant=variant,
            trust=trust,
            contexts=tuple(contexts),
        )
        result: m.ChatPromptResponse = await self._request("chat/inlinePrompt", params)
        return result

    def chat_prompt_stop(self, chat_id: str) -> None:
        """Stop the chat's running turn."""
        self._notify("chat/promptStop", m.ChatPromptStopParams(chat_id=chat_id))

    def chat_prompt_steer(self, chat_id: str, message: str) -> None:
        """Send a message to the running turn, for its next request to the model."""
        self._notify("chat/promptSteer", m.ChatPromptSteerParams(chat_id=chat_id, message=message))

    def chat_prompt_steer_remove(self, chat_id: str) -> None:
        """Withdraw the message of `chat_prompt_steer`, unless the model has received it."""
        self._notify("chat/promptSteerRemove", m.ChatPromptSteerRemoveParams(chat_id=chat_id))

    def chat_tool_call_approve(
        self, chat_id: str, tool_call_id: str, *, save: m.ToolCallApprovalSave | None = None
    ) -> None:
        """Approve a waiting tool call; `save="session"` approves later calls of the tool, too."""
        self._notify(
            "chat/toolCallApprove",
            m.ChatToolCallApproveParams(chat_id=chat_id, tool_call_id=tool_call_id, save=save),
        )

    def chat_tool_call_reject(self, chat_id: str, tool_call_id: str) -> None:
        """Reject a waiting tool call."""
        self._notify(
            "chat/toolCallReject",
            m.ChatToolCallRejectParams(chat_id=chat_id, tool_call_id=tool_call_id),
        )

    async def chat_query_context(
        self,
        query: str = "",
        *,
        chat_id: str | None = None,
        contexts: Sequence[m.ChatContext] = (),
    ) -> tuple[m.ChatContext, ...]:
        """Return the contexts that match a query; a blank query matches all."""
        params = m.ChatQueryContextParams(chat_id=chat_id, query=query, contexts=tuple(contexts))
        result: m.ChatQueryContextResponse = await self._request("chat/queryContext", params)
        return result.contexts

    async def chat_query_files(
        self, query: str = "", *, chat_id: str | None = None
    ) -> tuple[m.ChatContext, ...]:
        """Return the files and directories whose path contains `query`."""
        params = m.ChatQueryFilesParams(chat_id=chat_id, query=query)
        result: m.ChatQueryFilesResponse = await self._request("chat/queryFiles", params)
        return result.files

    async def chat_query_commands(
        self, query: str = "", *, chat_id: str | None = None
    ) -> tuple[m.ChatCommand, ...]:
        """Return the slash commands that match a query; a blank query matches all."""
        params = m.ChatQueryCommandsParams(chat_id=chat_id, query=query)
        result: m.ChatQueryCommandsResponse = await self._request("chat/queryCommands", params)
        return result.commands

    async def chat_delete(self, chat_id: str | None = None) -> None:
        """Delete a chat with its messages, tokens and costs."""
        await self._request("chat/delete", m.ChatDeleteParams(chat_id=chat_id))

    def chat_selected_behavior_changed(self, behavior: m.ChatBehavior) -> None:
        """Select the default behaviour of prompts."""
        self._notify(
            "chat/selectedBehaviorChanged", m.ChatSelectedBehaviorChanged(behavior=behavior)
        )

    def chat_selected_agent_changed(self, agent: str, *, chat_id: str | None = None) -> None:
        """Select the default agent, as newer editions call it; not sent to older servers."""
        self._notify(
            "chat/selectedAgentChanged", m.ChatSelectedAgentChanged(agent=agent, chat_id=chat_id)
        )

    def chat_selected_model_changed(
        self, model: str, *, variant: str | None = None, chat_id: str | None = None
    ) -> None:
        """Select the default model of prompts, for one chat or for all."""
        self._notify(
            "chat/selectedModelChanged",
            m.ChatSelectedModelChanged(model=model, variant=variant, chat_id=chat_id),
        )
