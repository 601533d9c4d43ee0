"""Any stream of Gemini is one answer with one end, for any size of chunks."""

from __future__ import annotations

from answers import check_answer
from runner import instrumented, main

with instrumented():
    from eca_server.models.google.decoder import GeminiDecoder


def check(data: bytes) -> None:
    check_answer(data, lambda new_key: GeminiDecoder(new_key=new_key))


if __name__ == "__main__":
    main("google", check)
