"""The time that `completion/inline` adds to the provider's.

Run it from the repository: `python tests/benchmarks/bench_completion.py`. Bound, on an idle
machine: at most 5 ms more than a bare httpx request for the same answer, at the median of 200. Both
ask one provider in turn, over kept connections; the document has 500 lines, and its frame is on the
clock.
"""

import time
from statistics import median, quantiles

import httpx
from report import Row, machine, print_rows, print_table
from rig import rig

TIMES = 200
LINES = [f"    value_{number} = compute(value_{number - 1}, {number})" for number in range(1, 501)]
BOUND = 0.005


def document(number: int) -> str:
    """A document that was never asked about, so that nothing comes from the cache."""
    return "\n".join([*LINES, f"    total_{number} = "])


def asked_bare(http: httpx.Client, url: str, number: int) -> float:
    """Seconds that the provider's whole answer takes."""
    content = document(number)[-12_000:]
    messages = [{"role": "user", "content": content}]
    began = time.perf_counter()
    payload = {"model": "any", "stream": True, "messages": messages}
    assert "three" in http.post(f"{url}/chat/completions", json=payload).text
    return time.perf_counter() - began


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
            took = asked_bare(http, provider.url, number)
            text = document(number)
            place = {"line": len(LINES) + 1, "character": len(text.rpartition("\n")[2]) + 1}
            began = time.perf_counter()
            params = {"docText": text, "docVersion": number, "position": place}
            client.request("completion/inline", params)
            spent = time.perf_counter() - began
            both = provider.next_record(), provider.next_record()
            assert not any(each["closed_by_client"] for each in both)
            if number >= 0:
                bare.append(took)
                ours.append(spent)
    print_table(
        "From asking to the whole answer, ms",
        ("who", "median", "95 %", "worst"),
        [
            (name, *(f"{1e3 * each:.2f}" for each in (median(t), quantiles(t, n=20)[-1], max(t))))
            for name, t in (("httpx", bare), ("completion/inline", ours))
        ],
    )
    added = median(ours) - median(bare)
    return [
        Row(
            "what completion/inline adds to the provider's time",
            "<= 5 ms",
            f"{added * 1e3:.2f} ms",
            added <= BOUND,
        )
    ]


if __name__ == "__main__":
    print_rows(main())
