"""The configuration as it counts in one behaviour: its own words and limits stand over the common.

What else a behaviour says (`Behavior`) is asked of it where it counts.
"""

from __future__ import annotations

from typing import Any

import attrs

from eca_server.config.settings import Config

__all__ = ["in_behavior"]


def in_behavior(config: Config, behavior: str) -> Config:
    """The configuration with a behaviour's own prompts and limits of tools in it."""
    own = config.behaviors.get(behavior)
    if own is None:
        return config
    prompts = attrs.evolve(
        config.prompts,
        tools={**config.prompts.tools, **own.tool_prompts},
        **_said(
            chat_title=own.title_prompt,
            compact=own.compact_prompt,
            init=own.init_prompt,
            skill_create=own.skill_create_prompt,
            completion=own.completion_prompt,
            rewrite=own.rewrite_prompt,
        ),
    )
    calls = config.tool_call
    read_file = _said(max_lines=own.max_lines)
    shell_command = _said(summary_max_length=own.summary_max_length)
    output = _said(lines=own.output_lines, size_kb=own.output_size_kb)
    tool_call = attrs.evolve(
        calls,
        read_file=attrs.evolve(calls.read_file, **read_file),
        shell_command=attrs.evolve(calls.shell_command, **shell_command),
        output_truncation=attrs.evolve(calls.output_truncation, **output),
    )
    return attrs.evolve(config, prompts=prompts, tool_call=tool_call)


def _said(**own: Any) -> dict[str, Any]:
    return {name: value for name, value in own.items() if value not in (None, "")}
