"""What a model is given beside the user's words: contexts, mentions, AGENTS.md, rules."""

from __future__ import annotations

from eca_server.context.contexts import Built, build
from eca_server.context.disk import draw_roots
from eca_server.context.instructions_files import InstructionFiles, read_instruction_files
from eca_server.context.limits import Limits
from eca_server.context.queries import query_contexts

__all__ = [
    "Built",
    "InstructionFiles",
    "Limits",
    "build",
    "draw_roots",
    "query_contexts",
    "read_instruction_files",
]
