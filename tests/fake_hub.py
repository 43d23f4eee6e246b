"""A hub of models at a loopback address: pages, files, gates, and connections that break."""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SHA = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class Repository:
    """What the hub holds under one name."""

    files: dict[str, bytes]
    sha: str = SHA
    gated: bool = False
    licence: str | None = None
    token: str = "hf_consenting"
    """The one that opens the gate."""
    sizes: dict[str, int] = field(default_factory=dict)
    """Sizes that the page claims instead."""
    damaged: set[str] = field(default_factory=set)
    breaks: dict[str, int] = field(default_factory=dict)
    """How many more times a file's connection breaks half-way."""


@dataclass
class Hub:
    """A running hub."""

    repositories: dict[str, Repository]
    url: str = ""
    broken: bool = False
    """Whether it answers with its own error."""
    requests: list[tuple[str, str]] = field(default_factory=list)
    agents: set[str] = field(default_factory=set)

    def fetched(self) -> list[str]:
        """Return the files that were asked for, in order."""
        asked = (path for method, path in self.requests if method == "GET")
        return [path.rsplit("/", 1)[1] for path in asked if "/resolve/" in path]


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        super().__init__(("127.0.0.1", 0), _Handler)


@contextmanager
def serving(repositories: dict[str, Repository]) -> Iterator[Hub]:
    """Yield a hub that runs until the end of the block."""
    hub = Hub(repositories)
    server = _Server(hub)
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def log_message(self, *_: object) -> None:
        pass

    def _answer(self) -> None:
        hub, path = self.server.hub, self.path.partition("?")[0]
        hub.requests.append((self.command, path))
        hub.agents.add(self.headers.get("User-Agent", ""))
        parts = path.removeprefix("/api/models/").strip("/").split("/")
        name, rest = "/".join(parts[:2]), parts[2:]
        repository = hub.repositories.get(name)
        if hub.broken:
            self._send(503, b"")
        elif repository is None:
            self._refuse(404, "RepoNotFound")
        elif rest[:1] in (["revision"], ["resolve"]) and rest[1] != repository.sha:
            self._refuse(404, "RevisionNotFound")
        elif rest[:1] in (["auth-check"], ["resolve"]) and self._shut(repository):
            self._refuse(403, "GatedRepo")
        elif rest[:1] == ["resolve"]:
            self._file(repository, "/".join(rest[2:]))
        else:
            self._send(200, json.dumps(_page(name, repository)).encode())

    def _shut(self, repository: Repository) -> bool:
        given = self.headers.get("Authorization")
        return repository.gated and given != f"Bearer {repository.token}"

    def _refuse(self, status: int, code: str) -> None:
        self._send(status, b"{}", {"X-Error-Code": code})

    def _file(self, repository: Repository, name: str) -> None:
        content = repository.files[name]
        tag = hashlib.sha256(content).hexdigest()
        headers = {"X-Repo-Commit": repository.sha, "ETag": f'"{tag}"'}
        if name in repository.damaged:
            content = bytes(reversed(content))
        sent = len(content)
        if self.command == "GET" and repository.breaks.get(name, 0):
            repository.breaks[name] -= 1
            sent //= 2
            self.close_connection = True
        self._send(200, content, headers, sent=sent)

    def _send(
        self,
        status: int,
        content: bytes,
        headers: dict[str, str] | None = None,
        *,
        sent: int | None = None,
    ) -> None:
        self.send_response(status)
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content[:sent])


def _page(name: str, repository: Repository) -> dict[str, Any]:
    return {
        "id": name,
        "sha": repository.sha,
        "gated": "manual" if repository.gated else False,
        "cardData": {"license": repository.licence} if repository.licence else None,
        "siblings": [_sibling(repository, name) for name in repository.files],
    }


def _sibling(repository: Repository, name: str) -> dict[str, Any]:
    content = repository.files[name]
    page: dict[str, Any] = {"rfilename": name, "blobId": hashlib.sha1(content).hexdigest()}
    page["size"] = repository.sizes.get(name, len(content))
    if name.endswith(".safetensors"):
        tag = hashlib.sha256(content).hexdigest()
        page["lfs"] = {"sha256": tag, "size": len(content), "pointerSize": 1}
    return page
