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
    _prompt("CHAT-1", "server", "A prompt without `chatId` opens a chat and answers its new id."),
    _prompt("CHAT-2", "server", "A prompt with a `chatId` goes on with that chat's history."),
    _prompt("CHAT-3", "server", "`message` reaches the model as the user's words, unchanged."),
    _prompt("CHAT-4", "server", "The model named in the prompt answers it, else the selected one."),
    _prompt("CHAT-5", "server", "A prompt's behaviour governs its turn.", ruling="W-28"),
    _prompt("CHAT-6", "server", "A prompt's contexts are shown to the model."),
    _prompt("CHAT-7", "server", "The answer names chat, model and what happens now."),
    _prompt("CHAT-8", "server", "`prompting` says that the model is being asked.", ruling="W-21"),
    _prompt("CHAT-9", "server", "`login` says that the user has to log in first."),
    _prompt("CHAT-10", "client", "A chat's prompts carry the id that its first answer gave."),
    _content("CHAT-11", "server", "Every content names its chat and whose it is.", ruling="W-26"),
    _content("CHAT-12", "server", "The model's text is passed on piece by piece, in order."),
    _content("CHAT-13", "server", "`progress` says what goes on while a turn runs.", ruling="W-20"),
    _content("CHAT-14", "server", "`progress` finished ends every turn.", ruling="W-20"),
    _content("CHAT-15", "server", "A reasoning's start, texts and end share one id."),
    _content("CHAT-16", "server", "A reasoning's end tells its time in milliseconds."),
    _content("CHAT-17", "server", "A link is sent with its title.", ruling="W-26"),
    _content(
        "CHAT-18",
        "server",
        "`sessionTokens` counts both ways, over the whole chat.",
        window=UNTIL_2025_10,
        ruling="W-27",
    ),
    _content("CHAT-19", "server", "Costs are those of the last message and of the whole chat."),
    _content("CHAT-20", "server", "`limit` tells the model's context and output in tokens."),
    _content("CHAT-21", "server", "`metadata` gives the chat a title.", window=SINCE_2025_10),
    _content("CHAT-22", "client", "A content reaches the turn of the chat that it names."),
    _content("CHAT-23", "client", "A turn's contents end with the finished progress."),
    _contexts("CHAT-24", "server", "`chat/queryContext` answers a list of contexts."),
    _contexts(
        "CHAT-25",
        "server",
        "The query narrows the list, a blank one does not.",
        ruling="W-40",
    ),
    _contexts(
        "CHAT-26",
        "server",
        "Contexts the client already has are taken into account.",
    ),
    _commands("CHAT-27", "server", "`chat/queryCommands` answers names and descriptions."),
    _commands("CHAT-28", "server", "A query narrows the list, a blank one does not."),
    _commands("CHAT-29", "server", "`chatId` comes back if it was given.", ruling="W-40"),
    _commands("CHAT-30", "server", "A prompt `/name` runs the command of that name."),
    _commands("CHAT-31", "server", "Prompts of MCP servers are commands, too."),
    _stop("CHAT-32", "server", "A stop ends the model's work for the chat.", ruling="W-23"),
    _stop("CHAT-33", "server", "What the model still says after a stop is dropped."),
    _stop("CHAT-34", "server", "A stopped chat takes the next prompt."),
    _delete("CHAT-35", "server", "Delete forgets the messages, tokens and costs.", ruling="W-24"),
    _delete("CHAT-36", "server", "Delete is answered with an empty object."),
    _delete("CHAT-37", "client", "A deleted chat of the client's starts clean.", level="should"),
    _behavior("CHAT-38", "server", "The selected behaviour holds for later prompts."),
)
