"""The conformance suite: cases that talk to a server under test and judge it, row by row.

A case judges a row of the requirements table only by that row's sentence, so that a server with one
error fails one row. A case waits leniently for its preconditions; if one is not met, the remaining
rows are untestable, with the reason.

A case is an async function and the rows that it judges:

    from eca_protocol.testing.conformance.harness import Harness
    from eca_protocol.testing.conformance.cases import case
    from eca_protocol.testing.script import reply

    @case("W-20a")
    async def a_turn_begins_with_progress(harness: Harness) -> None:
        \"\"\"Prompt once, and check the order of the contents.\"\"\"
        async with harness.session() as session:
            chat = session.chat(reply("Hello"))
            await chat.prompt("Hi")
            await chat.finished()
            first = chat.contents[0]["content"]
            harness.check("W-20a", first["type"] == "progress", expected="progress", got=first)
"""
