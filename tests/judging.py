"""Reports beside references, as short as a table of the paper needs them."""

from itertools import count
from typing import Any

from src.clinical.icd11 import base
from src.evaluation.intervals import Intervals
from src.evaluation.judged import Judged, Label
from src.patients.cases import FAMILIES
from src.reports import Named

INTERVALS = Intervals(level=0.95, resamples=400, seed=1)
_NUMBERS = count(1)


def named(code: str, rank: int = 1, level: str = "moderate") -> Named:
    family = FAMILIES.get(base(code)[:3])
    about: dict[str, Any] = {"rank": rank, "raw": code, "confidence": level, "family": family}
    return Named(base=base(code), title=f"title of {code}", known=family is not None, **about)


def label(code: str) -> Label:
    return Label(code=code, name=f"name of {code}", family=FAMILIES[code[:3]])


def judged(
    reference: str | None, *codes: str, level: str = "moderate", subject: str = "", **more: Any
) -> Judged:
    """Return one report; an empty reference is no disorder, None is not known."""
    known = None if reference is None else tuple(map(label, reference.split()))
    hypotheses = tuple(named(code, rank, level) for rank, code in enumerate(codes, 1))
    usual: dict[str, Any] = {"sample": 1, "exchanges": 16, "whole": 16}
    about = {"subject": subject or f"case-{next(_NUMBERS)}", "references": known}
    return Judged(**{**usual, **about, "hypotheses": hypotheses, **more})
