"""Any stream of Responses is one answer with one end, for any size of chunks."""

from __future__ import annotations

from answers import check_answer
from runner import instrumented, main

with instrumented():
    from eca_server.models.openai_responses.decoder import ResponsesDecoder


def check(data: bytes) -> None:
    check_answer(data, lambda new_key: ResponsesDecoder(new_key=new_key))


if __name__ == "__main__":
    main("openai_responses", check)
