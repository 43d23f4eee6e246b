"""One cluster for all tests, and folders for each."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from slurm_cluster import Cluster, install
from slurm_site import Site


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Return a running cluster; without Debian's Slurm there is nothing to test."""
    if reason := install():
        pytest.skip(reason)
    with Cluster(tmp_path_factory.mktemp("slurm")) as running:
        yield running


@pytest.fixture
def site(cluster: Cluster, tmp_path: Path) -> Iterator[Site]:
    """Return folders of a test's own; its jobs end with it."""
    yield Site(cluster, tmp_path)
    cluster.cancel_all()
