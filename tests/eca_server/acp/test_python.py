"""The official Python SDK's client at our agent: every message is read by the SDK's own models."""

import asyncio
import importlib

import pytest


@pytest.mark.long
def test_the_sdk_s_client_uses_the_whole_of_our_agent(tmp_path):
    client = importlib.import_module("tests.eca_server.acp.python_client")  # it takes half a second
    asyncio.run(client.use_agent(tmp_path))
