"""The table of revisions, and what each adds to a message."""

from __future__ import annotations

import base64

from hypothesis import given
from hypothesis import strategies as st

from eca_server.agent.mcp.eras import ERAS, OFFERED, era_of, header_value, newest_stateless


def test_every_published_revision_is_spoken_and_the_newest_handshake_is_offered():
    assert list(ERAS) == ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]
    assert [name for name, era in ERAS.items() if era.stateless] == ["2026-07-28"]
    assert max(name for name, era in ERAS.items() if not era.stateless) == OFFERED


def test_a_revision_is_found_by_its_name_alone_and_a_stateless_one_among_others():
    for name in (None, 3, "2026", ["2025-11-25"], "DRAFT"):
        assert era_of(name) is None
    assert newest_stateless(["2025-11-25", "2026-07-28", "2031-01-01"]) is ERAS["2026-07-28"]
    assert newest_stateless(["2025-11-25"]) is None
    assert newest_stateless("2026-07-28") is None


def test_only_a_stateless_request_names_the_client_and_keeps_its_own_meta():
    params = {"name": "t", "_meta": {"progressToken": 1}}
    assert ERAS["2025-11-25"].params(params, client={}, capabilities={}) == params
    sent = ERAS["2026-07-28"].params(params, client={"name": "c"}, capabilities={})
    assert sent["_meta"] == {
        "progressToken": 1,
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "c"},
    }
    assert params["_meta"] == {"progressToken": 1}


def test_headers_by_revision():
    call = ("tools/call", {"name": "añadir"})
    assert ERAS["2024-11-05"].headers(*call) == {}
    assert ERAS["2025-06-18"].headers(*call) == {"MCP-Protocol-Version": "2025-06-18"}
    assert ERAS["2026-07-28"].headers(*call) == {
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": "=?base64?YcOxYWRpcg==?=",
    }


@given(st.text())
def test_every_text_fits_into_a_header_and_comes_back(text):
    value = header_value(text)
    assert value.isascii()
    assert value == value.strip()
    assert value.isprintable()
    if value.startswith("=?base64?"):
        encoded = value.removeprefix("=?base64?").removesuffix("?=")
        assert base64.b64decode(encoded) == text.encode("utf-8", "replace")
    else:
        assert value == text
