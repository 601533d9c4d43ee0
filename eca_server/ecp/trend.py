"""How pass rates go over many reports, in the order in which their runs began."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import attrs

from eca_server.ecp.results import RunReport
from eca_server.printable import printable_line

__all__ = ["Trend", "trend"]

_FALLS: Final = -1e-9


@attrs.frozen(kw_only=True)
class Trend:
    """The pass rates of the last runs.

    Attributes:
        points: when each began, in which file it is, and its share of passed checks.
        slope: by how much the share changes from one run to the next, by least squares.
    """

    points: tuple[tuple[str, str, float], ...]
    slope: float

    @property
    def regressed(self) -> bool:
        """Whether it falls."""
        return self.slope < _FALLS

    def text(self, *, verbose: bool) -> str:
        """For a person."""
        lines = [
            f"{_shown(started) or 'unknown time'} {_shown(name)}: {share:.1%}"
            for started, name, share in (self.points if verbose else ())
        ]
        direction = "falls" if self.regressed else "rises" if self.slope > -_FALLS else "is level"
        shares = [share for _, _, share in self.points]
        lines.append(
            f"{len(shares)} runs, from {shares[0]:.1%} to {shares[-1]:.1%}: it {direction} "
            f"({100 * self.slope:+.2f} points a run)"
        )
        return "".join(f"{line}\n" for line in lines)


def _shown(text: str) -> str:
    return printable_line(text, longest=500)


def trend(reports: Iterable[tuple[str, RunReport]], *, window: int) -> Trend:
    """The trend of the last `window` of these reports (at least one), given with their names.

    Reports that do not say when their run began come before the others, by the numbers in their
    names.
    """
    points = [
        (str(report.audit.get("started_at", "")), name, _share(report)) for name, report in reports
    ]
    points.sort(key=lambda point: (point[0], _counted(point[1])))
    last = points[-window:]
    return Trend(points=tuple(last), slope=_slope([share for _, _, share in last]))


def _counted(name: str) -> list[tuple[int, str]]:
    """A name as it is ordered: run-2 before run-10."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"(\d+)", name)]


def _share(report: RunReport) -> float:
    return report.passed / report.total if report.total else 0.0


def _slope(values: list[float]) -> float:
    count = len(values)
    if count < 2:
        return 0.0
    middle, mean = (count - 1) / 2, sum(values) / count
    above = sum((x - middle) * (y - mean) for x, y in enumerate(values))
    return above / sum((x - middle) ** 2 for x in range(count))
