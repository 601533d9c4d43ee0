"""Keys and URLs of the endpoints, stored logins, and an environment without keys.

Messages name the source of a key (a configuration key, a variable), never the key itself.
"""

from __future__ import annotations

from eca_server.models.credentials.logins import Logins, LoginsError, StoredKeys
from eca_server.models.credentials.lookup import (
    LOGIN,
    Credential,
    Location,
    child_environment,
    find_key,
    find_url,
    url_problem,
    variable_of,
)
from eca_server.models.credentials.oauth import Client, LoggedOut, OAuthError, TokenSet
from eca_server.models.credentials.tokens import Tokens

__all__ = [
    "LOGIN",
    "Client",
    "Credential",
    "Location",
    "LoggedOut",
    "Logins",
    "LoginsError",
    "OAuthError",
    "StoredKeys",
    "TokenSet",
    "Tokens",
    "child_environment",
    "find_key",
    "find_url",
    "url_problem",
    "variable_of",
]
