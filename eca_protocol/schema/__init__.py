"""Every message of an edition as JSON Schema (2020-12) and as TypeScript, made from the models.

A schema says what may be written: the letter of the edition's text and what a ruling adds to it
(`$comment` names that ruling). What is read beyond this is not in it: values and types that
no edition lists, null for what is absent, required members that were left out. Keys that are not
listed may stand everywhere, since the protocol passes over them; `additionalProperties` says where
they mean something. A value that only another edition knows is not listed, its stand-in is; where
a ruling lets a member have another type, both stand. The draft has its own table of messages.
"""

from __future__ import annotations

from eca_protocol.schema.json_schema import json_schema
from eca_protocol.schema.typescript import typescript

__all__ = ["json_schema", "typescript"]
