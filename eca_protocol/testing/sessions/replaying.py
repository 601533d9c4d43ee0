"""A failure as a script that anyone can run: steps first, then all that is needed to do them.

The rule it keeps: the script needs nothing but the standard library, since it is these modules'
own source. Only what a `Watcher` saw takes one to see it again, and so this package.
"""

from __future__ import annotations

import pprint
import re
from collections.abc import Sequence
from pathlib import Path

from eca_protocol.testing.sessions import model, rules, session, wire
from eca_protocol.testing.sessions.session import Step
from eca_protocol.testing.sessions.watched import Seen
from eca_protocol.testing.sessions.wire import Fault

__all__ = ["script_of"]

_MODULES = (wire, model, rules, session)
_LEFT_OUT = re.compile(
    r'\A"""(?:.|\n)*?"""\n|^from __future__ .*\n|^from eca_protocol(?:.*\)|.*)\n|^__all__ .*\n',
    re.MULTILINE,
)
_IMPORT = re.compile(r"^(?:import|from) .*\n", re.MULTILINE)
_HEAD = '''\
"""What was found in an ECA server: {title}

Run it:  python THIS_FILE -- COMMAND...     (COMMAND starts the server)

It needs {needs}. Exit codes: 1 the fault shows, 0 it does not, 2 usage,
3 COMMAND cannot be started (in a folder of its own). STEPS is what is done; a `rest` waits until
the server has done all that it can do. What it waits for and what must hold is the code below,
which is that of `eca_protocol.testing.sessions`.
"""

from __future__ import annotations

'''


def script_of(edition: str, steps: Sequence[Step], fault: Fault) -> str:
    """The text of a script that does the steps and tells whether there is a fault.

    Args:
        edition: the edition that is spoken.
        steps: `Session.steps`.
        fault: what was found, for the reader.
    """
    imports: set[str] = set()
    code = []
    for module in _MODULES:
        assert module.__file__
        source = _LEFT_OUT.sub("", Path(module.__file__).read_text("utf-8"))
        imports.update(_IMPORT.findall(source))
        code.append(_IMPORT.sub("", source).strip())
    readable = str(fault).encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")
    title = readable.replace("\\", "\\\\").replace('"""', "'''")
    told = pprint.pformat(list(steps), width=100, sort_dicts=False)
    seen = isinstance(fault, Seen)
    needs = "the Python package eca-protocol" if seen else "Python alone"
    if seen:
        imports.add("from eca_protocol.testing.sessions.watched import watching\n")
    options = ", watch=watching(EDITION)" if seen else ""
    parts = (
        _HEAD.format(title=title, needs=needs) + "".join(sorted(imports)),
        f"EDITION = {edition!r}\nSTEPS = {told}",
        *code,
        f'if __name__ == "__main__":\n    sys.exit(main(EDITION, STEPS{options}))',
    )
    return "\n\n\n".join(parts) + "\n"
