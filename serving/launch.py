"""Serve models with vLLM: the command line is made from conf/serving and conf/launch.yaml.

python -m serving.launch serving=gemma             serve until stopped
python -m serving.launch serving=gemma print=true  show the command line, start nothing
"""

import sys
from collections.abc import Sequence

from serving.command_line import commands, shell_line
from serving.settings import LaunchSettings
from src import command, config


def launch(arguments: Sequence[str]) -> None:
    """Print the servers' command lines, or run the servers until they end."""
    settings = config.read_settings("launch", LaunchSettings, arguments)
    shares = {name: server.memory for name, server in settings.servers.items() if server.memory}
    if settings.print:
        for made in commands(settings, shares):
            sys.stdout.write(shell_line(made) + "\n")


if __name__ == "__main__":
    command.main(__doc__, "launch", launch)
