"""Logins at servers over HTTP (MCP authorization): discovery, registration and tokens."""
