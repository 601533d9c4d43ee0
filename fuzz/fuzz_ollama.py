"""Any lines of Ollama are one answer with one end, for any size of chunks."""

from __future__ import annotations

from answers import check_answer
from runner import instrumented, main

with instrumented():
    from eca_server.models.ollama.decoder import OllamaDecoder


def check(data: bytes) -> None:
    check_answer(data, lambda new_key: OllamaDecoder(new_key=new_key), framing="lines")


if __name__ == "__main__":
    main("ollama", check)
