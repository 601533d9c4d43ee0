"""The cattrs converter of a revision: `read` and `write` as its hooks.

It is strict for every type, str and int included, and it is made once. Programs that keep
messages inside attrs classes of their own can use it for those, too.
"""

from __future__ import annotations

import functools
from typing import Any

import cattrs

from eca_protocol.codec.read import reader
from eca_protocol.codec.write import writer
from eca_protocol.messages.shapes import shape_of
from eca_protocol.revisions import Revision

__all__ = ["converter"]


@functools.cache
def converter(revision: Revision) -> cattrs.Converter:
    """The converter of `revision`; reading is the same in each.

    Its `structure` raises `Mismatch` or KeyError without words: see `explain`.
    """
    made = cattrs.Converter(detailed_validation=False)
    made.register_structure_hook_factory(_is_ours, lambda hint: reader(shape_of(hint)))
    made.register_unstructure_hook_factory(_is_ours, lambda hint: writer(shape_of(hint), revision))
    return made


def _is_ours(hint: Any) -> bool:
    try:
        shape_of(hint)
    except TypeError:
        return False
    return True
