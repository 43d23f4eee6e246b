"""Before anything is spent: who will see text, which keys and servers are there, which model."""

import asyncio
import ipaddress
import os
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import urlsplit

from src.errors import InputError, ModelFailed, ServerError
from src.llm.client import Model
from src.settings import ModelSettings

WAYS_ON = (
    "start the servers (conf/models says where they are looked for), choose another scorer "
    "(scorer=lexical needs none), or run experiment=offline"
)


def hosts_of(models: Iterable[ModelSettings]) -> tuple[str, ...]:
    """Return the hosts that will see text, in order."""
    return tuple(dict.fromkeys(urlsplit(model.base_url).netloc for model in models))


def refuse_remote(models: Iterable[ModelSettings], local_hosts: Sequence[str]) -> None:
    """Raise an `InputError` where text would go to a host that is not ours."""
    for model in models:
        host = urlsplit(model.base_url).hostname or ""
        if not (_loopback(host) or host in local_hosts):
            raise InputError(
                f"privacy=local: {model.name} is on {host}, which would see the conversation; "
                f"set privacy=remote, name it in local_hosts=[{host}], or choose a local model"
            )


def key_of(model: ModelSettings) -> str | None:
    """Return the model's key from the environment; a missing one is a `ServerError`."""
    if model.key_env is None:
        return None
    key = os.environ.get(model.key_env)
    if not key:
        raise ServerError(f"no {model.key_env} is set, which {model.name} needs; {WAYS_ON}")
    return key


async def listed_models(models: Mapping[str, Model]) -> dict[str, tuple[str, ...]]:
    """Return what each server lists, by our name of the model; all are asked at once."""
    answers = await asyncio.gather(*map(_listed, models.values()))
    return dict(zip(models, answers, strict=True))


async def _listed(model: Model) -> tuple[str, ...]:
    try:
        return await model.listed()
    except ModelFailed as error:
        raise ServerError(f"{model.settings.name}: {error}; {WAYS_ON}") from error


def chosen(
    role: str,
    names: Sequence[str],
    models: Mapping[str, ModelSettings],
    listed: Mapping[str, Sequence[str]],
) -> str:
    """Return the first of a role's models that its server lists."""
    for name in names:
        if models[name].name in listed[name]:
            return name
    wanted = ", ".join(models[name].name for name in names)
    raise ServerError(f"{role}: no server lists {wanted}; {WAYS_ON}")


def adapters(listed: Sequence[str], subjects: Sequence[str]) -> dict[str, str]:
    """Return each subject's served adapter, matched by prefix; none or two end with exit 3."""
    found: dict[str, str] = {}
    for subject in subjects:
        matches = [name for name in listed if name.startswith(f"{subject}-")]
        if len(matches) > 1:
            raise ServerError(f"{subject}: two adapters are served, {' and '.join(matches)}")
        if not matches:
            there = ", ".join(name for name in listed if name.startswith("persona-")) or "none"
            raise ServerError(f"{subject}: no adapter of it is served; served are: {there}")
        found[subject] = matches[0]
    return found


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
