"""From settings to the exact command line of each server."""

import hashlib
import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from serving.cached import model_path
from serving.lora import Adapter, highest_rank
from serving.server import ServerCommand
from serving.settings import Flag, LaunchSettings, ServerSettings
from src.errors import InputError
from src.prompts import ROOT, located

MODULE = "vllm.entrypoints.openai.api_server"
VISIBLE = "CUDA_VISIBLE_DEVICES"
KEY = "VLLM_API_KEY"
LOCK = "serving.lock.Lock"
"""What asks for the key under all paths; vLLM imports it, so the checkout is on its path."""
UNSET = ("VLLM_PORT", KEY)
"""Variables of the launcher that no server may inherit: two servers would want one port."""
OWN_FLAGS = frozenset(
    {
        *("host", "port", "api_key", "model", "served_model_name", "revision"),
        *("tokenizer_revision", "dtype", "chat_template", "max_model_len", "max_num_seqs"),
        *(
            "max_num_batched_tokens",
            "gpu_memory_utilization",
            "tensor_parallel_size",
            "data_parallel_size",
        ),
        *("enable_lora", "lora_modules", "max_lora_rank", "max_loras", "max_cpu_loras"),
        "shutdown_timeout",
        "middleware",
    }
)
"""Flags that follow from other keys, or are chosen at the start."""
LAST_STEPS = 5.0
"""Seconds of the grace that a server needs to end once no request is under way."""


def commands(
    settings: LaunchSettings,
    shares: Mapping[str, float],
    *,
    adapters: Sequence[Adapter],
) -> tuple[ServerCommand, ...]:
    """Return one command a server; `shares` holds each GPU server's share of its card's memory."""
    return tuple(
        _command(
            name,
            server,
            settings,
            share=shares.get(name),
            adapters=adapters if server.lora else (),
        )
        for name, server in settings.servers.items()
    )


def shell_line(command: ServerCommand) -> str:
    """Return a line for the shell; host, port and key are left to whoever copies it.

    The key is given by the shell, not by env, whose arguments everybody on the machine may read.
    """
    words = [f'{KEY}="$KEY"', "env"]
    for name in UNSET:
        words += ["-u", name] if name != KEY else []
    words.append(f'PYTHONPATH={shlex.quote(str(ROOT))}"${{PYTHONPATH:+:$PYTHONPATH}}"')
    words += [f"{key}={shlex.quote(value)}" for key, value in command.environment.items()]
    words += [shlex.quote(word) for word in command.argv]
    return " ".join([*words, "--host", '"$HOST"', "--port", '"$PORT"'])


def _command(
    name: str,
    server: ServerSettings,
    settings: LaunchSettings,
    *,
    share: float | None,
    adapters: Sequence[Adapter],
) -> ServerCommand:
    words = [_python(settings.python), "-m", MODULE, *_model_flags(server)]
    if server.device == "gpu":
        if share is None:
            raise InputError(f"servers.{name}.memory: neither given nor computed")
        words += ["--gpu-memory-utilization", f"{share:g}"]
    words += _lora_flags(server, adapters)
    words += ["--middleware", LOCK, "--shutdown-timeout", str(_drain(settings.lifecycle.grace))]
    for key, value in server.flags.items():
        words += _flag(f"servers.{name}.flags", key, value)
    environment = {**settings.environment, **server.environment}
    if server.cards is not None:
        environment[VISIBLE] = ",".join(map(str, server.cards))
    content = [words, environment, [adapter.content for adapter in adapters]]
    return ServerCommand(
        endpoint=name,
        served=(server.served, *(adapter.name for adapter in adapters)),
        argv=tuple(words),
        environment=environment,
        identity=hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16],
    )


def _drain(grace: float) -> int:
    """Return the whole seconds for which a server told to end waits for requests under way.

    Never 0, vLLM's own default: it drops them without an answer, and clients hang.
    """
    return max(1, int(grace - LAST_STEPS))


def _python(path: str) -> str:
    """Return the interpreter's path, its links kept: a link is what makes it an environment's."""
    given = Path(path).expanduser()
    return str(given if given.is_absolute() else ROOT / given)


def _model_flags(server: ServerSettings) -> list[str]:
    words = ["--model", model_path(server.model), "--served-model-name", server.served]
    if server.revision is not None:
        words += ["--revision", server.revision, "--tokenizer-revision", server.revision]
    words += ["--dtype", server.dtype, "--max-model-len", str(server.context)]
    words += ["--max-num-seqs", str(server.sequences)]
    words += ["--max-num-batched-tokens", str(server.batch_tokens)]
    words += ["--tensor-parallel-size", str(server.tensor_parallel)]
    words += ["--data-parallel-size", str(server.replicas)]
    if server.chat_template is not None:
        words += ["--chat-template", str(located(server.chat_template))]
    return words


def _lora_flags(server: ServerSettings, adapters: Sequence[Adapter]) -> list[str]:
    if server.lora is None:
        return []
    modules = [
        {"name": adapter.name, "path": str(adapter.folder), "base_model_name": server.served}
        for adapter in adapters
    ]
    held = max(server.lora.max_cpu_loras, server.lora.max_loras)
    words = ["--enable-lora", "--max-lora-rank", str(highest_rank(adapters))]
    words += ["--max-loras", str(server.lora.max_loras), "--max-cpu-loras", str(held)]
    return [*words, "--lora-modules", *(_json(module) for module in modules)]


def _flag(place: str, key: str, value: Flag) -> list[str]:
    if key in OWN_FLAGS or "-" in key:
        raise InputError(f"{place}.{key}: not here; another key sets it, or it is written with _")
    flag = "--" + key.replace("_", "-")
    if value is True:
        return [flag]
    if value is False:
        return ["--no-" + key.replace("_", "-")]
    return [flag, _json(value) if isinstance(value, dict) else str(value)]


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
