"""The settings classes: one for each object of the configuration file.

Each field declares its keys. An unset field is None where the default depends on something else (a
model's limits, an endpoint's timers).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Literal

import attrs

from eca_server.config.agent_settings import (
    BEHAVIORS,
    BUILT_IN_AGENTS,
    BUILT_IN_SUBAGENTS,
    Behavior,
    Prompts,
)
from eca_server.config.hook_settings import HOOKS, Hook
from eca_server.config.login_settings import Auth, Network
from eca_server.config.mcp_settings import MCP_SERVERS, MCPServer
from eca_server.config.reading import (
    COUNT,
    FLAG,
    KEY,
    NAME,
    NUMBER,
    OBJECT,
    PATH,
    PERCENT,
    PRICE,
    ROOT_PATH,
    SECONDS,
    TEXT,
    Workspace,
    choice,
    each,
    listing,
    record,
    setting,
)
from eca_server.config.tool_lists import SELECTORS, TOOL_SEARCH, ToolSearch
from eca_server.config.tool_settings import CustomTool, IgnoreFile, NamedFile, ToolCall
from eca_server.secret import Secret

_WORD_BREAK: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+")
_NAMED_FILES = listing(record(NamedFile))


@attrs.frozen(kw_only=True, repr=False)
class Limit:
    """A model's limits, in tokens.

    Attributes:
        context: the tokens of a request and its answer together; default: from the endpoint or the
            catalog.
        output: the tokens of an answer; default: as above.
    """

    context: int | None = setting(COUNT)
    output: int | None = setting(COUNT)


@attrs.frozen(kw_only=True, repr=False)
class Cost:
    """The price of a model, in US dollars per million tokens.

    Attributes:
        input: the price of input, in US dollars per million tokens.
        output: the price of output, in the same unit.
        cache_read: the price of input read from the provider's cache; default: as other input.
        cache_write: the price of input written to that cache; default: as other input.
    """

    input: float | None = setting(PRICE)
    output: float | None = setting(PRICE)
    cache_read: float | None = setting(PRICE)
    cache_write: float | None = setting(PRICE)


@attrs.frozen(kw_only=True, repr=False)
class Model:
    """`providers.<name>.models.<model>`.

    Attributes:
        model_name: the endpoint's name of the model; default: the same name.
        extra_payload: JSON merged into each request; a null removes the key.
        extra_headers: HTTP headers of each request.
        variants: further payloads for the same model by name (`high`), selected as
            `provider/model:name`; they win over `extraPayload`.
        reasoning_history: the thoughts sent back to a model that does not require them: all, those
            since the user's last message, or none.
        image_input: whether the model accepts images.
        limit: the model's limits.
        cost: the model's price; used only with both `input` and `output`.
    """

    model_name: str | None = setting(NAME)
    extra_payload: Mapping[str, Any] = setting(OBJECT, factory=dict)
    extra_headers: Mapping[str, str] = setting(each(TEXT), factory=dict)
    variants: Mapping[str, Mapping[str, Any]] = setting(each(OBJECT), factory=dict)
    reasoning_history: Literal["all", "turn", "off"] = setting(
        choice("all", "turn", "off"), default="all"
    )
    image_input: bool | None = setting(FLAG)
    limit: Limit = setting(record(Limit))
    cost: Cost = setting(record(Cost))


@attrs.frozen(kw_only=True, repr=False)
class Retry:
    """`retry`: how a failed request is repeated; a None stands for the common or built-in default.

    Attributes:
        max_retries: attempts after the first one; 0 turns retries off; common default: 4.
        base_delay_ms: the first delay, in milliseconds; common default: 1000.
        backoff_multiplier: the factor from one delay to the next; common default: 2.
        max_delay_ms: the longest delay, in milliseconds; common default: 30000.
    """

    max_retries: int | None = setting(COUNT)
    base_delay_ms: float | None = setting(NUMBER)
    backoff_multiplier: float | None = setting(NUMBER)
    max_delay_ms: float | None = setting(NUMBER)


@attrs.frozen(kw_only=True, repr=False)
class Provider:
    """`providers.<name>`: an endpoint and its models.

    Attributes:
        api: the wire API (`openai-chat`, ...); `acp`: a program that is an ACP agent.
        command: the program of an ACP agent, and its arguments.
        url: the base URL, to which the API's path is added.
        url_env: the environment variable with the URL, if `url` is not set.
        key: the API key.
        key_env: the environment variable with the key, if `key` is not set.
        key_rc: the entry of the netrc file with the key, as `[LOGIN@]MACHINE[:PORT]`.
        auth: the OAuth login of `/login`.
        completion_url_relative_path: the path of requests, in place of the API's own.
        extra_headers: HTTP headers of each request.
        think_tag_start: the start tag of thoughts in an answer's text; default: `<think>`.
        think_tag_end: the end tag of thoughts; default: `</think>`.
        fetch_models: whether to request the list of the endpoint's models and offer them, too.
        retry: how a failed request is repeated; default: the global `retry`.
        rate_limit_max_wait: the longest wait that the endpoint may demand, in seconds, before the
            request fails; default: the global setting.
        models: models by the user's name for each.
    """

    api: str | None = setting(NAME)
    command: tuple[str, ...] = setting(listing(TEXT), default=())
    url: str | None = setting(NAME)
    url_env: str | None = setting(NAME)
    key: Secret | None = setting(KEY)
    key_env: str | None = setting(NAME)
    key_rc: str | None = setting(NAME, workspace=Workspace.NEVER)
    auth: Auth = setting(record(Auth))
    completion_url_relative_path: str | None = setting(NAME)
    extra_headers: Mapping[str, str] = setting(each(TEXT), factory=dict)
    think_tag_start: str | None = setting(NAME)
    think_tag_end: str | None = setting(NAME)
    fetch_models: bool = setting(FLAG, default=True)
    retry: Retry = setting(record(Retry))
    rate_limit_max_wait: float | None = setting(SECONDS, "rateLimitMaxWaitSeconds")
    models: Mapping[str, Model] = setting(each(record(Model)), factory=dict)


@attrs.frozen(kw_only=True, repr=False)
class CatalogSettings:
    """`catalog`: the public catalogue of limits, prices and capabilities of models.

    Attributes:
        refresh: whether to download it, at most once a day; else the packaged copy is used.
        url: its address; the format is that of models.dev.
    """

    refresh: bool = setting(FLAG, default=True)
    url: str = setting(NAME, default="https://models.dev/api.json")


@attrs.frozen(kw_only=True, repr=False)
class InlineChats:
    """`chatInline`: defaults of chats shown inside the edited text; a prompt can override them.

    Attributes:
        model: `provider/model`; default: that of the source chat, or the selected one.
        variant: the variant of that model.
        agent: the agent.
    """

    model: str | None = setting(NAME)
    variant: str | None = setting(NAME)
    agent: str | None = setting(NAME)


@attrs.frozen(kw_only=True, slots=False, repr=False)
class ChatSettings:
    """The settings of chats, completions and rewrites.

    Attributes:
        default_model: `provider/model`; default: the first usable one.
        default_behavior: the agent of a new chat; `code` is the same as `agent`.
        welcome_message: Markdown, shown by the editor in an empty chat.
        prompts: replacements of the built-in prompts.
        compact_prompt_file: a file with the prompt for a summary, if `prompts.compact` is not set.
        completion_model: `provider/model` for completions; default: the model of chats.
        rewrite_model: `provider/model` for rewrites; default: the model of chats.
        rewrite_file_lines: the most lines of the surrounding file that a rewrite sends.
        chat_title: whether the model writes a title for each chat.
        chat_inline: defaults of chats shown inside the edited text.
        auto_compact_percentage: the share of a model's context, in percent, above which a summary
            replaces the chat's history.
        auto_compact_tokens_left: the tokens of a model's context to leave free, in place of that
            percentage; ignored for a model whose context is not larger.
        answer_max_kb: limit of the text of one answer, in KiB; a longer answer is cut.
    """

    default_model: str | None = setting(NAME, "defaultModel", "chat.defaultModel")
    default_behavior: str = setting(
        NAME,
        "defaultBehavior",
        "defaultAgent",
        "chat.defaultBehavior",
        "chat.defaultAgent",
        default="agent",
    )
    welcome_message: str = setting(
        TEXT,
        "welcomeMessage",
        "chat.welcomeMessage",
        default="Welcome to ECA! Type `/` for commands.\n\n",
    )
    prompts: Prompts = setting(record(Prompts))
    compact_prompt_file: str | None = setting(PATH)
    completion_model: str | None = setting(NAME, "completion.model")
    rewrite_model: str | None = setting(NAME, "rewrite.model")
    rewrite_file_lines: int = setting(COUNT, "rewrite.fullFileMaxLines", default=2000)
    chat_title: bool = setting(FLAG, "chat.title", default=True)
    chat_inline: InlineChats = setting(record(InlineChats))
    auto_compact_percentage: float = setting(PERCENT, default=75)
    auto_compact_tokens_left: int | None = setting(COUNT)
    answer_max_kb: int = setting(COUNT, default=32 * 1024, workspace=Workspace.SMALLER)


@attrs.frozen(kw_only=True, slots=False, repr=False)
class EndpointSettings:
    """The endpoints and their requests. Times are in seconds; an unset one has a default.

    Attributes:
        providers: endpoints by name, the part before the slash in `provider/model`.
        connect_timeout: limit of the connection to an endpoint; default: 10.
        first_byte_timeout: limit from the end of the request to the first byte of its answer;
            default: 60, or 600 for an endpoint on this machine or network.
        stream_idle_timeout: limit between two bytes of an answer; default: 120, or 600 for such an
            endpoint.
        no_progress_timeout: limit between two meaningful events of an answer; default: 600.
        rate_limit_max_wait: the longest wait that an endpoint may demand before the request fails;
            default: 60.
        retry: how a failed request is repeated.
        netrc_file: the netrc file, in place of `~/.netrc`.
        keyring: whether logins are stored in the system's keyring.
        network: the TLS certificates of connections.
        otlp: OpenTelemetry properties by name (`otel.exporter.otlp.endpoint`); values may be
            secret.
        catalog: the public catalogue of models.
    """

    providers: Mapping[str, Provider] = setting(each(record(Provider)), factory=dict)
    connect_timeout: float | None = setting(SECONDS, "connectTimeoutSeconds")
    first_byte_timeout: float | None = setting(SECONDS, "firstByteTimeoutSeconds")
    stream_idle_timeout: float | None = setting(SECONDS, "streamIdleTimeoutSeconds")
    no_progress_timeout: float | None = setting(SECONDS, "noProgressTimeoutSeconds")
    rate_limit_max_wait: float | None = setting(SECONDS, "rateLimitMaxWaitSeconds")
    retry: Retry = setting(record(Retry))
    netrc_file: str | None = setting(PATH, workspace=Workspace.NEVER)
    keyring: bool = setting(FLAG, default=False, workspace=Workspace.NEVER)
    network: Network = setting(record(Network), workspace=Workspace.NEVER)
    otlp: Mapping[str, Secret] = setting(each(KEY), factory=dict, workspace=Workspace.NEVER)
    catalog: CatalogSettings = setting(record(CatalogSettings), workspace=Workspace.NEVER)


@attrs.frozen(kw_only=True, slots=False, repr=False)
class ToolSettings:
    """The settings of tools and MCP servers. Times are in seconds.

    Attributes:
        disabled_tools: tools that are never offered to the model.
        enabled_tools: the only tools offered, named as in `disabledTools`; default: all.
        tool_call: the approval of tool calls and the limits of tools.
        custom_tools: commands that the model may call as tools, by the name of the tool.
        ignore_files: the kinds of ignore files that trees and searches respect.
        lsp_timeout: limit of a request to the editor.
        mcp_servers: servers of tools, prompts and resources, by the user's name for each.
        mcp_timeout: limit until an MCP server is ready.
        mcp_tool_search: the MCP tools that the model searches for instead of getting their schemas;
            true: all of them.
        mcp_keep_alive: the time between two pings of an MCP server at a `url`.
    """

    disabled_tools: tuple[str, ...] = setting(SELECTORS, default=(), workspace=Workspace.RESTRICTS)
    enabled_tools: tuple[str, ...] | None = setting(SELECTORS, workspace=Workspace.RESTRICTS)
    tool_call: ToolCall = setting(record(ToolCall))
    custom_tools: Mapping[str, CustomTool] = setting(each(record(CustomTool)), factory=dict)
    ignore_files: tuple[IgnoreFile, ...] = setting(
        listing(record(IgnoreFile)),
        "index.ignoreFiles",
        default=(IgnoreFile(type="gitignore"),),
        workspace=Workspace.ADDS,
    )
    lsp_timeout: float = setting(SECONDS, "lspTimeoutSeconds", default=30)
    mcp_servers: Mapping[str, MCPServer] = setting(MCP_SERVERS, factory=dict)
    mcp_timeout: float = setting(SECONDS, "mcpTimeoutSeconds", default=60)
    mcp_tool_search: ToolSearch = setting(TOOL_SEARCH)
    mcp_keep_alive: float = setting(SECONDS, "mcpKeepAliveSeconds", default=30)


@attrs.frozen(kw_only=True, repr=False)
class Config(ToolSettings, ChatSettings, EndpointSettings):
    """The whole configuration.

    Attributes:
        behaviors: the settings of each agent, by its name.
        rules: files, or folders of files, whose text is added to every chat.
        commands: files whose text a slash command sends.
        skills: folders of skills, or SKILL.md files, besides the usual places.
        hooks: commands that run on events of a chat, by the user's name for each.
        extra_configs: further configuration files; they win over all others. A relative path begins
            at each workspace root; its file belongs to the folder. A missing file is skipped.
        include_parent_agents_files: whether an AGENTS.md above the workspace is read.
        restrictions: the restrictions of workspace folders, each with rules for tool calls alone.
    """

    behaviors: Mapping[str, Behavior] = setting(
        BEHAVIORS,
        "agent",
        "behavior",
        factory=lambda: {name: Behavior(**each) for name, each in BUILT_IN_SUBAGENTS.items()},
    )
    rules: tuple[NamedFile, ...] = setting(_NAMED_FILES, default=(), workspace=Workspace.INSIDE)
    commands: tuple[NamedFile, ...] = setting(_NAMED_FILES, default=(), workspace=Workspace.INSIDE)
    skills: tuple[NamedFile, ...] = setting(_NAMED_FILES, default=(), workspace=Workspace.INSIDE)
    hooks: Mapping[str, Hook] = setting(HOOKS, factory=dict)
    extra_configs: tuple[str, ...] = setting(listing(ROOT_PATH), default=())
    include_parent_agents_files: bool = setting(FLAG, default=True, workspace=Workspace.SMALLER)
    restrictions: tuple[Config, ...] = ()

    @property
    def selectable_behaviors(self) -> tuple[str, ...]:
        """The behaviours a user can select: built-in ones, then configured ones but subagents."""
        own = (name for name, each in self.behaviors.items() if name and each.mode != ("subagent",))
        return tuple(dict.fromkeys((*BUILT_IN_AGENTS, *own)))

    def subagents(self) -> Mapping[str, Behavior]:
        """Return the agents that others may call; one without a mode may be called, too.

        The built-in agents, and those that inherit from them, have the mode `primary`.
        """
        return {
            name: each
            for name, each in self.behaviors.items()
            if name and ("subagent" in each.mode if each.mode else not self._is_primary(name))
        }

    def tool_search(self, behavior: str) -> ToolSearch:
        """Return the MCP tools that the model of an agent has to search for."""
        return self.mcp_tool_search.adding(self.behaviors.get(behavior, Behavior()).tool_search)

    def _is_primary(self, behavior: str) -> bool:
        name: str | None = behavior
        while name is not None and name not in BUILT_IN_AGENTS:
            name = self.behaviors[name].inherit if name in self.behaviors else None
        return name is not None

    def built_in(self, behavior: str) -> str:
        """Return a behaviour's built-in base: `plan` if it inherits from that, else `agent`."""
        name: str | None = behavior
        while name is not None and name != "plan":
            name = self.behaviors[name].inherit if name in self.behaviors else None
        return name or "agent"


def agent_key(behavior: str, key: str) -> str:
    """Return the dotted key of an agent's setting, as a user writes it."""
    return f"agent.{'code' if behavior == 'agent' else behavior}.{key}"


def provider_name(name: str) -> str:
    """Return the normal form of a provider's name: as in its environment variables."""
    return _WORD_BREAK.sub("_", name).strip("_").upper()
