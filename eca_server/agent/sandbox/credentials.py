"""Credential paths: files and sockets that a command in a sandbox must not read or connect to.

Rule: one list for every system; the survey skips paths that do not exist. Paths that are not listed
are readable, so new credential paths belong here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from eca_server.config.directories import (
    cache_directory,
    data_directory,
    home_directory,
    logins_file,
    user_directory,
)

_HOME = (
    # remote machines, clouds, clusters
    ".ssh", ".aws", ".azure", ".kube", ".docker", ".config/gcloud", ".config/doctl", ".fly", ".oci",
    ".config/containers", ".config/heroku", ".config/rclone", ".config/op", ".1password", ".s3cfg",
    ".boto", ".terraform.d", ".terraformrc", ".vault-token", ".databrickscfg", ".minikube",
    ".config/helm", ".colima", ".lima", ".orbstack", ".config/hcloud", ".config/linode-cli",
    ".config/scw", ".config/netlify", ".local/share/com.vercel.cli", ".config/wrangler",
    ".wrangler", ".config/.wrangler", ".cloudflared", ".config/ngrok", ".ngrok2",
    ".config/stripe", ".tsh", ".step", ".vnc", ".config/filezilla", ".config/remmina",
    ".local/share/remmina", ".pulumi/credentials.json", ".config/opentofu", ".tofurc",
    ".config/openstack", ".config/argocd", ".talos", ".aliyun", ".bluemix", ".mc",
    ".b2_account_info", ".config/b2", ".config/borg", ".config/kopia", ".config/syncthing",
    ".local/state/syncthing", ".config/configstore", ".railway/config.json",
    ".supabase/access-token", ".config/turso", ".config/neonctl", ".doppler", ".infisical",
    ".sentryclirc", ".circleci", ".jfrog", ".expo", ".modal.toml",
    # keys, keyrings
    ".gnupg", ".password-store", ".local/share/keyrings", ".local/share/kwalletd", ".pki",
    ".config/age", ".config/sops", ".passage", ".config/rbw", ".config/Bitwarden",
    ".config/keepassxc", ".bitcoin", ".electrum", ".ethereum", ".config/solana", ".Xauthority",
    ".ICEauthority", "Library/Keychains", ".config/1Password", ".config/Bitwarden CLI",
    ".foundry/keystores", ".near-credentials", ".sui/sui_config", ".aptos/config.yaml",
    ".config/Exodus",
    # forges, registries, databases, mail
    ".netrc", "_netrc", ".git-credentials", ".config/git/credentials", ".config/gh", ".config/hub",
    ".config/glab-cli", ".npmrc", ".yarnrc", ".yarnrc.yml", ".pypirc", ".config/pypoetry",
    ".config/pip", ".pip", ".config/uv", ".gem/credentials", ".cargo/credentials",
    ".cargo/credentials.toml", ".m2/settings.xml", ".m2/settings-security.xml",
    ".gradle/gradle.properties", ".config/hatch", ".huggingface", ".cache/huggingface/token",
    ".pgpass", ".my.cnf", ".mylogin.cnf", ".thunderbird", ".mutt", ".msmtprc", ".authinfo",
    ".authinfo.gpg", ".env", ".condarc", ".composer/auth.json", ".config/composer/auth.json",
    ".nuget/NuGet/NuGet.Config", ".kaggle", ".config/wandb", ".subversion/auth", ".config/msmtp",
    ".config/mutt", ".config/neomutt", ".mbsyncrc", ".offlineimaprc", ".fetchmailrc", ".dbshell",
    ".config/aerc", ".config/himalaya", ".dbt", ".snowflake", ".config/snowflake", ".snowsql",
    ".local/share/DBeaverData", ".bunfig.toml", ".config/pnpm/rc", ".local/share/gem/credentials",
    ".hex/hex.config", ".sbt/.credentials", ".ivy2/.credentials", ".pub-cache/credentials.json",
    ".config/dart/pub-credentials.json", ".conan2/credentials.json", ".config/tea",
    ".cache/huggingface/stored_tokens", ".config/cachix", ".config/attic",
    # browsers
    ".mozilla", ".config/google-chrome", ".config/google-chrome-beta", ".config/chromium",
    ".config/BraveSoftware", ".config/microsoft-edge", ".config/vivaldi", ".config/opera", ".zen",
    ".librewolf", ".config/Slack", ".config/discord", ".config/Signal", ".var/app", "snap/firefox",
    "snap/chromium", "Library/Application Support/Google", "Library/Application Support/Firefox",
    "Library/Application Support/BraveSoftware", "Library/Application Support/Microsoft Edge",
    "Library/Application Support/Arc", "Library/Cookies", "Library/Safari", "Library/Mail",
    "Library/Messages", ".config/Element", ".local/share/TelegramDesktop",
    # other agents and editors
    ".claude", ".claude.json", ".codex", ".gemini", ".config/github-copilot", ".copilot",
    ".local/share/opencode", ".config/opencode", ".config/goose", ".local/share/goose", ".qwen",
    ".continue", ".mcp-auth", ".config/mcp", ".config/eca", ".config/Code/User/globalStorage",
    ".config/VSCodium/User/globalStorage", ".config/Cursor", ".cursor/mcp.json", ".codeium",
    ".config/crush", ".local/share/crush", ".config/amp", ".local/share/amp", ".factory/auth.json",
    ".config/io.datasette.llm", ".config/aichat", ".aider.conf.yml",
    # histories
    ".bash_history", ".zsh_history", ".python_history", ".node_repl_history", ".psql_history",
    ".mysql_history", ".sqlite_history", ".rediscli_history", ".histfile", ".zhistory", ".lesshst",
    ".irb_history", ".mongodb", ".local/share/fish/fish_history",
    ".local/share/atuin", ".local/share/mcfly", ".config/nushell/history.txt",
    ".config/nushell/history.sqlite3", ".local/share/xonsh",
    ".ipython/profile_default/history.sqlite", ".duckdb_history", ".Rhistory", ".julia/logs",
    ".viminfo", ".local/state/nvim/shada",
)  # fmt: skip
_SYSTEM = (
    "/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers",
    "/etc/sudoers.d", "/etc/ssl/private", "/etc/kubernetes", "/etc/wireguard",
    "/etc/NetworkManager/system-connections",
    "/etc/ssh/ssh_host_rsa_key", "/etc/ssh/ssh_host_ecdsa_key", "/etc/ssh/ssh_host_ed25519_key",
    "/etc/krb5.keytab", "/var/lib/docker", "/var/lib/containerd", "/var/lib/kubelet", "/var/run",
    "/nix/var/nix/daemon-socket",
)  # fmt: skip
_VARIABLES = (
    "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AZURE_CONFIG_DIR", "CLOUDSDK_CONFIG",
    "DOCKER_CONFIG", "GNUPGHOME", "GOOGLE_APPLICATION_CREDENTIALS", "KUBECONFIG", "NETRC",
    "NPM_CONFIG_USERCONFIG", "PASSWORD_STORE_DIR", "PGPASSFILE", "PIP_CONFIG_FILE", "XAUTHORITY",
    "XDG_RUNTIME_DIR",
)  # fmt: skip
"""Variables that name credential paths, separated by `:`."""

DROPPED_VARIABLES = frozenset(
    {
        "DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "DOCKER_HOST", "GPG_AGENT_INFO", "KITTY_LISTEN_ON",
        "NVIM", "SSH_AGENT_PID", "SSH_AUTH_SOCK", "TMUX", "VSCODE_GIT_IPC_HANDLE",
        "VSCODE_IPC_HOOK_CLI", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR",
    }
)  # fmt: skip
"""Variables that point to processes outside the sandbox, which cannot be reached in it."""


def credential_paths(environ: Mapping[str, str], more: tuple[str, ...] = ()) -> Iterator[Path]:
    """Yield every credential path of this user, even if it does not exist.

    `more`: further files from the configuration (`netrcFile`).
    """
    home = home_directory(environ)
    yield from (home / name for name in _HOME)
    yield from map(Path, _SYSTEM)
    yield from (user_directory(environ), data_directory(environ), cache_directory(environ))
    yield logins_file(environ)  # it may be a link to a file elsewhere
    for variable in _VARIABLES:
        for text in environ.get(variable, "").split(":"):
            path = Path(text)
            if path.is_absolute() and len(path.parts) > 2 and not home.is_relative_to(path):
                yield path
    yield from (Path(each).expanduser() for each in more)


def listening_sockets(table: str) -> Iterator[Path]:
    """Yield the paths of the listening Unix sockets; a read-only mount would not prevent a connect.

    Args:
        table: the text of `/proc/net/unix`.
    """
    for line in table.splitlines()[1:]:
        columns = line.split(maxsplit=7)
        if len(columns) == 8 and columns[7].startswith("/"):
            yield Path(columns[7])
