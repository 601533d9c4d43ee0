"""The suite for agents: that of servers, with the cases, rows and harness of ACP."""

from __future__ import annotations

from typing import ClassVar

from typing_extensions import override

from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.acp.harness import AcpHarness, AcpWire, acp_cases
from eca_protocol.testing.conformance.harness import Harness
from eca_protocol.testing.conformance.suite import ServerSuite
from eca_protocol.testing.conformance.verdicts import Unmet
from eca_protocol.testing.conformance.wire import Wire
from eca_protocol.testing.requirements import ACP_REQUIREMENTS
from eca_protocol.testing.script import reply

__all__ = ["AcpSuite"]


class AcpSuite(ServerSuite):
    """An agent with its model, ready to run cases."""

    all_cases = staticmethod(acp_cases)
    make_wire: ClassVar[type[Wire]] = AcpWire
    make_harness: ClassVar[type[Harness]] = AcpHarness

    @override
    def bound_rows(self) -> tuple[str, ...]:
        return tuple(ACP_REQUIREMENTS)

    @property
    @override
    def edition_name(self) -> str:
        return "ACP 1"

    @override
    async def _look(self, harness: Harness) -> None:
        """Start an agent once, and see whether it uses the model."""
        assert isinstance(harness, AcpHarness)
        self.edition = Revision.CURRENT
        async with harness.agent() as agent:
            try:
                prompt = await agent.prompt(await agent.new(), reply("Hello."))
                await agent.ended(prompt)
                if not prompt.model.requests:
                    self._absent = {"model": "the agent does not use the suite's model"}
            except Unmet as stuck:
                self._absent = {"model": f"the agent takes no turn: {stuck}"}
