"""A failure as a stand-alone script: its steps, and the code that executes them.

The script contains the source of these modules and needs only the standard library. It finds a
violation that a `Watcher` reported by the signature of the message.
"""

from __future__ import annotations

import pprint
import re
from collections.abc import Collection, Sequence
from pathlib import Path

from eca_protocol.testing.sessions import model, session, signatures, state, wire
from eca_protocol.testing.sessions.session import Step
from eca_protocol.testing.sessions.wire import Violation

_MODULES = (wire, signatures, model, state, session)
_LEFT_OUT = re.compile(
    r'\A"""(?:.|\n)*?"""\n|^from __future__ .*\n|^from eca_protocol(?:.*\)|.*)\n|^__all__ .*\n',
    re.MULTILINE,
)
_IMPORT = re.compile(r"^(?:import|from) .*\n", re.MULTILINE)
_HEAD = '''\
"""A requirement that an ECA server violates: {title}

Run it:  python THIS_FILE -- COMMAND...     (COMMAND starts the server)

It needs only Python. Exit codes: 1 the violation occurs, 0 it does not, 2 usage error, 3 COMMAND
cannot be started. STEPS are the actions; `rest` waits until the server is idle. {how}The code
below is that of `eca_protocol.testing.sessions`.
"""


'''


def script_of(
    edition: str, steps: Sequence[Step], violation: Violation, *, known: Collection[str] = ()
) -> str:
    """Return a script that executes steps and reports whether a violation occurs.

    Only a violation that a watcher reported is searched by its signature.
    """
    imports: set[str] = set()
    code = []
    for module in _MODULES:
        assert module.__file__
        source = _LEFT_OUT.sub("", Path(module.__file__).read_text("utf-8"))
        imports.update(_IMPORT.findall(source))
        code.append(_IMPORT.sub("", source).strip())
    readable = str(violation).encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")
    title = readable.replace("\\", "\\\\").replace('"""', "'''")
    formatted = pprint.pformat(list(steps), width=100, sort_dicts=False)
    constants = [f"EDITION = {edition!r}", f"STEPS = {formatted}"]
    options, how = "", ""
    if known:
        constants.append(f"KNOWN = {sorted(known)!r}")
        options += ", known=KNOWN"
    if violation.signature:
        place = (violation.signature, violation.requirement, violation.expected, violation.got)
        constants.append(f"FOUND_AT = {pprint.pformat(place, width=100)}")
        options += ", watch=signature_finder(*FOUND_AT)"
        how = "A message with the\nform and at the place of FOUND_AT shows the violation. "
    parts = (
        _HEAD.format(title=title, how=how) + "".join(sorted(imports)),
        "\n".join(constants),
        *code,
        f'if __name__ == "__main__":\n    sys.exit(main(EDITION, STEPS{options}))',
    )
    return "\n\n\n".join(parts) + "\n"
