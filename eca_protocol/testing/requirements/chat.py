"""Rows of the chat: prompt, contents, queries, commands, stop, delete, behaviour."""

from __future__ import annotations

from functools import partial

from eca_protocol.testing.requirements.row import SINCE_2025_10, UNTIL_2025_10, row

_prompt = partial(row, section="Chat Prompt")
_content = partial(row, section="Chat Content Received")
_contexts = partial(row, section="Chat Query Context")
_commands = partial(row, section="Chat Query Commands")
_stop = partial(row, section="Chat stop prompt")
_delete = partial(row, section="Chat delete")
_behavior = partial(row, section="Chat selected behavior changed")

ROWS = (
    _prompt(
        "CHAT-1",
        "server",
        "A prompt without `chatId` opens a chat, and the response has its new id.",
    ),
    _prompt("CHAT-2", "server", "A prompt with a `chatId` continues that chat."),
    _prompt("CHAT-3", "server", "`message` is sent to the model unchanged, as the user's message."),
    _prompt(
        "CHAT-4",
        "server",
        "The model named in the prompt answers it; by default, the selected model.",
    ),
    _prompt("CHAT-5", "server", "A prompt's behaviour applies to its turn.", ruling="W-28"),
    _prompt("CHAT-6", "server", "A prompt's contexts are sent to the model."),
    _prompt("CHAT-7", "server", "The response to a prompt has the chat, the model and a status."),
    _prompt(
        "CHAT-8",
        "server",
        "The status `prompting` means that a request to the model is in progress.",
        ruling="W-21",
    ),
    _prompt("CHAT-9", "server", "The status `login` means that the user has to log in first."),
    _prompt("CHAT-10", "client", "Later prompts of a chat carry the id of its first response."),
    _content("CHAT-11", "server", "Every content names its chat and its role.", ruling="W-26"),
    _content("CHAT-12", "server", "The model's text is streamed in pieces, in order."),
    _content(
        "CHAT-13",
        "server",
        "`progress` describes the current activity while a turn runs.",
        ruling="W-20",
    ),
    _content("CHAT-14", "server", "Every turn ends with `progress` finished.", ruling="W-20"),
    _content("CHAT-15", "server", "The start, the texts and the end of a reasoning share one id."),
    _content("CHAT-16", "server", "The end of a reasoning has its duration in milliseconds."),
    _content("CHAT-17", "server", "A link is sent with its title.", ruling="W-26"),
    _content(
        "CHAT-18",
        "server",
        "`sessionTokens` counts the input and output tokens of the whole chat.",
        window=UNTIL_2025_10,
        ruling="W-27",
    ),
    _content("CHAT-19", "server", "Costs are those of the last message and of the whole chat."),
    _content("CHAT-20", "server", "`limit` has the model's context and output limits in tokens."),
    _content("CHAT-21", "server", "`metadata` sets the title of the chat.", window=SINCE_2025_10),
    _content("CHAT-22", "client", "A content is delivered to the turn of the chat that it names."),
    _content("CHAT-23", "client", "A turn's contents end with the finished progress."),
    _contexts("CHAT-24", "server", "The result of `chat/queryContext` is a list of contexts."),
    _contexts(
        "CHAT-25",
        "server",
        "A query filters the list of contexts; a blank one does not.",
        ruling="W-40",
    ),
    _contexts(
        "CHAT-26",
        "server",
        "Contexts that the client already has are taken into account.",
    ),
    _commands(
        "CHAT-27", "server", "The result of `chat/queryCommands` has names and descriptions."
    ),
    _commands("CHAT-28", "server", "A query filters the list of commands; a blank one does not."),
    _commands(
        "CHAT-29", "server", "The result of a query has the `chatId` of the query.", ruling="W-40"
    ),
    _commands("CHAT-30", "server", "A prompt `/name` runs the command with that name."),
    _commands("CHAT-31", "server", "Prompts of MCP servers are commands."),
    _stop("CHAT-32", "server", "A stop ends the model's work for the chat.", ruling="W-23"),
    _stop("CHAT-33", "server", "Output of the model after a stop is dropped."),
    _stop("CHAT-34", "server", "A stopped chat accepts the next prompt."),
    _delete(
        "CHAT-35",
        "server",
        "A delete removes the messages, tokens and costs of the chat.",
        ruling="W-24",
    ),
    _delete("CHAT-36", "server", "The result of a delete is an empty object."),
    _delete(
        "CHAT-37",
        "client",
        "A chat that the client deleted starts without history.",
        level="should",
    ),
    _behavior("CHAT-38", "server", "The selected behaviour applies to later prompts."),
)
