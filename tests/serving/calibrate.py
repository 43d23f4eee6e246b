"""Measure this machine against the one on which the recipe's 20 tokens a second were measured.

    python tests/serving/calibrate.py

One round does what a token costs: a small model's weights are read once from memory on every
processor, and Python arranges the next step. Prints the ratio; ends with 3 where it is under a
third, since the real server would then take longer than anybody waits.
"""

import statistics
import sys
import time

import numpy as np

RECIPE = 0.12
"""Seconds of a round there, while the machine was idle."""
LEAST = 1 / 3
"""The ratio that the real server needs."""
TOO_SLOW = 3
"""Exit code of a machine below it; any other that is not 0 is a failure."""
ROUNDS = 25
SIDE = 8192
"""A square matrix of this side holds 256 MiB, as the weights of the small model do."""
STEPS = 1_000_000


def round_seconds(weights: "np.ndarray[tuple[int, int], np.dtype[np.float32]]") -> float:
    """Return how long one round takes."""
    began = time.perf_counter()
    state = np.ones(SIDE, dtype=np.float32)
    for _ in range(3):
        state = weights @ state
    total = 0
    for step in range(STEPS):
        total += step & 7
    assert total
    assert state.shape == (SIDE,)
    return time.perf_counter() - began


def main() -> int:
    """Print the ratio; return the exit code."""
    weights = np.full((SIDE, SIDE), 1 / SIDE, dtype=np.float32)
    round_seconds(weights)  # libraries and pages are there after it
    seconds = statistics.median(round_seconds(weights) for _ in range(ROUNDS))
    ratio = RECIPE / seconds
    sys.stdout.write(
        f"calibration: {ratio:.2f} of the recipe's machine ({seconds:.3f} s a round)\n"
    )
    return 0 if ratio >= LEAST else TOO_SLOW


if __name__ == "__main__":
    sys.exit(main())
