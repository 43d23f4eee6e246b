"""A port's holder is known, so that a key is shown to nobody else."""

import os
import socket
import subprocess
import sys

from serving.listening import another_listens

WAITS = "import sys; sys.stdin.read()"


def test_who_listens_is_told_from_everybody_else() -> None:
    waiting = [sys.executable, "-S", "-c", WAITS]
    with (
        socket.create_server(("127.0.0.1", 0)) as held,
        subprocess.Popen(waiting, stdin=subprocess.PIPE) as child,
    ):
        port = held.getsockname()[1]
        assert another_listens(port, below=child.pid)
        assert not another_listens(port, below=os.getpid())
        assert not another_listens(port, below=os.getppid())


def test_of_a_port_that_nobody_holds_nothing_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
        assert not another_listens(port, below=os.getpid())
    assert not another_listens(port, below=1)
