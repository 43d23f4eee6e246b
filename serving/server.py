"""What a server is started with: the noun between conf/serving and a running process."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ServerCommand:
    """One vLLM server, ready to be started. Host, port and key are chosen at the start."""

    endpoint: str
    """Name of its endpoint file, by which conf/models refers to it."""
    served: tuple[str, ...]
    """Names that it must list: the model, then its adapters."""
    argv: tuple[str, ...]
    """The whole command line, but for --host and --port."""
    environment: Mapping[str, str]
    """Variables set beside those of the launcher."""
    identity: str
    """Hash of the command line and of the adapters' content: what a check was made for."""
