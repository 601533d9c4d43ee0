"""Each client's screen: the messages that it understood, read as that client reads them."""

from collections.abc import Mapping
from typing import Any, ClassVar

from tests.clients.chats import Broken, Chat, EmacsChat, NeovimChat, is_text, need


class Screen:
    """The screen that all clients have in common.

    Attributes:
        config: every `config/updated.chat`, each over the ones before.
        servers: the status of each tool server, by name.
        tasks: the tasks that were started, and whether each has finished.
        chats: by id, those that the user has opened and not deleted.
        unnamed: the prompts sent without a chat id, which the server is to name.
    """

    chat: ClassVar[type[Chat]] = Chat
    selects: ClassVar[tuple[str, ...]] = ("selectModel",)
    keeps_deleted: ClassVar[bool] = False

    def __init__(self) -> None:
        self.welcome: Any = None
        self.config: dict[str, Any] = {}
        self.servers: dict[str, str] = {}
        self.tasks: dict[str, bool] = {}
        self.chats: dict[str, Chat] = {}
        self.unnamed = 0

    def start(self, result: Mapping[str, Any]) -> None:
        """`initialize` was answered."""
        self.welcome = result.get("chatWelcomeMessage")

    @property
    def can_prompt(self) -> bool:
        """Tell whether Enter sends the prompt."""
        return all(self.config.get(name) for name in ("models", *self.selects))

    def show(self, method: str, params: Any) -> None:
        """A notification came; one that is not known is ignored."""
        match method:
            case "config/updated":
                self.configure(params.get("chat", {}))
            case "tool/serverUpdated":
                self.show_server(params)
            case "tool/serverRemoved":
                self.servers.pop(params["name"], None)
            case "$/progress":
                self.tasks[params["taskId"]] = params["type"] == "finish"
            case "chat/deleted":
                self.chats.pop(params["chatId"], None)
            case "chat/opened":
                self.open(params["chatId"])
            case "chat/cleared" if params["messages"] and params["chatId"] in self.chats:
                self.chats[params["chatId"]] = self.chat()
            case "chat/contentReceived":
                self.show_content(params)

    def configure(self, chat: Mapping[str, Any]) -> None:
        nulls = {name for name, value in chat.items() if value is None}
        need(nulls <= {"selectVariant"}, "null takes the place of what was there", chat)
        self.config |= chat
        for one, many in (("Model", "models"), ("Behavior", "behaviors"), ("Agent", "agents")):
            selected = self.config.get(f"select{one}")
            offered = self.config.get(many, ())
            need(selected is None or selected in offered, "what is selected is offered", chat)

    def show_server(self, params: Mapping[str, Any]) -> None:
        for key in ("name", "status"):
            need(is_text(params.get(key)), f"a server's {key} is a text", params)
        need(isinstance(params.get("args", []), list), "a server's args are an array", params)
        need(all(is_text(tool["name"]) for tool in params.get("tools", ())), "tools", params)
        self.servers[params["name"]] = params["status"]

    def show_content(self, params: Mapping[str, Any]) -> None:
        chat_id = params["chatId"]
        if chat_id not in self.chats:
            need(self.unnamed, "content of a chat that is not open opens it", params)
            self.unnamed -= 1
            self.open(chat_id)
        self.chats[chat_id].draw(params["content"], params["role"])

    def open(self, chat_id: str) -> Chat:
        """A chat by that id, as it is or new."""
        return self.chats.setdefault(chat_id, self.chat())


class Emacs(Screen):
    """The welcome is put into the new chat's buffer by a function of texts."""

    chat = EmacsChat
    keeps_deleted = True

    def start(self, result: Mapping[str, Any]) -> None:
        super().start(result)
        need(is_text(self.welcome), "the chat's buffer is not made without a text", result)

    def show(self, method: str, params: Any) -> None:
        if method == "$/showMessage":
            single = params["message"].replace("%%", "")
            need("%" not in single, "the text of a message is a format", params)
        super().show(method, params)


class WebviewThen(Screen):
    """The page inside VS Code and IntelliJ, as it was in October 2025."""

    selects = ("selectModel", "selectBehavior")


class Webview(Screen):
    """The page today; Enter does nothing while no agent is selected."""

    selects = ("selectModel", "selectAgent")


class Desktop(Webview):
    """It keeps what the user wrote until each started task, and at least one, has finished."""

    @property
    def can_prompt(self) -> bool:
        return super().can_prompt and bool(self.tasks) and all(self.tasks.values())


class Neovim(Screen):
    """Whatever has a content is drawn as a chat's, whichever notification it came in."""

    chat = NeovimChat
    selects = ("selectModel", "selectBehavior")

    def show(self, method: str, params: Any) -> None:
        if method != "chat/contentReceived" and isinstance(params, dict) and "content" in params:
            raise Broken(f"drawn as if it were a chat's: {method}")
        super().show(method, params)


class Terminal(Screen):
    """The welcome is a line of the chat each time that it comes."""

    selects = ("selectModel", "selectAgent")
