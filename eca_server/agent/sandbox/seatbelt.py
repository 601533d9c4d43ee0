"""The profile of macOS's `sandbox-exec` for a plan. Pure.

Everything is denied by default. Of two matching rules the later one wins, so rules for writable
paths come first, then those for guarded paths, then those for hidden paths.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from eca_server.agent.sandbox.plan import Plan
from eca_server.workspace.guarded import GUARDED

_BASE = """(version 1)
(deny default)
(allow process-exec)
(allow process-fork)
(allow process-info* (target same-sandbox))
(allow signal (target same-sandbox))
(allow sysctl-read)
(allow file-read*)
(allow file-ioctl (literal "/dev/null"))
(allow file-write-data (literal "/dev/null") (literal "/dev/zero"))
(allow ipc-posix-sem)
(allow mach-lookup
  (global-name "com.apple.system.opendirectoryd.libinfo")
  (global-name "com.apple.system.opendirectoryd.membership")
  (global-name "com.apple.PowerManagement.control"))"""
_NETWORK = """(allow network*)
(allow system-socket)
(allow mach-lookup
  (global-name "com.apple.dnssd.service")
  (global-name "com.apple.trustd.agent")
  (global-name "com.apple.SystemConfiguration.configd"))
(deny network-outbound (remote unix-socket))
(allow network-outbound (literal "/private/var/run/mDNSResponder"))"""

PROBE_PROFILE = f"{_BASE}\n"
"""The smallest profile: programs can run and read only."""


def arguments(program: str, plan: Plan) -> tuple[str, ...]:
    """Return everything before the command itself."""
    return program, "-p", profile(plan)


def profile(plan: Plan) -> str:
    """Return the text of the profile."""
    lines = [_BASE]
    if plan.network:
        lines.append(_NETWORK)
    places = plan.mounts.items()
    lines += _rules("allow file-write*", (path for path, access in places if access == "write"))
    lines += [
        f'(deny file-write* (regex #"{pattern}"))'
        for root in plan.roots
        for pattern in _guarded_patterns(root)
    ]
    lines += _rules("deny file-write*", plan.guarded)
    above = {
        each
        for path in plan.guarded
        for each in path.parents
        if any(each.is_relative_to(root) for root in plan.roots)
    }
    lines += [f"(deny file-write-unlink (literal {_quoted(str(each))}))" for each in sorted(above)]
    hidden = [path for path, access in places if access in {"hidden", "hidden-file"}]
    lines += _rules("deny file-read* file-write* network-outbound", hidden)
    return "\n".join(lines) + "\n"


def _rules(operation: str, paths: Iterable[Path]) -> Iterator[str]:
    for path in paths:
        yield f"({operation} (subpath {_quoted(str(path))}))"


def _guarded_patterns(root: Path) -> Iterator[str]:
    """Yield a case-insensitive regular expression for each guarded row, at any depth."""
    for row in GUARDED:
        names = "/".join("[^/]*".join(map(_any_case, name.split("*"))) for name in row.parts)
        yield f"^{_literal(str(root))}/(.*/)?{names}(/|$)"


def _any_case(text: str) -> str:
    return "".join(
        f"[{each.upper()}{each.lower()}]" if each.upper() != each.lower() else _literal(each)
        for each in text
    )


def _literal(text: str) -> str:
    """Return a pattern for a text; a quote would end it, so `.` replaces quotes."""
    return re.sub(r"([.^$*+?()\[\]{}|\\])", r"\\\1", text).replace('"', ".")


def _quoted(text: str) -> str:
    """Return a string literal of the profile's language."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
