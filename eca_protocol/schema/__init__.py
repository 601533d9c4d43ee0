"""The messages of an edition as JSON Schema (2020-12) and as TypeScript, from the models.

A schema describes the messages that may be written: those of the edition's text, and the additions
of rulings (named by `$comment`). It does not describe the departures that are only read: values and
types that no edition lists, null for absent members, missing required members. Unlisted keys are
allowed everywhere, since the protocol ignores them; `additionalProperties` marks the objects in
which they have a meaning. A value of a different edition is listed as its fallback. If a ruling
allows a second type of a member, both are listed. The draft has its own table of messages.
"""

from __future__ import annotations

from eca_protocol.schema.json_schema import json_schema
from eca_protocol.schema.typescript import typescript

__all__ = ["json_schema", "typescript"]
