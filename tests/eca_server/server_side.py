"""The server's side of a connection in this process, for what the wire does not tell."""

from collections.abc import Callable

from eca_protocol.peer import Peer
from eca_server.agent.chat import Chats
from eca_server.client.session import Session
from eca_server.config.loading import LoadedConfig
from eca_server.config.settings import Config
from eca_server.connection.features.composition import Composition
from eca_server.connection.features.gate import ConfigurationGate
from eca_server.connection.features.lifecycle import Connection
from eca_server.models.models import Models
from eca_server.workspace.boundary import Workspace
from eca_server.workspace.index import FileIndex

__all__ = ["ServerSide"]


class ServerSide:
    """The parts of a connection as they are now."""

    def __init__(self, connection: Connection) -> None:
        self.start = connection

    @property
    def parts(self) -> Composition:
        return self.start.parts.get()

    @property
    def gate(self) -> ConfigurationGate:
        return self.start.gate

    @property
    def was_shut_down(self) -> bool:
        return self.start.was_shut_down

    @property
    def peer(self) -> Peer:
        return self.parts.host.peer

    @property
    def session(self) -> Session:
        return self.parts.session

    @property
    def config(self) -> Config:
        return self.parts.settings.config

    @property
    def loaded(self) -> LoadedConfig:
        return self.parts.settings.loaded

    @property
    def load(self) -> Callable[..., LoadedConfig]:
        return self.parts.settings.load

    def put_in_force(self, loaded: LoadedConfig) -> None:
        self.parts.settings.put_in_force(loaded)

    @property
    def models(self) -> Models:
        return self.parts.models.current

    @property
    def workspace(self) -> Workspace:
        return self.parts.folders.workspace

    @property
    def index(self) -> FileIndex:
        return self.parts.folders.index

    @property
    def chats(self) -> Chats:
        return self.parts.chats.get()
