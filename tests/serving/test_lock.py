"""The real server answers nobody without its key, under whatever path."""

import pytest
from real_server import RealServer

GREETING = {"messages": [{"role": "user", "content": "Hello!"}], "max_tokens": 1}


@pytest.mark.parametrize(
    "path", ["/invocations", "/tokenize", "/detokenize", "/v1/chat/completions"]
)
def test_without_the_key_nothing_is_generated_or_read(server: RealServer, path: str) -> None:
    body = {**GREETING, "model": server.endpoint.served[0], "prompt": "Hello!", "tokens": [1]}
    assert server.ask(path, body, key="another")[0] == 401


def test_with_the_key_every_path_is_open(server: RealServer) -> None:
    body = {**GREETING, "model": server.endpoint.served[0]}
    assert server.ask("/invocations", body)[0] == 200
