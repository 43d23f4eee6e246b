"""A program in the place of a vLLM server: it serves, or fails in one of the ways that servers do.

    python stand_in.py '{"served": ["model"]}' --host 127.0.0.1 --port 8000

The key comes in VLLM_API_KEY, as it does for vLLM. `GET /die` ends it with 7, `GET /environment`
shows what it was started with.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Plan:
    served: tuple[str, ...] = ("model",)
    says_nothing: tuple[str, ...] = ()
    """Models that generate no text."""
    writes: int = 0
    """Lines that it writes to its log at the start."""
    dies_at_start: bool = False
    clash: str = ""
    """A file to leave behind at a first start that ends because the port is taken."""
    slow: str = ""
    """A file for its port at a first start, which then never comes to listen there."""
    never_ready: bool = False
    ignores_term: bool = False
    child: str = ""
    """`group`: has a child beside it; `session`: one that left its process group."""
    counts: bool = True
    hangs_after: int | None = None
    """Generations that are answered; the next ones never are."""


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], plan: Plan) -> None:
        self.plan, self.finished, self.lock = plan, 0, threading.Lock()
        super().__init__(address, Handler)


class Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        plan = self.server.plan
        match self.path:
            case "/health":
                self._send(503 if plan.never_ready else 200)
            case "/metrics" if plan.counts:
                self._send(200, self._metrics())
            case "/v1/models" if self._admitted():
                self._send(200, json.dumps({"data": [{"id": name} for name in plan.served]}))
            case "/environment":
                self._send(200, json.dumps(dict(os.environ)))
            case "/die":
                os._exit(7)
            case _:
                self._send(401)

    def do_POST(self) -> None:
        asked: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        plan = self.server.plan
        if not self._admitted():
            self._send(401)
            return
        if self.server.finished == plan.hangs_after:
            sys.stdout.write("a request hangs\n")
            sys.stdout.flush()
            threading.Event().wait()
        with self.server.lock:
            self.server.finished += 1
        text = "" if asked["model"] in plan.says_nothing else "Hi"
        self._send(200, json.dumps({"choices": [{"message": {"content": text}}]}))

    def _metrics(self) -> str:
        half = self.server.finished / 2
        return (
            "# HELP vllm:request_success_total Count of successfully processed requests.\n"
            f'vllm:request_success_total{{finished_reason="stop"}} {half}\n'
            f'vllm:request_success_total{{finished_reason="length"}} {half}\n'
            'vllm:num_requests_running{engine="0"} 0.0\n'
        )

    def _admitted(self) -> bool:
        return self.headers["Authorization"] == f"Bearer {os.environ['VLLM_API_KEY']}"

    def _send(self, status: int, text: str = "") -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def main(plan: Plan, host: str, port: int) -> int:
    for number in range(1, plan.writes + 1):
        sys.stdout.write(f"line {number}\n")
    sys.stdout.flush()
    if plan.dies_at_start:
        return 4
    if plan.clash and not Path(plan.clash).exists():
        Path(plan.clash).touch()
        sys.stderr.write("OSError: [Errno 98] Address already in use\n")
        return 1
    if plan.slow and not Path(plan.slow).exists():
        Path(plan.slow).write_text(str(port))
        threading.Event().wait()
    if plan.ignores_term:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if plan.child:
        waiting = [sys.executable, "-S", "-c", "import time; time.sleep(600)"]
        subprocess.Popen(waiting, start_new_session=plan.child == "session")
    Server((host, port), plan).serve_forever()
    return 0


if __name__ == "__main__":
    told, host, port = sys.argv[1], sys.argv[-3], sys.argv[-1]
    sys.exit(main(Plan(**json.loads(told)), host, int(port)))
