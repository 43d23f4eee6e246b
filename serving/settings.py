"""Settings of serving: what conf/launch.yaml and conf/serving hold."""

from typing import Annotated

from pydantic import Field

from src.settings.form import Positive, Seconds, Settings


class LifecycleSettings(Settings):
    """How a server is started, watched and ended."""

    host: str | None
    """Address to listen at; null: 127.0.0.1 without Slurm, the node's name within a job."""
    start_timeout: Seconds
    """Longest time from the start to the first generated token."""
    idle_shutdown: Seconds | None
    """End a server that nothing asked of for so long; null: never."""
    grace: Seconds
    """Time that requests under way have to finish once the server is told to end."""
    log_lines: Positive
    """Last lines of a dead server's log that are shown."""
    logs: Annotated[str, Field(min_length=1)]
    """Folder of the servers' log files: a path, or a folder of the checkout."""
