"""The conformance suite: cases that talk to a server under test and judge it, row by row.

The rule it keeps: a row of the requirements table is judged only by what that row says, so that a
server with one fault has one row that fails. What a case merely needs on its way is waited for
leniently; if it does not come, the rows behind it are untestable, and say why.

A case is an async function with the rows it judges:

    from eca_protocol.testing.conformance.bench import Bench
    from eca_protocol.testing.conformance.cases import case
    from eca_protocol.testing.script import reply

    @case("W-20a")
    async def a_turn_begins_with_progress(bench: Bench) -> None:
        \"\"\"One prompt, and the order of what comes.\"\"\"
        async with bench.seat() as seat:
            chat = seat.chat(reply("Hello"))
            await chat.prompt("Hi")
            await chat.finished()
            first = chat.contents[0]["content"]
            bench.check("W-20a", first["type"] == "progress", expected="progress", got=first)
"""
