"""Measure this machine against the one on which the recipe's 20 tokens a second were measured.

    python tests/serving/calibrate.py               # prints the ratio
    python tests/serving/calibrate.py 730 1200      # of what takes 730 s there and may take 1200

One round does what a token costs: a small model's weights are read once from memory on every
processor, and Python arranges the next step. Ends with 3 where the ratio is under a third, or where
the part would not be done in its time at this speed.
"""

import statistics
import sys
import time
from collections.abc import Sequence

import numpy as np

RECIPE = 0.06
"""Seconds of a round there, while the machine was idle."""
LEAST = 1 / 3
"""The ratio below which nobody waits for the real server."""
SPARE = 1.1
"""The machine may become so much slower on the way."""
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


def main(arguments: Sequence[str]) -> int:
    """Print the ratio; return the exit code."""
    weights = np.full((SIDE, SIDE), 1 / SIDE, dtype=np.float32)
    round_seconds(weights)  # libraries and pages are there after it
    seconds = statistics.median(round_seconds(weights) for _ in range(ROUNDS))
    ratio = RECIPE / seconds
    line = f"calibration: {ratio:.2f} of the recipe's machine ({seconds:.3f} s a round)"
    fits = ratio >= LEAST
    if arguments:
        there, at_most = map(float, arguments)
        line += f"; what takes {there:.0f} s there may take {at_most:.0f} s"
        fits = fits and there / ratio * SPARE <= at_most
    sys.stdout.write(f"{line}\n")
    return 0 if fits else TOO_SLOW


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
