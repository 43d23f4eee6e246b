"""What a server of ours counts of itself: vLLM's metrics, and anything else it shows on a page."""

import http.client
import re
from collections import defaultdict
from collections.abc import Mapping
from urllib.parse import urlsplit

from src.errors import ServerError

LINE = re.compile(r"^(?P<name>[\w:]+)(?:\{(?P<labels>.*)\})? (?P<value>[-+.\deE]+)$")
BLOCK = re.compile(r'\bblock_size="(\d+)"')
CONFIG = "vllm:cache_config_info"
RUNNING, HITS = "vllm:num_requests_running", "vllm:prefix_cache_hits_total"
WORKED = "vllm:request_inference_time_seconds_sum"
"""Seconds from when a request was taken up until it was done, over all that are done."""
SECONDS = 10.0


def page(base_url: str, path: str) -> str:
    """Return a page beside the API, asked for past any proxy; a missing one is a `ServerError`."""
    where = urlsplit(base_url)
    kind = http.client.HTTPSConnection if where.scheme == "https" else http.client.HTTPConnection
    connection = kind(where.hostname or "", where.port, timeout=SECONDS)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        text = response.read().decode()
    except (OSError, http.client.HTTPException) as error:
        raise ServerError(f"{base_url}: {path} is not shown: {error}") from error
    finally:
        connection.close()
    if response.status != http.client.OK:
        raise ServerError(f"{base_url}: {path} is not shown: {response.status}")
    return text


def metrics_of(base_url: str) -> Mapping[str, float]:
    """Return every metric's sum over its labels; one that is not there is 0."""
    found: defaultdict[str, float] = defaultdict(float)
    for line in page(base_url, "/metrics").splitlines():
        if match := LINE.match(line):
            found[match["name"]] += float(match["value"])
    return found


def block_size(base_url: str) -> int:
    """Return how many tokens are kept together in the prefix cache."""
    for line in page(base_url, "/metrics").splitlines():
        if line.startswith(CONFIG) and (found := BLOCK.search(line)):
            return int(found[1])
    raise ServerError(f"{base_url}: no vLLM that tells its block size in /metrics")
