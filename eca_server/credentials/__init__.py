"""Where keys and URLs of the endpoints come from, and the environment without the keys.

The rule it keeps: what is said of a key is where it came from (a configured key, a variable's
name), never what it is.
"""

from __future__ import annotations

from eca_server.credentials.lookup import (
    Credential,
    Location,
    child_environment,
    find_key,
    find_url,
    variable_of,
)

__all__ = [
    "Credential",
    "Location",
    "child_environment",
    "find_key",
    "find_url",
    "variable_of",
]
