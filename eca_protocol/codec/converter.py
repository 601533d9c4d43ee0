"""The cattrs converter of a revision, with `read` and `write` as its hooks.

It is strict for every type, including str and int. Programs can use it for their own attrs
classes that contain messages, too.
"""

from __future__ import annotations

import functools
from typing import Any

import cattrs

from eca_protocol.codec.read import reader
from eca_protocol.codec.write import writer
from eca_protocol.messages.shapes import shape_of
from eca_protocol.revisions import Revision


@functools.cache
def converter(revision: Revision) -> cattrs.Converter:
    """Return the converter of `revision`; reading is the same in all.

    Its `structure` raises `Mismatch` or KeyError without a message; see `explain`.
    """
    result = cattrs.Converter(detailed_validation=False)
    result.register_structure_hook_factory(_is_ours, lambda hint: reader(shape_of(hint)))
    result.register_unstructure_hook_factory(
        _is_ours, lambda hint: writer(shape_of(hint), revision)
    )
    return result


def _is_ours(hint: Any) -> bool:
    try:
        shape_of(hint)
    except TypeError:
        return False
    return True
