"""The configuration as the server works with it: one class per object of the file.

Beside each field stands the key it is read from. What nobody configured is None where the
default depends on something else (a model's limits, an endpoint's timers).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import attrs

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
    SECONDS,
    TEXT,
    Workspace,
    choice,
    each,
    listing,
    record,
    setting,
)
from eca_server.config.tool_settings import (
    BEHAVIORS,
    BUILT_IN,
    BUILT_IN_SUBAGENTS,
    NAMES,
    Behavior,
    CustomTool,
    IgnoreFile,
    NamedFile,
    ToolCall,
)
from eca_server.secret import Secret, mask

__all__ = [
    "CatalogSettings",
    "Config",
    "Cost",
    "InlineChats",
    "Limit",
    "Model",
    "Prompts",
    "Provider",
    "Retry",
]


def _masked(url: str | None) -> str:
    return repr(url and mask(url))


@attrs.frozen(kw_only=True)
class Limit:
    """A model's limits, in tokens."""

    context: int | None = attrs.field(default=None, metadata=setting(COUNT, "context"))
    output: int | None = attrs.field(default=None, metadata=setting(COUNT, "output"))


@attrs.frozen(kw_only=True)
class Cost:
    """What a model costs, in US dollars per million tokens.

    Attributes:
        input: of a prompt.
        output: of an answer.
        cache_read: of what came from the provider's cache; None: as other input.
        cache_write: of what went into it; None: as other input.
    """

    input: float | None = attrs.field(default=None, metadata=setting(PRICE, "input"))
    output: float | None = attrs.field(default=None, metadata=setting(PRICE, "output"))
    cache_read: float | None = attrs.field(default=None, metadata=setting(PRICE, "cacheRead"))
    cache_write: float | None = attrs.field(default=None, metadata=setting(PRICE, "cacheWrite"))


@attrs.frozen(kw_only=True)
class Model:
    """`providers.<name>.models.<model>`.

    Attributes:
        model_name: what the endpoint calls it; None: as we do.
        extra_payload: merged into each request; a null in it removes the key.
        extra_headers: sent with each request.
        variants: more payloads for the same model, each under its name (`high`), by which it is
            selected as `provider/model:name`; it counts more than `extraPayload`.
        reasoning_history: which of its thoughts go back to a model that does not insist on them:
            all, those since the user's last message, none.
        image_input: whether it reads pictures.
        limit: what the user knows of its limits.
        cost: what it costs the user; counts if `input` and `output` are given.
    """

    model_name: str | None = attrs.field(default=None, metadata=setting(NAME, "modelName"))
    extra_payload: Mapping[str, Any] = attrs.field(
        factory=dict, repr=False, metadata=setting(OBJECT, "extraPayload")
    )
    extra_headers: Mapping[str, str] = attrs.field(
        factory=dict, repr=False, metadata=setting(each(TEXT), "extraHeaders")
    )
    variants: Mapping[str, Mapping[str, Any]] = attrs.field(
        factory=dict, repr=False, metadata=setting(each(OBJECT), "variants")
    )
    reasoning_history: Literal["all", "turn", "off"] = attrs.field(
        default="all", metadata=setting(choice("all", "turn", "off"), "reasoningHistory")
    )
    image_input: bool | None = attrs.field(default=None, metadata=setting(FLAG, "imageInput"))
    limit: Limit = attrs.field(default=Limit(), metadata=setting(record(Limit), "limit"))
    cost: Cost = attrs.field(default=Cost(), metadata=setting(record(Cost), "cost"))


@attrs.frozen(kw_only=True)
class Retry:
    """`retry`: what is None is the retry room's own default.

    Attributes:
        max_retries: tries after the first one; 0 turns them off.
        base_delay_ms: the first wait, in milliseconds.
        backoff_multiplier: what each wait is multiplied by to give the next.
        max_delay_ms: no wait is longer, in milliseconds.
    """

    max_retries: int | None = attrs.field(default=None, metadata=setting(COUNT, "maxRetries"))
    base_delay_ms: float | None = attrs.field(default=None, metadata=setting(NUMBER, "baseDelayMs"))
    backoff_multiplier: float | None = attrs.field(
        default=None, metadata=setting(NUMBER, "backoffMultiplier")
    )
    max_delay_ms: float | None = attrs.field(default=None, metadata=setting(NUMBER, "maxDelayMs"))


@attrs.frozen(kw_only=True)
class Provider:
    """`providers.<name>`: an endpoint and its models.

    Attributes:
        api: which wire API it speaks (`openai-chat`, ...); not judged here.
        url: the base that the API's path is added to.
        url_env: the variable that holds the url, if `url` is not set.
        key: the key itself.
        key_env: the variable that holds the key, if `key` is not set.
        key_rc: the entry of the netrc file that holds it, as `[LOGIN@]MACHINE[:PORT]`.
        auth: how `/login` gets a token.
        completion_url_relative_path: in place of the API's own path.
        extra_headers: sent with each request.
        think_tag_start: what begins a thought in the text of an answer; None: `<think>`.
        think_tag_end: what ends it; None: `</think>`.
        fetch_models: whether the endpoint is asked which models it has, to offer them, too.
        retry: how a failed request is tried again; None in it: as `retry` for all.
        rate_limit_max_wait: a longer wait asked for by the endpoint is not slept; None: as for all.
        models: by the name the user gives them.
    """

    api: str | None = attrs.field(default=None, metadata=setting(NAME, "api"))
    url: str | None = attrs.field(default=None, repr=_masked, metadata=setting(NAME, "url"))
    url_env: str | None = attrs.field(default=None, metadata=setting(NAME, "urlEnv"))
    key: Secret | None = attrs.field(default=None, metadata=setting(KEY, "key"))
    key_env: str | None = attrs.field(default=None, metadata=setting(NAME, "keyEnv"))
    key_rc: str | None = attrs.field(
        default=None, metadata=setting(NAME, "keyRc", workspace=Workspace.NEVER)
    )
    auth: Auth = attrs.field(default=Auth(), metadata=setting(record(Auth), "auth"))
    completion_url_relative_path: str | None = attrs.field(
        default=None, repr=_masked, metadata=setting(NAME, "completionUrlRelativePath")
    )
    extra_headers: Mapping[str, str] = attrs.field(
        factory=dict, repr=False, metadata=setting(each(TEXT), "extraHeaders")
    )
    think_tag_start: str | None = attrs.field(default=None, metadata=setting(NAME, "thinkTagStart"))
    think_tag_end: str | None = attrs.field(default=None, metadata=setting(NAME, "thinkTagEnd"))
    fetch_models: bool = attrs.field(default=True, metadata=setting(FLAG, "fetchModels"))
    retry: Retry = attrs.field(default=Retry(), metadata=setting(record(Retry), "retry"))
    rate_limit_max_wait: float | None = attrs.field(
        default=None, metadata=setting(SECONDS, "rateLimitMaxWaitSeconds")
    )
    models: Mapping[str, Model] = attrs.field(
        factory=dict, metadata=setting(each(record(Model)), "models")
    )


@attrs.frozen(kw_only=True)
class CatalogSettings:
    """`catalog`: limits, prices and abilities of models, as a public catalogue has them.

    Attributes:
        refresh: whether it is fetched, once a day at most; else what is packaged counts.
        url: where it is fetched from, in the form of models.dev.
    """

    refresh: bool = attrs.field(default=True, metadata=setting(FLAG, "refresh"))
    url: str = attrs.field(default="https://models.dev/api.json", metadata=setting(NAME, "url"))


@attrs.frozen(kw_only=True)
class Prompts:
    """`prompts`: the user's words in place of ours.

    Attributes:
        chat: the instructions of every behaviour without its own.
        chat_title: how a title is asked for.
        compact: how a summary is asked for.
        init: what `/init` asks for.
        skill_create: what `/skill-create` asks for, with `{{skillName}}`, `{{skillFilePath}}` and
            `{{userPrompt}}` where these belong.
        completion: how a completion is asked for.
        rewrite: how a rewrite is asked for.
        tools: what the model is told of a native tool, by the tool's name.
    """

    chat: str | None = attrs.field(default=None, metadata=setting(TEXT, "chat"))
    chat_title: str | None = attrs.field(default=None, metadata=setting(TEXT, "chatTitle"))
    compact: str | None = attrs.field(default=None, metadata=setting(TEXT, "compact"))
    init: str | None = attrs.field(default=None, metadata=setting(TEXT, "init"))
    skill_create: str | None = attrs.field(default=None, metadata=setting(TEXT, "skillCreate"))
    completion: str | None = attrs.field(default=None, metadata=setting(TEXT, "completion"))
    rewrite: str | None = attrs.field(default=None, metadata=setting(TEXT, "rewrite"))
    tools: Mapping[str, str] = attrs.field(factory=dict, metadata=setting(each(TEXT), "tools"))


@attrs.frozen(kw_only=True)
class InlineChats:
    """`chatInline`: what a chat has that is shown in the text, unless its prompt says another.

    Attributes:
        model: `provider/model`; None: its source's, or the selected one.
        variant: of that model.
        agent: who answers.
    """

    model: str | None = attrs.field(default=None, metadata=setting(NAME, "model"))
    variant: str | None = attrs.field(default=None, metadata=setting(NAME, "variant"))
    agent: str | None = attrs.field(default=None, metadata=setting(NAME, "agent"))


@attrs.frozen(kw_only=True)
class Config:
    """The whole configuration. Times are in seconds, each None: the HTTP room's own default.

    Attributes:
        providers: by the name that stands before the slash in `provider/model`.
        default_model: `provider/model`, or None: the first that can be used.
        default_behavior: the behaviour of a new chat (ruling W-28 ranks it last).
        welcome_message: Markdown, shown by the editor in an empty chat.
        prompts: the user's words in place of ours.
        compact_prompt_file: its text counts, if `prompts.compact` is not set.
        completion_model: `provider/model` for completions, or None: the one chats have.
        rewrite_model: likewise for rewrites.
        rewrite_file_lines: of the file around it a rewrite is shown at most so many lines.
        chat_title: whether a title is asked from the model (ruling W-25).
        chat_inline: what chats have that are shown in the text.
        auto_compact_percentage: how full of its chat a model's context may be, in percent, before
            a summary takes the chat's place.
        auto_compact_tokens_left: how many tokens of a model's context must be left, in place of
            that percentage; it does not count for a model whose whole context is not larger.
        connect_timeout: for the connection to an endpoint.
        first_byte_timeout: from the request to the first byte of its answer.
        stream_idle_timeout: between two bytes of an answer.
        no_progress_timeout: between two events of an answer that mean something.
        answer_max_kb: KiB of text of one answer of a model, after which it is cut.
        rate_limit_max_wait: a longer wait asked for by an endpoint is not slept.
        retry: how a failed request is tried again.
        netrc_file: in place of `~/.netrc`.
        keyring: whether logins are kept in the system's keyring.
        network: the way to the network.
        otlp: properties of OpenTelemetry by their names (`otel.exporter.otlp.endpoint`); they may
            hold keys.
        catalog: where more is learned about models.
        behaviors: what differs in each behaviour, by its name.
        disabled_tools: never offered to the model.
        enabled_tools: the only tools that are offered, named as in `disabledTools`; None: all.
        tool_call: which calls may run, and the limits of tools.
        custom_tools: commands the model may call, by the name of the tool.
        rules: files whose text every chat is given.
        commands: files whose text is sent in place of a slash command.
        skills: folders of skills, or SKILL.md files, beside the usual places.
        hooks: commands that are run at certain moments of a chat, by the user's name for each.
        ignore_files: which files say what is left out of trees and searches.
        lsp_timeout: for what the editor is asked.
        mcp_servers: servers of tools, prompts and resources, by the user's name for each.
        mcp_timeout: until an MCP server is ready.
        mcp_tool_search: keep the schemas of MCP tools out of the model's context until it looks for
            them.
        mcp_keep_alive: between two signs of life of an MCP server at a `url`.
        extra_configs: more files like this one; they win over all others.
        include_parent_agents_files: whether an AGENTS.md above the workspace counts.
        restrictions: what opened folders restrict; each holds rules for tool calls alone.
    """

    providers: Mapping[str, Provider] = attrs.field(
        factory=dict, metadata=setting(each(record(Provider)), "providers")
    )
    default_model: str | None = attrs.field(
        default=None, metadata=setting(NAME, "defaultModel", "chat.defaultModel")
    )
    default_behavior: str = attrs.field(
        default="agent",
        metadata=setting(
            NAME, "defaultBehavior", "defaultAgent", "chat.defaultBehavior", "chat.defaultAgent"
        ),
    )
    welcome_message: str = attrs.field(
        default="Welcome to ECA! Type `/` for commands.\n\n",
        metadata=setting(TEXT, "welcomeMessage", "chat.welcomeMessage"),
    )
    prompts: Prompts = attrs.field(default=Prompts(), metadata=setting(record(Prompts), "prompts"))
    compact_prompt_file: str | None = attrs.field(
        default=None, metadata=setting(PATH, "compactPromptFile")
    )
    completion_model: str | None = attrs.field(
        default=None, metadata=setting(NAME, "completion.model")
    )
    rewrite_model: str | None = attrs.field(default=None, metadata=setting(NAME, "rewrite.model"))
    rewrite_file_lines: int = attrs.field(
        default=2000, metadata=setting(COUNT, "rewrite.fullFileMaxLines")
    )
    chat_title: bool = attrs.field(default=True, metadata=setting(FLAG, "chat.title"))
    chat_inline: InlineChats = attrs.field(
        default=InlineChats(), metadata=setting(record(InlineChats), "chatInline")
    )
    auto_compact_percentage: float = attrs.field(
        default=75, metadata=setting(PERCENT, "autoCompactPercentage")
    )
    auto_compact_tokens_left: int | None = attrs.field(
        default=None, metadata=setting(COUNT, "autoCompactTokensLeft")
    )
    connect_timeout: float | None = attrs.field(
        default=None, metadata=setting(SECONDS, "connectTimeoutSeconds")
    )
    first_byte_timeout: float | None = attrs.field(
        default=None, metadata=setting(SECONDS, "firstByteTimeoutSeconds")
    )
    stream_idle_timeout: float | None = attrs.field(
        default=None, metadata=setting(SECONDS, "streamIdleTimeoutSeconds")
    )
    no_progress_timeout: float | None = attrs.field(
        default=None, metadata=setting(SECONDS, "noProgressTimeoutSeconds")
    )
    answer_max_kb: int = attrs.field(
        default=32 * 1024, metadata=setting(COUNT, "answerMaxKb", workspace=Workspace.SMALLER)
    )
    rate_limit_max_wait: float | None = attrs.field(
        default=None, metadata=setting(SECONDS, "rateLimitMaxWaitSeconds")
    )
    retry: Retry = attrs.field(default=Retry(), metadata=setting(record(Retry), "retry"))
    netrc_file: str | None = attrs.field(
        default=None, metadata=setting(PATH, "netrcFile", workspace=Workspace.NEVER)
    )
    keyring: bool = attrs.field(
        default=False, metadata=setting(FLAG, "keyring", workspace=Workspace.NEVER)
    )
    network: Network = attrs.field(
        default=Network(), metadata=setting(record(Network), "network", workspace=Workspace.NEVER)
    )
    otlp: Mapping[str, Secret] = attrs.field(
        factory=dict, metadata=setting(each(KEY), "otlp", workspace=Workspace.NEVER)
    )
    catalog: CatalogSettings = attrs.field(
        default=CatalogSettings(),
        metadata=setting(record(CatalogSettings), "catalog", workspace=Workspace.NEVER),
    )
    behaviors: Mapping[str, Behavior] = attrs.field(
        factory=lambda: {name: Behavior(**each) for name, each in BUILT_IN_SUBAGENTS.items()},
        metadata=setting(BEHAVIORS, "agent", "behavior"),
    )
    disabled_tools: tuple[str, ...] = attrs.field(
        default=(), metadata=setting(NAMES, "disabledTools", workspace=Workspace.RESTRICTS)
    )
    enabled_tools: tuple[str, ...] | None = attrs.field(
        default=None, metadata=setting(NAMES, "enabledTools", workspace=Workspace.RESTRICTS)
    )
    tool_call: ToolCall = attrs.field(
        default=ToolCall(), metadata=setting(record(ToolCall), "toolCall")
    )
    custom_tools: Mapping[str, CustomTool] = attrs.field(
        factory=dict, metadata=setting(each(record(CustomTool)), "customTools")
    )
    rules: tuple[NamedFile, ...] = attrs.field(
        default=(),
        metadata=setting(listing(record(NamedFile)), "rules", workspace=Workspace.INSIDE),
    )
    commands: tuple[NamedFile, ...] = attrs.field(
        default=(),
        metadata=setting(listing(record(NamedFile)), "commands", workspace=Workspace.INSIDE),
    )
    skills: tuple[NamedFile, ...] = attrs.field(
        default=(),
        metadata=setting(listing(record(NamedFile)), "skills", workspace=Workspace.INSIDE),
    )
    hooks: Mapping[str, Hook] = attrs.field(factory=dict, metadata=setting(HOOKS, "hooks"))
    ignore_files: tuple[IgnoreFile, ...] = attrs.field(
        default=(IgnoreFile(type="gitignore"),),
        metadata=setting(
            listing(record(IgnoreFile)), "index.ignoreFiles", workspace=Workspace.ADDS
        ),
    )
    lsp_timeout: float = attrs.field(default=30, metadata=setting(SECONDS, "lspTimeoutSeconds"))
    mcp_servers: Mapping[str, MCPServer] = attrs.field(
        factory=dict, metadata=setting(MCP_SERVERS, "mcpServers")
    )
    mcp_timeout: float = attrs.field(default=60, metadata=setting(SECONDS, "mcpTimeoutSeconds"))
    mcp_tool_search: bool = attrs.field(default=False, metadata=setting(FLAG, "mcpToolSearch"))
    mcp_keep_alive: float = attrs.field(
        default=30, metadata=setting(SECONDS, "mcpKeepAliveSeconds")
    )
    extra_configs: tuple[str, ...] = attrs.field(
        default=(), metadata=setting(listing(PATH), "extraConfigs")
    )
    include_parent_agents_files: bool = attrs.field(
        default=True,
        metadata=setting(FLAG, "includeParentAgentsFiles", workspace=Workspace.SMALLER),
    )
    restrictions: tuple[Config, ...] = ()

    @property
    def selectable_behaviors(self) -> tuple[str, ...]:
        """The behaviours a user can select: ours, then the configured ones but for subagents."""
        own = (name for name, each in self.behaviors.items() if name and each.mode != ("subagent",))
        return tuple(dict.fromkeys((*BUILT_IN, *own)))

    def built_in(self, behavior: str) -> str:
        """Which of ours stands for a behaviour: `plan` if it begins with that, else `agent`."""
        name: str | None = behavior
        while name is not None and name != "plan":
            name = self.behaviors[name].inherit if name in self.behaviors else None
        return name or "agent"
