"""One cluster for all tests, folders for each, and servers for those that leave them alone."""

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
    site = Site(cluster, tmp_path)
    yield site
    site.close()


@pytest.fixture(scope="module")
def servers(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Return a site where both models are served, out of reach of whoever is urgent."""
    site = Site(cluster, tmp_path_factory.mktemp("served"))
    site.serve_both(options=["--partition=urgent"])
    yield site
    site.close()


@pytest.fixture
def served(servers: Site, tmp_path: Path) -> Iterator[Site]:
    """Return folders of a test's own beside servers that are ready; they stay."""
    site = servers.beside(tmp_path)
    yield site
    site.close()
