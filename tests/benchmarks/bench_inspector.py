"""The time until the inspector shows a hundred thousand messages in Chromium, and finds one.

The page is one file; its time goes from the navigation to the first rows in it, all filters ready.
Bound: 2 s.
"""

import shutil
import tempfile
from pathlib import Path

from report import Row, at_most, cpu_of, machine, print_table

from eca_server.workbench.inspector.command import write_page
from tests.eca_server.ecp.browser import opened
from tests.eca_server.workbench.inspector.records import long_record

COUNT = 100_000
ROUNDS = 3
OPENED = "performance.getEntriesByType('navigation')[0].loadEventEnd"
FILTERED = """
(() => {
  const begun = performance.now();
  document.querySelector('input[type=search]').value = 'no message has this';
  document.querySelector('#side').dispatchEvent(new Event('change'));
  return performance.now() - begun;
})()
"""


def main() -> list[Row]:
    if shutil.which("chromium") is None:
        print("  left out: it needs the program chromium")
        return []
    print(machine("trio", "orjson"))
    with tempfile.TemporaryDirectory() as name:
        record, page = Path(name) / "long.jsonl", Path(name) / "long.html"
        long_record(record, COUNT)
        written = cpu_of(lambda: write_page(record, page))()
        taken, filtered = [], []
        for round_ in range(ROUNDS):
            profile = Path(name) / str(round_)
            profile.mkdir()
            with opened(profile) as browser:
                browser.open(page.as_uri())
                browser.until("document.querySelectorAll('.row').length > 9", True)
                taken.append(browser.value(OPENED) / 1000)
                filtered.append(browser.value(FILTERED) / 1000)
                assert browser.faults() == []
        size = page.stat().st_size / 2**20
    print_table(
        f"{COUNT:,} messages, a page of {size:.0f} MiB",
        ("", "s"),
        [
            ("written (CPU)", f"{written:.2f}"),
            ("opened", f"{min(taken):.2f}"),
            ("searched", f"{min(filtered):.3f}"),
        ],
    )
    return [at_most(f"the inspector opens {COUNT:,} messages", min(taken), 2, " s")]
