"""The servers of a run: who will see text, which keys and servers are there, which model plays.

All of it is settled before anything is written or spent.
"""

import asyncio
import ipaddress
import os
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from src.errors import InputError, ModelFailed, ServerError
from src.llm.client import Listed, Model, Moved
from src.llm.endpoints import Endpoint, endpoint_path, read_endpoint
from src.settings import ModelSettings

WAYS_ON = (
    "start the servers (conf/models says where they are looked for), choose another scorer "
    "(scorer=lexical needs none), or run experiment=offline"
)
PERSONA_ROLE = "patient"
"""The role in which a model is an adapter of its own for each subject."""
ANALYST = "analyst"
"""The role of every diagnoser."""
Asked = Mapping[str, Sequence[str]]
"""By role: the models that may play it, by their names in `models`, in order."""


@dataclass(frozen=True, kw_only=True)
class Service:
    """What a role may ask."""

    key: str
    """Name in `models`."""
    model: Model
    listed: Mapping[str, Listed]
    """Everything that its server lists."""
    endpoint: Endpoint | None
    """The endpoint file that said where it is; None where the configuration did."""
    rendered: dict[str, str] = field(default_factory=dict)
    """By served name: a hash of the tokens of one fixed prompt, once its server was asked."""


@dataclass(frozen=True, kw_only=True)
class Servers:
    """The service of each role that a model plays."""

    services: Mapping[str, Service]
    adapters: bool = True
    """Whether the patient is an adapter of its own for each subject."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """Return the hosts that will see text."""
        return hosts_of(service.model.settings for service in self.services.values())

    @property
    def rendered(self) -> Mapping[str, str]:
        """Return what is known of the personas' prompts, by served name."""
        service = self.services.get(PERSONA_ROLE)
        return service.rendered if service else {}

    def served(self, subject: str) -> dict[str, str]:
        """Return the name that each role's server lists: a persona's adapter, or the model."""
        return {
            role: (adapter_of(subject, service.listed) or "")
            if role == PERSONA_ROLE and self.adapters
            else service.model.settings.name
            for role, service in self.services.items()
        }

    @property
    def introduction(self) -> list[str]:
        """Return who will see text, and which models play."""
        if not self.services:
            return []
        models = (f"{role} {s.model.settings.name}" for role, s in self.services.items())
        return [
            f"Text of the conversations goes to {', '.join(self.hosts)}.",
            f"Models: {', '.join(models)}",
            *self.notes,
        ]

    @property
    def notes(self) -> list[str]:
        """Return what a user should know of the chosen models."""
        return [
            f"{service.model.settings.name} is announced to end on {day}"
            for service in {service.key: service for service in self.services.values()}.values()
            if (one := service.listed.get(service.model.settings.name)) and (day := one.ends)
        ]

    @property
    def chosen(self) -> dict[str, str]:
        """Return the chosen name in `models` by role."""
        return {role: service.key for role, service in self.services.items()}


@asynccontextmanager
async def open_servers(
    asked: Asked,
    models: Mapping[str, ModelSettings],
    *,
    remembered: Mapping[str, str],
    local_hosts: Sequence[str] | None,
    endpoints: Path,
    adapters: bool,
) -> AsyncIterator[Servers]:
    """Choose each role's model and keep its client open for the block.

    `remembered` holds what a run folder chose before: then nothing else will do. `local_hosts`
    names hosts that may see text beside this machine and those of the endpoint files in the folder
    `endpoints`; None: any host may.
    """
    wanted = {role: (remembered[role],) if role in remembered else asked[role] for role in asked}
    every = dict.fromkeys(name for names in wanted.values() for name in names)
    if local_hosts is not None:
        refuse_remote((models[name] for name in every), local_hosts)
    doors = {name: door_of(models[name], endpoints) for name in every}
    opened = {n: Model(d.settings, d.key, d.moved(endpoints)) for n, d in doors.items()}
    try:
        listed = await _listed(opened)
        services = {}
        for role, names in wanted.items():
            any_adapter = adapters and role == PERSONA_ROLE
            key = (
                names[0]
                if any_adapter
                else _first_listed(role, names, models, listed, fixed=role in remembered)
            )
            _narrow(opened[key], listed[key])
            services[role] = Service(
                key=key, model=opened[key], listed=listed[key], endpoint=doors[key].endpoint
            )
        yield Servers(services=services, adapters=adapters)
    finally:
        await asyncio.gather(*(model.close() for model in opened.values()))


def hosts_of(models: Iterable[ModelSettings]) -> tuple[str, ...]:
    """Return the hosts of some models, each once, in order."""
    urls = [urlsplit(model.base_url or "") for model in models]
    return tuple(
        dict.fromkeys(f"{u.hostname}:{u.port}" if u.port else f"{u.hostname}" for u in urls)
    )


@dataclass(frozen=True)
class Door:
    """Where a model answers, and what opens it."""

    settings: ModelSettings
    """With its address, wherever that came from."""
    endpoint: Endpoint | None

    @property
    def key(self) -> str | None:
        """Return the key; a missing one is a `ServerError`."""
        return self.endpoint.key if self.endpoint else key_of(self.settings)

    def moved(self, endpoints: Path) -> Moved | None:
        """Return what says where a server of ours answers once it was started again."""
        if self.endpoint is None:
            return None
        known = self.endpoint

        def now() -> tuple[str, str] | None:
            found = read_endpoint(endpoints, known.name) or known
            at = found if found.state == "ready" else known
            return None if found.state == "ended" else (at.base_url, at.key)

        return now


def door_of(model: ModelSettings, endpoints: Path) -> Door:
    """Return where a model answers; a server that is not ready is a `ServerError`."""
    if model.base_url is not None or model.endpoint is None:
        return Door(model, None)
    path = endpoint_path(endpoints, model.endpoint)
    endpoint = read_endpoint(endpoints, model.endpoint)
    if endpoint is None:
        raise ServerError(
            f"{model.name}: no server of ours runs (no {path.parent.name}/{path.name}): start it "
            f"with python -m serving.launch serving={model.endpoint} or slurm/, or give "
            "models.NAME.base_url, or run experiment=offline"
        )
    job = f" (job {endpoint.job})" if endpoint.job else ""
    if endpoint.state == "starting":
        wait = f"python -m serving.wait endpoints=[{endpoint.name}]"
        raise ServerError(f"{model.name}: its server{job} is still starting; {wait} waits for it")
    if endpoint.state == "ended":
        raise ServerError(
            f"{model.name}: its server{job} has ended, see {endpoint.log}: start it again"
        )
    return Door(model.model_copy(update={"base_url": endpoint.base_url}), endpoint)


def refuse_remote(models: Iterable[ModelSettings], local_hosts: Sequence[str]) -> None:
    """Raise an `InputError` where text would go to a host that is not ours.

    Where an endpoint file says is ours.
    """
    for model in models:
        host = urlsplit(model.base_url or "").hostname
        if host and not (_loopback(host) or host in {name.lower() for name in local_hosts}):
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


def adapter_of(subject: str, listed: Iterable[str]) -> str | None:
    """Return a subject's served adapter, matched by prefix; two are a `ServerError`."""
    matches = [name for name in listed if name.startswith(f"{subject}-")]
    if len(matches) > 1:
        raise ServerError(f"{subject}: two adapters are served, {' and '.join(matches)}")
    return matches[0] if matches else None


async def _listed(opened: Mapping[str, Model]) -> dict[str, dict[str, Listed]]:
    """Return what each model's server lists; every server is asked once, all at the same time."""
    one_each = {model.settings.base_url: model for model in opened.values()}

    async def ask(model: Model) -> dict[str, Listed]:
        try:
            return await model.listed()
        except (ModelFailed, ServerError) as error:
            raise ServerError(f"{model.settings.name}: {error}; {WAYS_ON}") from error

    answers = await asyncio.gather(*map(ask, one_each.values()))
    by_url = dict(zip(one_each, answers, strict=True))
    return {name: by_url[model.settings.base_url] for name, model in opened.items()}


def _narrow(model: Model, listed: Mapping[str, Listed]) -> None:
    """Keep to the window that a server says, where it is smaller than the configured one."""
    told, known = listed.get(model.settings.name), model.settings.context
    if told and told.window and told.window < known:
        model.settings = model.settings.model_copy(update={"context": told.window})


def _first_listed(
    role: str,
    names: Sequence[str],
    models: Mapping[str, ModelSettings],
    listed: Mapping[str, Mapping[str, Listed]],
    *,
    fixed: bool,
) -> str:
    for name in names:
        if models[name].name in listed[name]:
            return name
    wanted = ", ".join(models[name].name for name in names)
    if fixed:
        raise ServerError(
            f"{role}: this folder's interviews are with {wanted}, which its server lists no more; "
            "give run=NAME for a folder with another model"
        )
    raise ServerError(f"{role}: no server lists {wanted}; {WAYS_ON}")


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
