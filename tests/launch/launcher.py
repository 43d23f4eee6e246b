"""Run `serve` in a process of its own, as the launcher does: `python -m tests.launch.launcher`."""

import asyncio
import json
import sys
from pathlib import Path

from serving.server import ServerCommand
from serving.settings import LifecycleSettings
from serving.supervise import serve
from src.errors import TacitError


def main(told: str) -> int:
    given = json.loads(told)
    commands = [ServerCommand(**command) for command in given["commands"]]
    lifecycle = LifecycleSettings.model_validate(given["lifecycle"])
    try:
        asyncio.run(serve(commands, folder=Path(given["folder"]), lifecycle=lifecycle))
    except TacitError as error:
        sys.stderr.write(f"tacit: {error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
