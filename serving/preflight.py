"""Check the servers before a run: each failure is one line with the way on, exit 3.

    python -m serving.preflight experiment=local persona=[7,8]
    python -m serving.preflight where=true

Takes a run's arguments. What held is not asked again until the server is started anew; a server
without an endpoint file, which tells nobody of its start, is asked everything each time.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence

from rich.console import Console

from serving.where import whereabouts
from src import build, command, config
from src.errors import InputError, ServerError, TacitError
from src.llm.proofs import Proofs, settle
from src.llm.servers import PERSONA_ROLE, Servers, open_servers
from src.readiness import longest_prompts, refuse_too_small, server_checks
from src.settings import RunSettings


class PreflightSettings(RunSettings):
    """A run's settings, and where to look."""

    where: bool
    python: str
    adapters: str


def preflight(arguments: Sequence[str]) -> None:
    """Print a line for each check; raise a `ServerError` where one failed."""
    settings = config.read_settings("preflight", PreflightSettings, arguments)
    console = command.console()
    if settings.where:
        for line in whereabouts(settings, python=settings.python, adapters=settings.adapters):
            console.print(line)
        return
    failed = asyncio.run(_check(settings, console))
    if failed:
        raise ServerError(f"{failed} of the checks failed, see above; nothing was started")
    console.print("The servers can hold this run's interviews.")


async def _check(settings: RunSettings, console: Console) -> int:
    """Print the outcome of every check; return how many failed."""
    failed, made = 0, set[tuple[str | None, str]]()
    if not settings.asked_models:
        console.print("This run asks no model.")
    for role in settings.asked_models:
        async for what, error in outcomes(settings, role, made):
            failed += error is not None
            console.print(f"{'FAILED' if error else 'ok':<7} {role}: {error or what}")
    return failed


async def outcomes(
    settings: RunSettings, role: str, made: set[tuple[str | None, str]]
) -> AsyncIterator[tuple[str, TacitError | None]]:
    """Yield what was checked of a role's server, with the error of what failed.

    Where a server is not there, nothing more is asked of it. `made`: checks by address, which are
    not made again for another role of the same model.
    """
    folder = config.folder(settings.endpoints)
    try:
        async with open_servers(
            {role: settings.asked_models[role]},
            settings.models,
            remembered={},
            local_hosts=settings.local_hosts if settings.privacy == "local" else None,
            endpoints=folder,
            adapters=not settings.of_cases,
        ) as servers:
            yield f"{servers.services[role].model.settings.name} is served", None
            names = _subjects(settings, servers) if role == PERSONA_ROLE else []
            if names:
                yield f"{', '.join(names)} are served", None
            casting = build.Casting(settings)
            refuse_too_small(servers, longest_prompts(settings, words_max=casting.words_max))
            yield "the longest interview fits into the window", None
            proofs, url = Proofs(folder), servers.services[role].model.settings.base_url
            for check in server_checks(settings, servers, names, every=True):
                if check.endpoint is None and (url, check.what) in made:
                    yield f"{check.what} (see above)", None
                    continue
                try:
                    outcome = await settle(check, proofs)
                except ServerError as error:
                    yield check.what, error
                    continue
                made.add((url, check.what))
                before = " (held before, at this start of the server)" if outcome.before else ""
                yield outcome.warning or check.what + before, None
    except (ServerError, InputError) as error:
        yield "", error


def _subjects(settings: RunSettings, servers: Servers) -> list[str]:
    """Return the run's personas; the server must list what it was started with, and them."""
    service = servers.services[PERSONA_ROLE]
    if service.endpoint and set(service.listed) != set(service.endpoint.served):
        raise ServerError(
            f"the server lists {', '.join(sorted(service.listed))}, but was started with "
            f"{', '.join(sorted(service.endpoint.served))}: start it again"
        )
    names, _ = build.subjects(settings, servers, config.folder(settings.outputs))
    return names


if __name__ == "__main__":
    command.main(__doc__, "preflight", preflight)
