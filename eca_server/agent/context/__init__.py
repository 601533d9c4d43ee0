"""The material sent to a model with the user's prompt: contexts, mentions, AGENTS.md, rules."""

from __future__ import annotations

from eca_server.agent.context.contexts import PromptContext, build_context
from eca_server.agent.context.disk import draw_roots
from eca_server.agent.context.instructions_files import InstructionFiles, read_instruction_files
from eca_server.agent.context.limits import Limits
from eca_server.agent.context.queries import query_contexts

__all__ = [
    "InstructionFiles",
    "Limits",
    "PromptContext",
    "build_context",
    "draw_roots",
    "query_contexts",
    "read_instruction_files",
]
