"""The typed client for editors and scripts.

    async with eca_protocol.connect(command=eca_protocol.SERVER_COMMAND) as client:
        chat = client.chat()
        async for content in chat.prompt("Hello"):
            print(content)

Every wait has a deadline or ends with the connection, so that a dead or unresponsive server raises
an exception. A turn's inbox has a limit in bytes; beyond it the server has to wait, unless one of
our calls is pending. While a task waits for a content of a turn or for an event, the limit is 64
times as high. A stopped turn ends with the server's last content.
"""

from typing import TYPE_CHECKING

from eca_protocol.lazy import export

if TYPE_CHECKING:
    from eca_protocol.client.approvals import ApprovalDecision as ApprovalDecision
    from eca_protocol.client.approvals import ApprovalHandler as ApprovalHandler
    from eca_protocol.client.approvals import OnApproval as OnApproval
    from eca_protocol.client.approvals import Rejection as Rejection
    from eca_protocol.client.chat import Chat as Chat
    from eca_protocol.client.chat import Turn as Turn
    from eca_protocol.client.client import Client as Client
    from eca_protocol.client.connecting import SERVER_COMMAND as SERVER_COMMAND
    from eca_protocol.client.connecting import connect as connect
    from eca_protocol.client.events import Event as Event
    from eca_protocol.client.events import Events as Events
    from eca_protocol.client.options import ConnectionOptions as ConnectionOptions
    from eca_protocol.client.options import DefinitionHandler as DefinitionHandler
    from eca_protocol.client.options import DiagnosticsHandler as DiagnosticsHandler
    from eca_protocol.client.options import InProcessServer as InProcessServer
    from eca_protocol.client.options import QuestionHandler as QuestionHandler
    from eca_protocol.client.options import ReferencesHandler as ReferencesHandler

_NAMES = {
    "approvals": "ApprovalDecision ApprovalHandler OnApproval Rejection",
    "chat": "Chat Turn",
    "client": "Client",
    "connecting": "SERVER_COMMAND connect",
    "events": "Event Events",
    "options": (
        "ConnectionOptions DefinitionHandler DiagnosticsHandler InProcessServer QuestionHandler "
        "ReferencesHandler"
    ),
}
export(globals(), _NAMES)
