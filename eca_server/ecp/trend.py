"""The trend of the pass rate over many reports, in the order of their runs' starts."""

from __future__ import annotations

import re
from collections.abc import Iterable
from statistics import linear_regression
from typing import Final

import attrs

from eca_server.ecp.results import RunReport
from eca_server.printable import printable_line

_FALLS: Final = -1e-9


@attrs.frozen(kw_only=True)
class Trend:
    """The pass rates of the last runs.

    Attributes:
        points: for each run its start, its file's name, and its share of passed checks.
        slope: the change of the share from one run to the next, by least squares.
    """

    points: tuple[tuple[str, str, float], ...]
    slope: float

    @property
    def regressed(self) -> bool:
        """True if the pass rate falls."""
        return self.slope < _FALLS

    def text(self, *, verbose: bool) -> str:
        """Return the trend as lines for a terminal."""
        lines = [
            f"{_printable(started) or 'unknown time'} {_printable(name)}: {share:.1%}"
            for started, name, share in (self.points if verbose else ())
        ]
        direction = "falls" if self.regressed else "rises" if self.slope > -_FALLS else "is level"
        shares = [share for _, _, share in self.points]
        lines.append(
            f"{len(shares)} run{'s' * (len(shares) > 1)}: the pass rate {direction}, "
            f"from {shares[0]:.1%} to {shares[-1]:.1%} ({100 * self.slope:+.2f} points a run)"
        )
        return "".join(f"{line}\n" for line in lines)


def _printable(text: str) -> str:
    return printable_line(text, longest=500)


def compute_trend(reports: Iterable[tuple[str, RunReport]], *, window: int) -> Trend:
    """Compute the trend of the last `window` reports, each with its file's name; at least one.

    Reports without a start come first, ordered by the numbers in their names.
    """
    points = [
        (str(report.audit.get("started_at", "")), name, _share(report)) for name, report in reports
    ]
    points.sort(key=lambda point: (point[0], _natural_key(point[1])))
    last = points[-window:]
    shares = [share for _, _, share in last]
    slope = linear_regression(range(len(shares)), shares).slope if len(shares) > 1 else 0.0
    return Trend(points=tuple(last), slope=slope)


def _natural_key(name: str) -> list[tuple[int, str]]:
    """Return a sort key that orders run-2 before run-10."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"(\d+)", name)]


def _share(report: RunReport) -> float:
    return report.passed / report.total if report.total else 0.0
