"""The program of `keyrings.bpf`, which hides the kernel's keyrings from a command in a sandbox.

Children inherit a session's keyring in every namespace. So the three calls that reach keys fail
with `ENOSYS`, as on a kernel without keyrings.
"""

import struct
from collections.abc import Mapping
from typing import Final

FIRST_CALLS: Final[Mapping[int, int]] = {
    0xC000003E: 248,  # x86-64
    0x40000003: 286,  # i386, and so a 32-bit program on x86-64
    0xC00000B7: 217,  # arm64
    0x40000028: 309,  # arm
    0xC00000F3: 217,  # RISC-V
    0xC0000102: 217,  # LoongArch
    0xC0000015: 269,  # ppc64le
}
"""The number of `add_key` for each `AUDIT_ARCH` value; the two other calls follow it."""

_X32: Final = 0x40000000  # a bit of the number of a call in x86-64's third ABI
_NUMBER, _ARCHITECTURE = 0, 4  # offsets in `struct seccomp_data`
_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06
_IF_EQUAL, _IF_GREATER, _IF_AT_LEAST = 0x15, 0x25, 0x35
_ALLOW: Final = 0x7FFF0000
_FAIL: Final = 0x00050000 | 38  # `ENOSYS`


def filter_program() -> bytes:
    """Return the filter's program for the kernel of a little-endian machine."""
    steps = [(_LOAD, 0, 0, _ARCHITECTURE)]
    for architecture, first in FIRST_CALLS.items():
        steps += [
            (_IF_EQUAL, 0, 6, architecture),
            (_LOAD, 0, 0, _NUMBER),
            (_AND, 0, 0, 0xFFFFFFFF ^ _X32),
            (_IF_AT_LEAST, 0, 1, first),
            (_IF_GREATER, 0, 1, first + 2),
            (_RETURN, 0, 0, _ALLOW),
            (_RETURN, 0, 0, _FAIL),
        ]
    steps.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("<HBBI", *step) for step in steps)
