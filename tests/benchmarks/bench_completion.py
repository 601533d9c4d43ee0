"""The time that `completion/inline` adds to the provider's.

Bound, on an idle machine: at most 5 ms more than a bare httpx request for the same answer, at the
median of 200. Both ask one provider in turn, over kept connections; the document has 500 lines, and
its frame is on the clock.
"""

from functools import partial
from statistics import median, quantiles

import httpx
from report import Row, at_most, clock_of, machine, milliseconds, print_table
from rig import rig

TIMES = 200
LINES = [f"    value_{number} = compute(value_{number - 1}, {number})" for number in range(1, 501)]


def document(number: int) -> str:
    """A document that was never asked about, so that nothing comes from the cache."""
    return "\n".join([*LINES, f"    total_{number} = "])


def ask_bare(http: httpx.Client, url: str, number: int) -> None:
    """Read the provider's whole answer."""
    messages = [{"role": "user", "content": document(number)[-12_000:]}]
    payload = {"model": "any", "stream": True, "messages": messages}
    assert "three" in http.post(f"{url}/chat/completions", json=payload).text


def main() -> list[Row]:
    print(machine("trio", "httpx"))
    bare: list[float] = []
    ours: list[float] = []
    with (
        rig() as here,
        here.provider() as provider,
        here.server(provider=provider.url) as client,
        httpx.Client() as http,
    ):
        for number in range(-20, TIMES):
            took = clock_of(partial(ask_bare, http, provider.url, number))()
            text = document(number)
            place = {"line": len(LINES) + 1, "character": len(text.rpartition("\n")[2]) + 1}
            params = {"docText": text, "docVersion": number, "position": place}
            spent = clock_of(partial(client.request, "completion/inline", params))()
            both = provider.next_record(), provider.next_record()
            assert not any(each["closed_by_client"] for each in both)
            if number >= 0:
                bare.append(took)
                ours.append(spent)
    print_table(
        "From asking to the whole answer, ms",
        ("who", "median", "95 %", "worst"),
        [
            (name, *milliseconds(median(t), quantiles(t, n=20)[-1], max(t)))
            for name, t in (("httpx", bare), ("completion/inline", ours))
        ],
    )
    added = (median(ours) - median(bare)) * 1e3
    return [at_most("what completion/inline adds to the provider's time", added, 5, " ms")]
