"""The dialogue tree: fixed openers and follow-ups, chosen from turns and guidance alone.

A question's source names its node: `tree:<opener>` for an opener, `tree:<opener>/<follow-up>` for
a follow-up. What was used is read from there, so nothing is remembered between two calls.
"""

import math
import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
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
Place = tuple[str | int, ...]

_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")

_CLUSTERS = dict(CLUSTERS)


def refuse(message: str, *place: str | int) -> NoReturn:
    """Raise a validation error at a place below the model that is being checked."""
    raise ValidationError.from_exception_data(
        "tree", [{"type": PydanticCustomError("tree", message), "loc": place, "input": ()}]
    )


def refuse_repeated(
    values: Iterable[tuple[object, Place]], message: str = "is asked elsewhere already"
) -> None:
    """Raise a validation error at the first place whose value an earlier place had."""
    seen: set[object] = set()
    for value, place in values:
        if value in seen:
            refuse(message.format(value), *place)
        seen.add(value)


def _askable(item: int) -> int:
    if item not in ASSESSABLE:
        raise ValueError(f"must be one of the {len(ASSESSABLE)} items that may be asked about")
    return item


def _one_question(text: str) -> str:
    if text.count("?") != 1 or not text.endswith("?"):
        raise ValueError("must ask exactly one question, at its end")
    return text


def _statement(text: str) -> str:
    if "?" in text or not text.strip():
        raise ValueError("must say something and ask nothing")
    return text


Id = Annotated[str, Field(pattern=r"^[a-z]+(-[a-z]+)*$")]
Targets = Annotated[
    tuple[Annotated[Item, AfterValidator(_askable)], ...], Field(min_length=1, max_length=4)
]
Text = Annotated[str, AfterValidator(_one_question)]
Statement = Annotated[str, AfterValidator(_statement)]
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
    def _keeps_to_its_topic(self) -> "Opener":
        if self.cluster not in _CLUSTERS:
            refuse(f"must be one of: {'; '.join(_CLUSTERS)}", "cluster")
        for n, item in enumerate(self.targets):
            if item not in _CLUSTERS[self.cluster]:
                refuse(f"item {item} is not in the cluster {self.cluster}", "targets", n)
        ids, keywords = [], []
        for n, branch in enumerate(self.follow_ups):
            ids.append((branch.id, ("follow_ups", n, "id")))
            keywords.append((frozenset(branch.keywords), ("follow_ups", n, "keywords")))
            if branch.branch == "negative" and not set(branch.targets) <= set(self.targets):
                refuse("must stay with the opener's targets", "follow_ups", n, "targets")
        refuse_repeated(ids, "'{}' names an earlier branch already")
        refuse_repeated(keywords, "has the keywords of an earlier branch")
        return self


class TreeFile(Record):
    """A whole tree, as it stands in `trees/`."""

    greeting: Statement
    """Stands in front of the very first question (decision 13)."""
    ignore: tuple[Annotated[str, Field(pattern=r"^[a-z' ]+$")], ...] = ()
    """Turns of speech that say nothing about the person; taken out before matching."""
    openers: Annotated[tuple[Opener, ...], Field(min_length=1)]
    """In the order in which they are tried."""

    @model_validator(mode="after")
    def _in_order_and_without_repetition(self) -> "TreeFile":
        rank = list(_CLUSTERS).index
        for n, (one, other) in enumerate(pairwise(self.openers), 1):
            if rank(other.cluster) < rank(one.cluster):
                refuse(f"must come before {one.cluster}", "openers", n, "cluster")
        refuse_repeated(
            ((opener.id, ("openers", n, "id")) for n, opener in enumerate(self.openers)),
            "'{}' names an earlier opener already",
        )
        texts: list[tuple[str, Place]] = []
        for n, opener in enumerate(self.openers):
            texts.append((opener.text, ("openers", n, "text")))
            for m, branch in enumerate(opener.follow_ups):
                texts.append((branch.text, ("openers", n, "follow_ups", m, "text")))
        refuse_repeated(texts)
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

    @property
    def texts(self) -> dict[str, str]:
        """Every line by its node."""
        return {opener.id: opener.text for opener in self.openers} | {
            f"{opener.id}/{branch.id}": branch.text
            for opener in self.openers
            for branch in opener.follow_ups
        }

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
            focus=_CLUSTERS[first.cluster],  # Appendix A: both items of the first cluster
        )

    def _follow_up(self, turns: Turns, asked: frozenset[int]) -> Question | None:
        """Return the follow-up, unless another opener has asked its topic already."""
        node = turns[-1].question.source.removeprefix(PREFIX)
        if not turns[-1].question.source.startswith(PREFIX) or node not in self._openers:
            return None
        branch = self.choose(node, turns[-1].answer.text)
        if branch is None or (branch.branch == "positive" and asked >= set(branch.targets)):
            return None
        source = f"{PREFIX}{node}/{branch.id}"
        return Question(text=branch.text, source=source, focus=branch.targets)

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
