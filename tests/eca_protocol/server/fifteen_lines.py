"""A whole server, as the guide has it: the conformance suite judges it."""

from eca_protocol import Prompt, Server, ServerChat

server = Server(name="my-server")


@server.prompt
async def answer(chat: ServerChat, prompt: Prompt) -> None:
    await chat.say(f"You said: {prompt.text}")


if __name__ == "__main__":
    server.run_stdio()
