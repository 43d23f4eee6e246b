"""The servers of a run: who will see text, which keys and servers are there, which model plays.

All of it is settled before anything is written or spent.
"""

import asyncio
import ipaddress
import os
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from src.errors import InputError, ModelFailed, ServerError
from src.llm.client import Model
from src.llm.responses import read_response
from src.llm.structured import canary_holds, canary_messages, canary_schema
from src.settings import ModelSettings

WAYS_ON = (
    "start the servers (conf/models says where they are looked for), choose another scorer "
    "(scorer=lexical needs none), or run experiment=offline"
)
CANARY_TOKENS, CANARY_TIMEOUT = 64, 20.0
PERSONA_ROLE = "patient"
"""The role in which a model is an adapter of its own for each subject."""
Asked = Mapping[str, Sequence[str]]
"""By role: the models that may play it, by their names in `models`, in order."""


@dataclass(frozen=True, kw_only=True)
class Service:
    """What a role may ask."""

    key: str
    """Name in `models`."""
    model: Model
    listed: Mapping[str, str | None]
    """Everything that its server lists, with the day of an announced end."""


@dataclass(frozen=True, kw_only=True)
class Servers:
    """The service of each role that a model plays."""

    services: Mapping[str, Service]

    @property
    def hosts(self) -> tuple[str, ...]:
        """Return the hosts that will see text."""
        return hosts_of(service.model.settings for service in self.services.values())

    def served(self, subject: str) -> dict[str, str]:
        """Return the name that each role's server lists: a persona's adapter, or the model."""
        return {
            role: (adapter_of(subject, service.listed) or "")
            if role == PERSONA_ROLE
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
            if (day := service.listed.get(service.model.settings.name))
        ]

    async def prove_schemas(self, roles: Iterable[str]) -> None:
        """Raise a `ServerError` unless the local servers of these roles enforce a JSON schema.

        A canary asks for prose under a schema that leaves one answer. Where every answer is paid
        for, the first real one is the proof, since each is read strictly.
        """
        for role in roles:
            service = self.services.get(role)
            if service is None or service.model.settings.backend != "vllm":
                continue
            name = service.model.settings.name
            schema = {"name": "canary", "strict": True, "schema": canary_schema()}
            body = {
                "model": name,
                "messages": canary_messages(),
                "max_tokens": CANARY_TOKENS,
                "temperature": 0.0,
                "response_format": {"type": "json_schema", "json_schema": schema},
            }
            label = "preflight/0/0/canary"
            try:
                answer = await service.model.chat(
                    body, seconds=CANARY_TIMEOUT, tokens=CANARY_TOKENS, label=label
                )
                held = canary_holds(read_response(answer, whole=False).text)
            except (ModelFailed, ValueError) as error:
                raise ServerError(f"{name}: {error}; {WAYS_ON}") from error
            if not held:
                raise ServerError(f"{name}: its server does not enforce JSON schemas; {WAYS_ON}")

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
) -> AsyncIterator[Servers]:
    """Choose each role's model and keep its client open for the block.

    `remembered` holds what a run folder chose before: then nothing else will do. `local_hosts`
    names hosts that may see text beside this machine; None: any host may.
    """
    wanted = {role: (remembered[role],) if role in remembered else asked[role] for role in asked}
    candidates = {name: models[name] for names in wanted.values() for name in names}
    if local_hosts is not None:
        refuse_remote(candidates.values(), local_hosts)
    opened = {name: Model(settings, key_of(settings)) for name, settings in candidates.items()}
    try:
        listed = await _listed(opened)
        services = {}
        for role, names in wanted.items():
            key = _first_listed(role, names, models, listed, fixed=role in remembered)
            services[role] = Service(key=key, model=opened[key], listed=listed[key])
        yield Servers(services=services)
    finally:
        await asyncio.gather(*(model.close() for model in opened.values()))


def hosts_of(models: Iterable[ModelSettings]) -> tuple[str, ...]:
    """Return the hosts of some models, each once, in order."""
    urls = [urlsplit(model.base_url) for model in models]
    return tuple(
        dict.fromkeys(f"{u.hostname}:{u.port}" if u.port else f"{u.hostname}" for u in urls)
    )


def refuse_remote(models: Iterable[ModelSettings], local_hosts: Sequence[str]) -> None:
    """Raise an `InputError` where text would go to a host that is not ours."""
    for model in models:
        host = urlsplit(model.base_url).hostname or ""
        if not (_loopback(host) or host in {name.lower() for name in local_hosts}):
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


async def _listed(opened: Mapping[str, Model]) -> dict[str, dict[str, str | None]]:
    """Return what each model's server lists; every server is asked once, all at the same time."""
    one_each = {model.settings.base_url: model for model in opened.values()}

    async def ask(model: Model) -> dict[str, str | None]:
        try:
            return await model.listed()
        except (ModelFailed, ServerError) as error:
            raise ServerError(f"{model.settings.name}: {error}; {WAYS_ON}") from error

    answers = await asyncio.gather(*map(ask, one_each.values()))
    by_url = dict(zip(one_each, answers, strict=True))
    return {name: by_url[model.settings.base_url] for name, model in opened.items()}


def _first_listed(
    role: str,
    names: Sequence[str],
    models: Mapping[str, ModelSettings],
    listed: Mapping[str, Mapping[str, str | None]],
    *,
    fixed: bool,
) -> str:
    for name in names:
        if models[name].name in listed[name] or role == PERSONA_ROLE:
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
