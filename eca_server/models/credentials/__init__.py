"""Keys and URLs of the endpoints, stored logins, and an environment without keys.

Messages name the source of a key (a configuration key, a variable), never the key itself.
"""
