"""Where keys and URLs of the endpoints come from, stored logins, the environment without keys.

The rule it keeps: what is said of a key is where it came from (a configured key, a variable's
name), never what it is.
"""

from __future__ import annotations

from eca_server.credentials.logins import Logins, LoginsFault, StoredKeys
from eca_server.credentials.lookup import (
    LOGIN,
    Credential,
    Location,
    child_environment,
    find_key,
    find_url,
    url_fault,
    variable_of,
)
from eca_server.credentials.oauth import Client, LoggedOut, OAuthFault, TokenSet
from eca_server.credentials.tokens import Tokens

__all__ = [
    "LOGIN",
    "Client",
    "Credential",
    "Location",
    "LoggedOut",
    "Logins",
    "LoginsFault",
    "OAuthFault",
    "StoredKeys",
    "TokenSet",
    "Tokens",
    "child_environment",
    "find_key",
    "find_url",
    "url_fault",
    "variable_of",
]
