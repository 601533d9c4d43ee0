"""Commands for instructions: `/init`, `/rules`, `/sync-system-prompt`; `/hooks` lists hooks."""

from __future__ import annotations

from eca_protocol import json
from eca_protocol.messages import CommandArgument
from eca_protocol.server.texts import arguments_of
from eca_server.agent.chat import Turn
from eca_server.agent.commands.command import CommandContext, ask_model, command, fenced
from eca_server.agent.commands.trust import report_withheld
from eca_server.agent.context.block import Section
from eca_server.agent.context.instructions_files import InstructionSearch
from eca_server.agent.tools.files import printable
from eca_server.config.effective import apply_behavior
from eca_server.config.hook_settings import Hook
from eca_server.config.tool_settings import paths_of
from eca_server.system.threads import THREAD_SECONDS, run_on_disk

_AGENTS_MD = """\
Write the file {path}: instructions for coding agents that are new to this repository.

Explore before you write: read the directory tree, the README, the files that define how the \
project is built, packaged and tested, and some of its code and tests. If an AGENTS.md exists, \
read it, keep what is correct and fix the rest.

Include, where useful:
- the purpose of the project and the location of its main parts;
- the exact commands to build it, to lint it, to run all tests and to run a single test;
- conventions of code, tests and commits that a single file does not show;
- common mistakes.

Write only facts that you have verified in this repository, no general advice. Use Markdown; one \
page at most.\
"""


@command(
    "init",
    CommandArgument(name="wishes", description="Additional instructions for the model."),
    asks_model=True,
)
async def write_instructions(turn: Turn, context: CommandContext) -> None:
    """Let the model write an AGENTS.md for this workspace."""
    roots = context.workspace.roots
    if not roots:
        turn.fail("No folder is open. Open a folder, and send `/init` again.")
        return
    own = apply_behavior(context.loaded.config, context.behavior).prompts.init
    text = own or _AGENTS_MD.format(path=roots[0].path / "AGENTS.md")
    wishes = arguments_of(context.text)
    await ask_model(turn, context, f"{text}\n\n{wishes}" if wishes else text)


@command("rules", steering="between requests")
async def list_rules(turn: Turn, context: CommandContext) -> None:
    """List the rules and AGENTS.md files that apply to this chat."""
    config = context.loaded.config
    search = InstructionSearch(
        workspace=context.workspace,
        user_directory=context.skill_files.user_directory,
        rules=paths_of(config.rules),
        parents=config.include_parent_agents_files,
        behavior=context.behavior,
        model=context.model,
        trusted_roots=context.loaded.trusted_roots,
    )
    instructions = await run_on_disk(search.run, seconds=THREAD_SECONDS)
    text = "\n".join(map(_line, instructions.sections))
    agent = turn.session.profile.agent_name(context.behavior)
    heading = f"Rules and instructions for `{agent}`"
    listed = f"{heading}:\n\n{fenced(text)}" if text else "There are no rules."
    turn.report("\n\n".join([listed, *instructions.notes]))


def _line(section: Section) -> str:
    (_, path), *conditions = section.attributes.items()
    limits = "; ".join(f"{name}: {value}" for name, value in conditions)
    return printable(f"{path} ({limits})" if limits else path)


@command("sync-system-prompt", steering="between requests")
async def sync_system_prompt(turn: Turn, context: CommandContext) -> None:
    """Reload changed instructions, rules and skills for this chat."""
    context.chat.systems.clear()
    turn.report("Instructions, rules and skills are reloaded for the next prompt of this chat.")


@command("hooks", steering="between requests")
async def list_hooks(turn: Turn, context: CommandContext) -> None:
    """List the configured hooks."""
    hooks = context.loaded.config.hooks
    lines = sorted(_hook_line(name, hook) for name, hook in hooks.items())
    listed = "Hooks:\n\n" + fenced("\n".join(lines)) if lines else "There are no hooks."
    withheld = [each for each in context.loaded.withheld if each.path[0] == "hooks"]
    if withheld:
        lines = list(report_withheld(withheld))
        opening = "These hooks do not run until you accept them. Send `/trust` to review them:"
        listed = "" if not hooks else f"{listed}\n\n"
        listed += f"{opening}\n\n" + fenced("\n".join(lines))
    turn.report(listed)


def _hook_line(name: str, hook: Hook) -> str:
    """Return a hook's event, name, matcher and description in one line."""
    parts = [f"{hook.type or 'never'}: {name}"]
    if isinstance(hook.matcher, str):
        parts.append(json.dumps(hook.matcher).decode())
    elif hook.matcher is not None:
        parts.append(", ".join(hook.matcher))
    parts.append(hook.description or f"actions: {len(hook.actions)}")
    return " - ".join(parts)
