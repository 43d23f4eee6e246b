"""What is known about the BDI-II without its text: names, clusters, donors, bands.

The instrument's wording is under copyright and stands nowhere in this project; items are known by
number and by the short names that the eRisk organisers publish.
"""

from typing import Literal

from src.errors import InputError

NAMES = (
    "Sadness",
    "Pessimism",
    "Past Failure",
    "Loss of Pleasure",
    "Guilty Feelings",
    "Punishment Feelings",
    "Self-Dislike",
    "Self-Criticalness",
    "Suicidal Thoughts or Wishes",
    "Crying",
    "Agitation",
    "Loss of Interest",
    "Indecisiveness",
    "Worthlessness",
    "Loss of Energy",
    "Changes in Sleeping Pattern",
    "Irritability",
    "Changes in Appetite",
    "Concentration Difficulty",
    "Tiredness or Fatigue",
    "Loss of Interest in Sex",
)
"""Official names; index 0 is item 1."""

HIGHEST = 3 * len(NAMES)
"""Largest total."""

SYNONYMS = {
    3: "failure",
    4: "anhedonia",
    5: "guilt; feelings of guilt",
    6: "punishment; feelings of punishment",
    7: "self dislike",
    8: "self-criticism; self criticalness",
    9: "suicidal thoughts; suicidal thoughts and wishes; suicidal ideation",
    14: "feelings of worthlessness",
    15: "low energy",
    16: "changes in sleep; changes in sleep pattern; sleep changes",
    18: "changes in appetite or eating; appetite changes",
    19: "difficulty concentrating; difficulty in concentrating; concentration",
    20: "tiredness; fatigue",
    21: "loss of libido; loss of interest in sexual activity",
}
"""Other forms seen in gold files and submissions, in lower case."""

CLUSTERS: tuple[tuple[str, tuple[int, ...]], ...] = (
    ("Mood & Pleasure", (1, 4)),
    ("Physical", (15, 16, 18, 20)),
    ("Outlook & Social", (2, 12)),
    ("Cognition", (13, 19)),
    ("Self-Perception", (7, 14)),
    ("Emotional Reactions", (10, 11, 17)),
    ("Guilt & Self-Criticalness", (5, 8)),
)
"""Appendix A: seven clusters over the 17 items that may be probed."""

SENSITIVE = frozenset({3, 6, 9, 21})
"""Never asked about, never in the focus, never imputed (Appendix B, decision 8)."""

ASSESSABLE = tuple(n for n in range(1, len(NAMES) + 1) if n not in SENSITIVE)

DONORS: dict[int, tuple[int, int, int]] = {
    1: (4, 2, 10),
    2: (1, 4, 14),
    4: (1, 12, 20),
    5: (8, 7, 14),
    7: (14, 8, 5),
    8: (5, 7, 14),
    10: (1, 4, 5),
    11: (17, 15, 1),
    12: (4, 1, 20),
    13: (19, 20, 15),
    14: (7, 8, 1),
    15: (20, 16, 1),
    16: (20, 15, 18),
    17: (11, 1, 20),
    18: (16, 20, 1),
    19: (13, 20, 15),
    20: (15, 16, 18),
}
"""Appendix B, Table 4: donors in priority order."""

Bands = Literal["erisk", "manual"]
BAND_NAMES = ("minimal", "mild", "moderate", "severe")
UPPER_BOUNDS: dict[Bands, tuple[int, int, int, int]] = {
    "erisk": (9, 18, 29, HIGHEST),
    "manual": (13, 19, 28, HIGHEST),
}
"""Highest total of each band: the official scores follow `erisk`, the paper quotes `manual`."""

_BY_NAME = {name.lower(): n for n, name in enumerate(NAMES, 1)} | {
    name: n for n, names in SYNONYMS.items() for name in names.split("; ")
}


def name(item: int) -> str:
    """Return the official name of an item, 1 to 21."""
    return NAMES[item - 1]


def item_number(text: str) -> int:
    """Return the item that a name stands for, in any case; an unknown name is an `InputError`."""
    known = _BY_NAME.get(" ".join(text.lower().replace("–", "-").rstrip(".").split()))
    if known is None:
        raise InputError(f"unknown symptom {text!r}; src/clinical/bdi.py lists the 21 names")
    return known


def band(total: int, bands: Bands = "erisk") -> str:
    """Return the severity band of a total, 0 to 63."""
    if not 0 <= total <= HIGHEST:
        raise InputError(f"a BDI-II total lies between 0 and {HIGHEST}, not {total}")
    position = next(i for i, top in enumerate(UPPER_BOUNDS[bands]) if total <= top)
    return BAND_NAMES[position]
