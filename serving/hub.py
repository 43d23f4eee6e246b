"""The hub's client: what a repository holds, and its files, one after the other.

Every way that it fails is one line. Loaded in .venv-serving alone, which holds the client.
"""

# huggingface_hub and what it speaks through are in .venv-serving alone:
# mypy: disable-error-code="import-not-found"

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import httpx2
from huggingface_hub import HfApi, get_token, hf_hub_download, try_to_load_from_cache
from huggingface_hub.constants import ENDPOINT
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from serving.models import Source
from src.errors import DiskError, ServerError

TAKEN = {".safetensors", ".json", ".jinja", ".model", ".txt", ".md"}
"""Endings of weights, configurations, tokenizers and licences; nothing that runs when loaded."""
ALSO_TAKEN = {"LICENSE", "NOTICE"}
PATIENCE = 30.0
"""Seconds until the hub says something."""
RATE_LIMITED, UNAUTHORISED, FORBIDDEN, BROKEN = 429, 401, 403, 500


class Unavailable(ServerError):
    """One repository cannot be had; others may."""


class Unpublished(Unavailable):
    """The hub knows no such repository."""


@dataclass(frozen=True)
class Remote:
    """A file of the hub."""

    size: int
    sha256: str | None
    """None for a small file, which the hub hashes otherwise."""


@dataclass(frozen=True)
class Snapshot:
    """What is to be fetched of a repository at one commit."""

    source: Source
    revision: str
    licence: str | None
    gated: bool
    files: dict[str, Remote]


class Hub:
    """Asks the hub, by the addresses and the token that its client finds."""

    def __init__(self, licences: Mapping[str, str]) -> None:
        """Take the names of licences by the hub's own for them."""
        self._api, self._licences = HfApi(), licences

    def describe(self, source: Source) -> Snapshot:
        """Return what a repository holds, once it is certain that it may be fetched."""
        with self._told(source):
            found = self._api.model_info(
                source.repository,
                revision=source.revision,
                files_metadata=True,
                timeout=PATIENCE,
            )
            if found.gated:
                self._api.auth_check(source.repository)
        files = {
            one.rfilename: Remote(one.size or 0, one.lfs.sha256 if one.lfs else None)
            for one in found.siblings or ()
            if _taken(one.rfilename)
        }
        card = found.card_data
        named = card and (card.get("license_name") or card.get("license"))
        licence = self._licences.get(str(named), str(named)) if named else None
        return Snapshot(source, found.sha, licence, gated=bool(found.gated), files=files)

    def missing(self, snapshot: Snapshot, into: Path | None) -> int:
        """Return the bytes that are not yet on disk: in a folder, or in the hub's cache."""
        return sum(
            remote.size
            for name, remote in snapshot.files.items()
            if not _here(snapshot, name, into)
        )

    def download(self, snapshot: Snapshot, name: str, into: Path | None) -> Path:
        """Fetch a file unless it is there; what was cut off before starts anew."""
        with self._told(snapshot.source):
            path = hf_hub_download(
                snapshot.source.repository,
                name,
                revision=snapshot.revision,
                local_dir=into,
                etag_timeout=PATIENCE,
            )
        return Path(path)

    @contextmanager
    def _told(self, source: Source) -> Iterator[None]:
        """Turn whatever the client raises into one line with the way on."""
        what = f"{source.name}: {source.repository}"
        page = f"{ENDPOINT}/{source.repository}"
        try:
            yield
        except GatedRepoError as error:
            token = "" if get_token() else "set HF_TOKEN to a token of that account, "
            raise Unavailable(
                f"{what} is gated: accept its licence on {page}, {token}and repeat once you are "
                "let in"
            ) from error
        except RepositoryNotFoundError as error:
            hidden = "" if get_token() else ", or shows it only to a token (HF_TOKEN is not set)"
            raise Unpublished(
                f"{source.name} is not published yet: the hub knows no {source.repository}{hidden}"
            ) from error
        except RevisionNotFoundError as error:
            raise Unavailable(f"{what} has no revision {source.revision}; see {page}") from error
        except HfHubHTTPError as error:
            raise _refused(what, error.response.status_code) from error
        except (httpx2.HTTPError, LocalEntryNotFoundError, ConnectionError) as error:
            reason = _first_line(error.__cause__ or error)
            raise ServerError(
                f"the hub cannot be reached at {ENDPOINT} ({reason}); fetch on a machine with the "
                "net: the same command goes on from here"
            ) from error
        except OSError as error:
            if error.errno is None:  # the client's own: a file that came short
                raise ServerError(f"{what}: {_first_line(error)}; repeat the command") from error
            raise DiskError(
                f"{what}: cannot be written ({error.strerror}); free space and repeat the "
                "command, it goes on from here"
            ) from error
        except (ValueError, RuntimeError) as error:  # no JSON: a portal's page, a proxy's; or xet
            raise ServerError(
                f"{what}: {ENDPOINT} does not answer as the hub does ({_first_line(error)})"
            ) from error


def _refused(what: str, status: int) -> ServerError:
    if status == RATE_LIMITED:
        return ServerError("the hub asks to wait (429); repeat later, with HF_TOKEN set")
    if status == UNAUTHORISED:
        return ServerError("the hub refuses the token (401); set HF_TOKEN to one that is valid")
    if status == FORBIDDEN:
        return Unavailable(f"{what} refuses this token (403); it must be allowed to read it")
    if status >= BROKEN:
        return ServerError(f"the hub is out of order ({status}); repeat the command later")
    return Unavailable(f"{what}: the hub answers {status}")


def _taken(name: str) -> bool:
    path = PurePosixPath(name)
    return len(path.parts) == 1 and (path.suffix in TAKEN or path.name in ALSO_TAKEN)


def _here(snapshot: Snapshot, name: str, into: Path | None) -> bool:
    if into is None:
        revision = snapshot.revision
        found = try_to_load_from_cache(snapshot.source.repository, name, revision=revision)
        return isinstance(found, str) and Path(found).exists()
    path = into / name
    return path.is_file() and path.stat().st_size == snapshot.files[name].size


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__
