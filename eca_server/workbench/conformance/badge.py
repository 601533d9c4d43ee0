"""A badge for a README: the share of judged requirements that are met."""

from __future__ import annotations

from typing import Final

from eca_protocol.testing.conformance.run import Run
from eca_server.workbench.conformance.table import KINDS

_COLOURS: Final = {"good": "#17744a", "odd": "#855600", "bad": "#b3261a"}
_CHARACTER: Final = 7  # maximum width of a character in pixels, in a font of 11
_BORDER: Final = 10


def render_badge(run: Run) -> str:
    """Render the badge: red if the run fails, green if a complete run passes, else yellow."""
    counts = run.counts()
    judged = sum(counts.get(verdict, 0) for verdict in ("pass", "fail", "warn"))
    label = run.edition if run.edition.startswith("ACP") else f"ECA {run.edition}"
    value = f"{counts.get('pass', 0)} of {judged}" if judged else "not judged"
    colour = _COLOURS[KINDS[run.conclusion]]
    first = len(label) * _CHARACTER + _BORDER
    second = len(value) * _CHARACTER + _BORDER
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{first + second}" height="20" role="img">'
        f"<title>{label}: {value} requirements met</title>"
        f'<rect width="{first}" height="20" fill="#444"/>'
        f'<rect x="{first}" width="{second}" height="20" fill="{colour}"/>'
        '<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" '
        f'text-anchor="middle"><text x="{first / 2:g}" y="14">{label}</text>'
        f'<text x="{first + second / 2:g}" y="14">{value}</text></g></svg>\n'
    )
