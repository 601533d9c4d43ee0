"""The class for servers of one's own, and the parts that each server needs.

    server = Server(name="my-server")

    @server.prompt
    async def answer(chat: ServerChat, prompt: Prompt) -> None:
        await chat.say("Hello")

    server.run_stdio()

The modules below the class know no model, policy or store: the queue and the states of a chat, the
states and contents of a tool call, blocks of reasoning, texts, workspace folders, the edition of a
client. The server of `eca_server` is made of them, too.

Modules are imported at their first use.
"""
