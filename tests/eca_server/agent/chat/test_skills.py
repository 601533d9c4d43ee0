"""Skills in a chat: listed to the model, loaded by its call, called by the user's command."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.eca_server.agent.chat.current import current
from tests.eca_server.agent.chat.editor import ECHO, SCRIPT, Editor, text


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A workspace with the skills `fix` and `ship`."""
    for name in ("fix", "ship"):
        folder = tmp_path / ".eca" / "skills" / name
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(
            f"---\nname: {name}\ndescription: How to {name}.\n---\nTo {name}: $1 and {name}.\n"
        )
    return tmp_path


def announced(ours: Editor) -> dict[str, bool]:
    """Return the last announced native tools, each with whether it is disabled."""
    tools = ours.notified("tool/serverUpdated")[-1]["tools"]
    return {tool["name"]: tool.get("disabled", False) for tool in tools}


def system(ours: Editor, behavior: str = "agent") -> str:
    return ours.connection.chats.open("c").systems[behavior].text


@pytest.mark.requirement("VALUE:ChatCommand.type=skill")
async def test_skills_are_listed_to_the_model_which_loads_one(project):
    async with current(folder=project) as ours:
        received = await ours.turn('call eca_skill {"name": "fix"}\nsay done', model=SCRIPT)
        (called,) = (each for each in received if each["type"] == "toolCalled")
        assert called["error"] is False
        assert called["summary"] == "Loading skill fix"
        assert "To fix: $1 and fix." in called["outputs"][0]["text"]
        listed = system(ours)
        assert "How to fix." in listed
        assert "To fix" not in listed
        assert announced(ours)["skill"] is False
        commands = (await ours.ask("chat/queryCommands", {"query": "how to"}))["commands"]
        named = [(each["name"], each["type"]) for each in commands]
        assert named == [("fix", "skill"), ("ship", "skill")]
        assert [each["name"] for each in commands[0]["arguments"]] == ["arg1"]


async def test_a_skill_is_a_command_that_gives_the_model_what_it_teaches(project):
    folder = project / ".eca" / "skills" / "fix"
    tag = f'<eca_loaded_skill name="fix" path="{folder}/SKILL.md" source="workspace">'
    begins = f"{tag}\nSkill: fix\nRelative paths start from: {folder}\n\n"
    end = "\n</eca_loaded_skill>"
    async with current(folder=project) as ours:
        received = await ours.turn("/Fix", model=ECHO)
        assert text(received[2:]) == f"{begins}To fix: $1 and fix.{end}"
        received = await ours.turn("/fix lint", model=ECHO)
        assert text(received[2:]) == f"{begins}To fix: lint and fix.{end}"
        assert f"fix: How to fix. ({folder})" in text(await ours.turn("/skills"))
        (project / ".eca" / "commands").mkdir()
        (project / ".eca" / "commands" / "ship.md").write_text("The folder's way.")
        assert "The folder's way." in text(await ours.turn("/ship", model=ECHO))
        received = await ours.turn("/skill-create lint-it how to lint", model=ECHO)
        assert "/eca/skills/lint-it/SKILL.md" in text(received[2:])
        assert text(received).endswith("The user's request for the skill: how to lint")
        assert "Send `/skill-create" in text(await ours.turn("/skill-create ../x y"))
        hidden = project / ".eca" / "skills" / "init"
        folder.rename(hidden)
        (hidden / "SKILL.md").write_text("---\nname: Init\ndescription: Mine.\n---\nText.\n")
        told = "only the model can load the skill Init, because `/init` is a built-in command. "
        assert f"{hidden}: {told}" in text(await ours.turn("say a", "other", model=SCRIPT))
        assert told in text(await ours.turn("/skills"))


@pytest.mark.requirement("W-20b")
@pytest.mark.parametrize(
    ("config", "listed"),
    [
        ({"toolCall": {"approval": {"deny": {"eca__skill": {}}}}}, set()),
        ({"disabledTools": ["eca__skill"]}, set()),
        ({"toolCall": {"approval": {"deny": {"skill": {"argsMatchers": {"name": ["fix"]}}}}}},
            {"ship"}),
    ],
)  # fmt: skip
async def test_what_configuration_denies_is_neither_listed_nor_loaded(project, config, listed):
    async with current(config, folder=project) as ours:
        received = await ours.turn('call eca_skill {"name": "fix"}', model=SCRIPT)
        assert [each["type"] for each in received].count("toolCallRejected") == 1
        found = {name for name in ("fix", "ship") if f"How to {name}." in system(ours)}
        assert found == listed
        assert announced(ours).get("skill", True) is not bool(listed)


async def test_without_skills_there_is_no_such_tool_and_a_chat_keeps_what_it_began_with(
    tmp_path, project
):
    bare = tmp_path / "bare"
    bare.mkdir()
    async with current(folder=bare) as ours:
        received = await ours.turn('call eca_skill {"name": "fix"}', model=SCRIPT)
        (called,) = (each for each in received if each["type"] == "toolCalled")
        assert "There is no tool" in called["outputs"][0]["text"]
        assert "skill" not in announced(ours)
        before = system(ours)
        (project / ".eca").rename(bare / ".eca")
        await ours.turn("say on", model=SCRIPT)
        assert system(ours) == before
        await ours.turn("say new", chat="d", model=SCRIPT)
        assert "How to fix." in ours.connection.chats.open("d").systems["agent"].text
        assert announced(ours)["skill"] is False


async def test_an_agent_loads_the_skills_that_it_lists(project):
    agents = {"agent": {"small": {"skills": ["fi.*"]}, "none": {"skills": []}}}
    said = 'call eca_skill {"name": "fix"}\ncall eca_skill {"name": "ship"}\nsay done'
    async with current(agents, folder=project) as ours:
        received = await ours.turn(said, model=SCRIPT, agent="small")
        called = [each for each in received if each["type"] == "toolCalled"]
        (refused,) = (each for each in called if each["error"])
        assert len(called) == 2
        assert "There is no skill 'ship'. Available skills: fix." in refused["outputs"][0]["text"]
        assert "How to fix." in system(ours, "small")
        assert "How to ship." not in system(ours, "small")
        await ours.turn("say done", model=SCRIPT, agent="none")
        assert "How to" not in system(ours, "none")
