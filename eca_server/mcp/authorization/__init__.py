"""Logins at servers over HTTP (MCP authorization): who gives the tokens out, and how one is had."""
