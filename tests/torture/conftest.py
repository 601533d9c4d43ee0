"""The fixtures of the torture tests."""

from tests.torture.rounds import torture as torture  # noqa: PLC0414 - a fixture
