"""Prompts, tool calls, queries, selections: one typed method for each, named as in the table."""

from __future__ import annotations

from collections.abc import Sequence

from eca_protocol import messages as m
from eca_protocol.client.caller import Caller

__all__ = ["ChatCalls"]


class ChatCalls(Caller):
    """What a client sends while it chats; see `Caller` for what is raised."""

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
        """Send a prompt; its contents come as events. `Chat.prompt` pairs both.

        `behavior` is told by the name that the revision has for it. `trust` lets tools run which
        would ask; `variant` and `trust` are not told to servers older than CURRENT.
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
        """Send a prompt of a chat that is shown in the text; its contents come as events.

        A new chat begins with what was said in `source_chat_id`.
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
        """End the chat's running turn."""
        self._notify("chat/promptStop", m.ChatPromptStopParams(chat_id=chat_id))

    def chat_prompt_steer(self, chat_id: str, message: str) -> None:
        """Say a word to the running turn; its next request to the model takes it in."""
        self._notify("chat/promptSteer", m.ChatPromptSteerParams(chat_id=chat_id, message=message))

    def chat_prompt_steer_remove(self, chat_id: str) -> None:
        """Take that word back, unless it was taken in."""
        self._notify("chat/promptSteerRemove", m.ChatPromptSteerRemoveParams(chat_id=chat_id))

    def chat_tool_call_approve(
        self, chat_id: str, tool_call_id: str, *, save: m.ToolCallApprovalSave | None = None
    ) -> None:
        """Let a waiting tool call run; `save="session"` asks no more for that tool."""
        self._notify(
            "chat/toolCallApprove",
            m.ChatToolCallApproveParams(chat_id=chat_id, tool_call_id=tool_call_id, save=save),
        )

    def chat_tool_call_reject(self, chat_id: str, tool_call_id: str) -> None:
        """Do not let a waiting tool call run."""
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
        """The contexts that could be added to a prompt; a blank query asks for all."""
        params = m.ChatQueryContextParams(chat_id=chat_id, query=query, contexts=tuple(contexts))
        result: m.ChatQueryContextResponse = await self._request("chat/queryContext", params)
        return result.contexts

    async def chat_query_files(
        self, query: str = "", *, chat_id: str | None = None
    ) -> tuple[m.ChatContext, ...]:
        """Files and folders whose path has `query` in it."""
        params = m.ChatQueryFilesParams(chat_id=chat_id, query=query)
        result: m.ChatQueryFilesResponse = await self._request("chat/queryFiles", params)
        return result.files

    async def chat_query_commands(
        self, query: str = "", *, chat_id: str | None = None
    ) -> tuple[m.ChatCommand, ...]:
        """The slash commands there are; a blank query asks for all."""
        params = m.ChatQueryCommandsParams(chat_id=chat_id, query=query)
        result: m.ChatQueryCommandsResponse = await self._request("chat/queryCommands", params)
        return result.commands

    async def chat_delete(self, chat_id: str | None = None) -> None:
        """Forget a chat with its messages, tokens and costs."""
        await self._request("chat/delete", m.ChatDeleteParams(chat_id=chat_id))

    def chat_selected_behavior_changed(self, behavior: m.ChatBehavior) -> None:
        """Select the behaviour of the prompts that name none."""
        self._notify(
            "chat/selectedBehaviorChanged", m.ChatSelectedBehaviorChanged(behavior=behavior)
        )

    def chat_selected_agent_changed(self, agent: str, *, chat_id: str | None = None) -> None:
        """What newer editions call `chat_selected_behavior_changed`; not written in older ones."""
        self._notify(
            "chat/selectedAgentChanged", m.ChatSelectedAgentChanged(agent=agent, chat_id=chat_id)
        )

    def chat_selected_model_changed(
        self, model: str, *, variant: str | None = None, chat_id: str | None = None
    ) -> None:
        """Select the model of the prompts that name none, of all chats or of one."""
        self._notify(
            "chat/selectedModelChanged",
            m.ChatSelectedModelChanged(model=model, variant=variant, chat_id=chat_id),
        )
