"""The configuration in effect for one behaviour: its own prompts and limits win.

The other settings of a `Behavior` are read where they apply.
"""

from __future__ import annotations

from typing import Any

import attrs

from eca_server.config.settings import Config


def apply_behavior(config: Config, behavior: str) -> Config:
    """Return the configuration with a behaviour's own prompts and limits of tools."""
    own = config.behaviors.get(behavior)
    if own is None:
        return config
    prompts = _without_empty(**attrs.asdict(own.prompts, recurse=False))
    prompts["tools"] = {**config.prompts.tools, **own.prompts.tools}
    prompts["chat"] = config.prompts.chat  # an agent's own one is `system_prompt`
    calls = config.tool_call
    read_file = _without_empty(max_lines=own.max_lines)
    shell_command = _without_empty(summary_max_length=own.summary_max_length)
    output = _without_empty(lines=own.output_lines, size_kb=own.output_size_kb)
    tool_call = attrs.evolve(
        calls,
        read_file=attrs.evolve(calls.read_file, **read_file),
        shell_command=attrs.evolve(calls.shell_command, **shell_command),
        output_truncation=attrs.evolve(calls.output_truncation, **output),
    )
    return attrs.evolve(
        config, prompts=attrs.evolve(config.prompts, **prompts), tool_call=tool_call
    )


def _without_empty(**own: Any) -> dict[str, Any]:
    return {name: value for name, value in own.items() if value not in (None, "")}
