"""The dialogue tree: fixed openers and follow-ups, chosen from turns and guidance alone.

A question's source names its node: `tree:<opener>` for an opener, `tree:<opener>/<follow-up>` for
a follow-up. What was used is read from there, so nothing is remembered between two calls.
"""

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, NoReturn

from pydantic import AfterValidator, Field, StrictBool, ValidationError, model_validator
from pydantic_core import PydanticCustomError
from rank_bm25 import BM25Okapi, BM25Plus

from src.clinical.bdi import ASSESSABLE, CLUSTERS
from src.clinical.text import marked_words
from src.interview.roles import Turns
from src.prompts import load_yaml
from src.records import Guidance, Item, Question, Record

PREFIX = "tree:"
Ranking = Literal["plus", "okapi"]

_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")

_CLUSTER_NAMES = tuple(name for name, _ in CLUSTERS)
_CLUSTER_ITEMS = dict(CLUSTERS)


def refuse(message: str, *place: str | int) -> NoReturn:
    """Raise a validation error at a place below the model that is being checked."""
    raise ValidationError.from_exception_data(
        "tree", [{"type": PydanticCustomError("tree", message), "loc": place, "input": ()}]
    )


def _askable(item: int) -> int:
    if item not in ASSESSABLE:
        raise ValueError(f"must be one of the {len(ASSESSABLE)} items that may be asked about")
    return item


def _one_question(text: str) -> str:
    if text.count("?") != 1 or not text.endswith("?"):
        raise ValueError("must ask exactly one question, at its end")
    return text


Id = Annotated[str, Field(pattern=r"^[a-z]+(-[a-z]+)*$")]
Targets = Annotated[
    tuple[Annotated[Item, AfterValidator(_askable)], ...], Field(min_length=1, max_length=4)
]
Text = Annotated[str, AfterValidator(_one_question)]
Keyword = Annotated[str, Field(pattern=r"^(not )?[a-z]+('[a-z]+)?\*?$")]
"""A word, or with `*` at its end a stem; behind `not `, the word where it is negated."""


class FollowUp(Record):
    """What is asked after an opener whose reply met this branch's keywords."""

    id: Id
    branch: Literal["negative", "positive"]
    targets: Targets
    severity_probe: StrictBool
    text: Text
    keywords: Annotated[tuple[Keyword, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _no_keyword_counts_twice(self) -> "FollowUp":
        for n, keyword in enumerate(self.keywords):
            others = self.keywords[:n] + self.keywords[n + 1 :]
            if any(_meets(keyword.rstrip("*"), other) for other in others):
                refuse(f"'{keyword}' is covered by another keyword of this branch", "keywords", n)
        return self


class Opener(Record):
    """The first question about one symptom, or about a small group of them."""

    id: Id
    cluster: str
    targets: Targets
    text: Text
    follow_ups: Annotated[tuple[FollowUp, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _keeps_to_its_cluster(self) -> "Opener":
        if self.cluster not in _CLUSTER_NAMES:
            refuse(f"must be one of: {'; '.join(_CLUSTER_NAMES)}", "cluster")
        for n, item in enumerate(self.targets):
            if item not in _CLUSTER_ITEMS[self.cluster]:
                refuse(f"item {item} is not in the cluster {self.cluster}", "targets", n)
        return self

    @model_validator(mode="after")
    def _branches_differ(self) -> "Opener":
        for n, branch in enumerate(self.follow_ups):
            earlier = self.follow_ups[:n]
            if any(branch.id == other.id for other in earlier):
                refuse(f"'{branch.id}' names an earlier branch already", "follow_ups", n, "id")
            if any(set(branch.keywords) == set(other.keywords) for other in earlier):
                refuse("has the keywords of an earlier branch", "follow_ups", n, "keywords")
            if branch.branch == "negative" and not set(branch.targets) <= set(self.targets):
                refuse("must stay with the opener's targets", "follow_ups", n, "targets")
        return self


class TreeFile(Record):
    """A whole tree, as it stands in `trees/`."""

    greeting: Annotated[str, Field(min_length=1, pattern=r"^[^?]*$")]
    """Stands in front of the very first question (decision 13)."""
    ignore: tuple[Annotated[str, Field(pattern=r"^[a-z' ]+$")], ...] = ()
    """Turns of speech that say nothing about the person; taken out before matching."""
    openers: Annotated[tuple[Opener, ...], Field(min_length=1)]
    """In the order in which they are tried."""

    @model_validator(mode="after")
    def _every_line_is_its_own(self) -> "TreeFile":
        texts: set[str] = set()
        for n, opener in enumerate(self.openers):
            place: tuple[str | int, ...] = ("openers", n)
            before = self.openers[:n]
            if any(opener.id == other.id for other in before):
                refuse(f"'{opener.id}' names an earlier opener already", *place, "id")
            rank = _CLUSTER_NAMES.index
            if before and rank(opener.cluster) < rank(before[-1].cluster):
                refuse(f"must come before {before[-1].cluster}", *place, "cluster")
            if opener.text in texts:
                refuse("is asked elsewhere already", *place, "text")
            texts.add(opener.text)
            for m, branch in enumerate(opener.follow_ups):
                if branch.text in texts:
                    refuse("is asked elsewhere already", *place, "follow_ups", m, "text")
                texts.add(branch.text)
        return self


class DialogueTree:
    """Offer the tree's next line, or nothing; shared by every interviewer that has a tree."""

    def __init__(
        self, path: str | Path, *, turns_max: int | None = None, bm25: Ranking = "plus"
    ) -> None:
        """Read the tree; `turns_max` counts openers and follow-ups (decision 14).

        `bm25: okapi` reproduces the paper: Okapi over the follow-ups' own words, no negation,
        always a branch (decision 15).
        """
        self._file = load_yaml(path, TreeFile)
        self._turns_max = turns_max
        self._bm25 = bm25
        self._openers = {opener.id: opener for opener in self._file.openers}
        self._targets = {opener.id: opener.targets for opener in self._file.openers} | {
            f"{opener.id}/{branch.id}": branch.targets
            for opener in self._file.openers
            for branch in opener.follow_ups
        }

    @property
    def openers(self) -> tuple[Opener, ...]:
        """Every opener with its branches, in the order in which they are tried."""
        return self._file.openers

    def next_line(self, turns: Turns, guidance: Guidance) -> Question | None:
        """Return the follow-up to the last reply, else the next opener in the focus, else None."""
        nodes = [
            turn.question.source.removeprefix(PREFIX)
            for turn in turns
            if turn.question.source.startswith(PREFIX)
        ]
        if guidance.stop or (self._turns_max is not None and len(nodes) >= self._turns_max):
            return None
        if not turns:
            return self._first_line()
        asked = frozenset(item for node in nodes for item in self._targets.get(node, ()))
        return self._follow_up(turns, asked) or self._opener(guidance.focus, asked)

    def choose(self, opener: str, reply: str) -> FollowUp | None:
        """Return the branch that a reply to an opener calls for; None is `no_match`."""
        branches = self._openers[opener].follow_ups
        if self._bm25 == "okapi":
            return as_printed(branches, reply)
        return best_match(branches, marked_words(reply, self._file.ignore))

    def _first_line(self) -> Question:
        first = self._file.openers[0]
        return Question(
            text=f"{self._file.greeting} {first.text}",
            source=PREFIX + first.id,
            focus=_CLUSTER_ITEMS[first.cluster],  # Appendix A: both items of the first cluster
        )

    def _follow_up(self, turns: Turns, asked: frozenset[int]) -> Question | None:
        """Return the follow-up, unless another opener has asked its topic already."""
        node = turns[-1].question.source.removeprefix(PREFIX)
        if not turns[-1].question.source.startswith(PREFIX) or node not in self._openers:
            return None
        branch = self.choose(node, turns[-1].answer.text)
        if branch is None or (branch.branch == "positive" and asked >= set(branch.targets)):
            return None
        return Question(
            text=branch.text, source=f"{PREFIX}{node}/{branch.id}", focus=branch.targets
        )

    def _opener(self, focus: Sequence[int], asked: frozenset[int]) -> Question | None:
        for opener in self._file.openers:
            used_up = set(opener.targets) <= asked
            if not used_up and set(opener.targets) & set(focus):
                return Question(text=opener.text, source=PREFIX + opener.id, focus=opener.targets)
        return None


def best_match(branches: Sequence[FollowUp], reply: Sequence[str]) -> FollowUp | None:
    """Return the one branch with the best BM25+ score among those with a hit (decision 15)."""
    said = set(reply)
    hits = [{k for k in b.keywords if any(_meets(w, k) for w in said)} for b in branches]
    query = sorted(set().union(*hits))
    scores = BM25Plus([list(b.keywords) for b in branches], b=0).get_scores(query)
    found = [(float(score), n) for n, score in enumerate(scores) if hits[n]]
    if not found:
        return None
    best = max(score for score, _ in found)
    first = [n for score, n in found if math.isclose(score, best)]  # sums differ by their order
    return branches[first[0]] if len(first) == 1 else None


def as_printed(branches: Sequence[FollowUp], reply: str) -> FollowUp:
    """Return the follow-up whose own words Okapi ranks first; on a tie the first in the file."""
    okapi = BM25Okapi([_WORD.findall(b.text.lower()) for b in branches])
    scores = okapi.get_scores(_WORD.findall(reply.lower()))
    return branches[int(scores.argmax())]


def _meets(word: str, keyword: str) -> bool:
    return word.startswith(keyword[:-1]) if keyword.endswith("*") else word == keyword
