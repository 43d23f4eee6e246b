"""Serve models with vLLM: the command line is made from conf/serving and conf/launch.yaml.

python -m serving.launch serving=gemma             serve until stopped
python -m serving.launch serving=gemma print=true  show the command line, start nothing
"""

import asyncio
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from serving import cards
from serving.cached import copy_of, held, model_path
from serving.cards import Card
from serving.command_line import VISIBLE, commands, shell_line
from serving.installed import refuse_another_vllm
from serving.lora import (
    Adapter,
    find_adapters,
    highest_rank,
    refuse_a_namesake,
    refuse_another_base,
)
from serving.memory import interviews, shares
from serving.server import ServerCommand
from serving.settings import LaunchSettings, ServerSettings
from serving.supervise import serve
from serving.tokenizers import differences
from src import command, config
from src.errors import InputError, ServerError
from src.prompts import ROOT

ORDER = "CUDA_DEVICE_ORDER"


def launch(arguments: Sequence[str]) -> None:
    """Print the servers' command lines, or run the servers until they end."""
    settings = config.read_settings("launch", LaunchSettings, arguments)
    adapters = _adapters(settings)
    if settings.print:
        given = shares(settings, _ranks(settings, adapters))
        for printed in commands(settings, given, adapters=adapters):
            sys.stdout.write(shell_line(printed) + "\n")
        return
    _refuse_no_python(settings)
    refuse_another_vllm(settings)
    found = _cards(settings)
    if found:
        settings = _for_card(settings, found)
    try:
        given = shares(settings, _ranks(settings, adapters))
    except InputError as error:  # the settings are as good as before; it is the card that is not
        raise ServerError(str(error)) from error
    _refuse_absent(settings, arguments)
    made = [_placed(one, found) for one in commands(settings, given, adapters=adapters)]
    for line in notes(settings, given, adapters):
        sys.stderr.write(f"{line}\n")
    folder = (ROOT / settings.endpoints).resolve()
    asyncio.run(serve(made, folder=folder, lifecycle=settings.lifecycle))


def notes(
    settings: LaunchSettings, given: Mapping[str, float], adapters: Sequence[Adapter]
) -> list[str]:
    """Return what a user should know of servers that will start, a line each."""
    lines = []
    for name, server in settings.servers.items():
        if server.lora and len(adapters) > server.lora.max_loras:
            lines.append(
                f"{name}: {len(adapters)} personas share max_loras={server.lora.max_loras}: "
                f"interview {server.lora.max_loras} at a time, or raise it"
            )
        if settings.card_memory is not None and name in given:
            rank = highest_rank(adapters) if server.lora else 0
            held = partial(interviews, server, rank, share=given[name], memory=settings.card_memory)
            most = [
                f"{held(roles=roles)} as {' and '.join(roles)}"
                for roles in _casts(tuple(server.interview))
            ]
            lines.append(
                f"{name}: the cache holds the longest interviews at once: {', '.join(most)}"
            )
    return lines


def _casts(roles: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return the first role alone, the first two, and so on."""
    return [roles[:size] for size in range(1, len(roles) + 1)]


def _adapters(settings: LaunchSettings) -> tuple[Adapter, ...]:
    bases = [server for server in settings.servers.values() if server.lora]
    if not bases:
        return ()
    adapters = find_adapters(settings.adapters, settings.personas)
    for server in bases:
        refuse_another_base(adapters, server.model, _width(server))
        lines = refuse_a_namesake(adapters, server.model)
        for line in [*lines, *differences(adapters, model_path(server.model), server.revision)]:
            sys.stderr.write(f"{line}\n")
    return adapters


def _width(server: ServerSettings) -> int | None:
    """Return the model's hidden size: from conf, else from its folder; None where it is neither."""
    if server.architecture is not None:
        return server.architecture.hidden
    shape = Path(model_path(server.model)) / "config.json"
    try:
        found = json.loads(shape.read_bytes()).get("hidden_size")
    except (OSError, ValueError):
        return None
    return found if isinstance(found, int) else None


def _ranks(settings: LaunchSettings, adapters: Sequence[Adapter]) -> dict[str, int]:
    """Return --max-lora-rank of each server with adapters."""
    return {name: highest_rank(adapters) for name, one in settings.servers.items() if one.lora}


def _refuse_no_python(settings: LaunchSettings) -> None:
    python = ROOT / settings.python
    if not python.exists():
        raise ServerError(
            f"{settings.python}: not there; make setup-serving-gpu installs vLLM for GPUs, "
            "make setup-serving for CPUs (serving/README.md), or give python=PATH"
        )


def _refuse_absent(settings: LaunchSettings, arguments: Sequence[str]) -> None:
    """Raise a `ServerError` for a model that is not here and that nobody may fetch at the start."""
    options = [argument[8:] for argument in arguments if argument.startswith("serving=")]
    for name, server in settings.servers.items():
        path = model_path(server.model)
        offline = {**settings.environment, **server.environment}.get("HF_HUB_OFFLINE") == "1"
        if Path(path).is_dir() or held(copy_of(path, server.revision)) == "yes":
            continue
        if Path(path).is_absolute():
            raise ServerError(
                f"servers.{name}.model: {server.model} is no folder; the small model is made by "
                f"{settings.python} -m serving.convert"
            )
        if offline:
            raise ServerError(
                f"servers.{name}.model: {server.model} at {server.revision} is not whole in the "
                f"hub's cache; on a node with a network: python -m serving.models fetch=true "
                f"model={options[-1] if options else name}"
            )


def _cards(settings: LaunchSettings) -> dict[str, tuple[Card, ...]]:
    """Return the cards of each GPU server; asked of nvidia-smi where there is one."""
    gpu = {name: one for name, one in settings.servers.items() if one.device == "gpu"}
    if not gpu:
        return {}
    seen = cards.visible(cards.read_cards(cards.ask()), os.environ.get(VISIBLE))
    return {name: cards.taken(seen, server.positions) for name, server in gpu.items()}


def _for_card(settings: LaunchSettings, found: Mapping[str, Sequence[Card]]) -> LaunchSettings:
    """Return the settings for the smallest of the cards, whose memory is the one that counts."""
    smallest = min(card.memory for several in found.values() for card in several)
    return settings.model_copy(update={"card": smallest})


def _placed(made: ServerCommand, found: Mapping[str, Sequence[Card]]) -> ServerCommand:
    """Return the command with its cards named by number, as every part of vLLM reads them."""
    if made.endpoint not in found:
        return made
    numbers = ",".join(str(card.index) for card in found[made.endpoint])
    places = {ORDER: "PCI_BUS_ID", VISIBLE: numbers}
    return replace(made, environment={**made.environment, **places})


if __name__ == "__main__":
    command.main(__doc__, "launch", launch)
