"""The state of a user interface, folded from a stream of contents, without I/O.

`Fold` takes typed notifications, `Conversation` takes the raw messages of both sides.
"""

from typing import TYPE_CHECKING

from eca_protocol.lazy import export

if TYPE_CHECKING:
    from eca_protocol.fold.conversation import Conversation as Conversation
    from eca_protocol.fold.fold import Fold as Fold
    from eca_protocol.fold.rules import Rule as Rule
    from eca_protocol.fold.rules import Violation as Violation
    from eca_protocol.fold.views import CallView as CallView
    from eca_protocol.fold.views import ChatView as ChatView
    from eca_protocol.fold.views import HookView as HookView
    from eca_protocol.fold.views import Item as Item
    from eca_protocol.fold.views import LinkView as LinkView
    from eca_protocol.fold.views import TextView as TextView
    from eca_protocol.fold.views import ThoughtView as ThoughtView

_NAMES = {
    "conversation": "Conversation",
    "fold": "Fold",
    "rules": "Rule Violation",
    "views": "CallView ChatView HookView Item LinkView TextView ThoughtView",
}
export(globals(), _NAMES)
