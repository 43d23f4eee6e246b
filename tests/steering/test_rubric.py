import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from src.errors import InputError, ScorerFailed
from src.interview.roles import Scorer
from src.prompts import load_yaml, located
from src.records import Assessment, SymptomScore, Turn
from src.settings import LexicalThresholds
from src.steering.cues import Cues
from src.steering.lexical import LexicalScorer
from src.steering.rubric import Rubric, outcomes, wrong

RUBRIC = load_yaml("conf/checks/rubric.yaml", Rubric)
OTHER_WORDS = "in other words"
"""Far-fetched rows. 3 of 20 were right when they were written; the cue lists have learned since, so
that they say little about words nobody thought of."""


class Blank:
    """Assesses nothing."""

    async def score(self, turns: object) -> Assessment:
        return Assessment(symptoms=(SymptomScore(score=0, confidence=0.0),) * 21)


class Falters(Blank):
    """Fails on a row, and assesses nothing in the others."""

    async def score(self, turns: object) -> Assessment:
        if turns == RUBRIC.rows[1].turns:
            raise ScorerFailed("refused: not this one")
        return await super().score(turns)


def rated_by(scorer: Scorer) -> Callable[[int], Scorer]:
    return lambda _: scorer


def lexical() -> LexicalScorer:
    option = yaml.safe_load(located("conf/scorer/lexical.yaml").read_text(encoding="utf-8"))
    return LexicalScorer(load_yaml(option["cues"], Cues), LexicalThresholds(**option["thresholds"]))


def test_the_table_holds_every_item_and_denials_and_traps() -> None:
    assert len(RUBRIC.rows) >= 40
    assert {row.item for row in RUBRIC.rows} == set(range(1, 22))
    assert sum(row.level == 0 for row in RUBRIC.rows) >= 10
    assert sum(row.level == "none" for row in RUBRIC.rows) >= 10


def test_the_lexical_scorer_keeps_every_rule() -> None:
    rows = Rubric(rows=tuple(row for row in RUBRIC.rows if row.rule != OTHER_WORDS))
    assert list(wrong(asyncio.run(outcomes(rated_by(lexical()), rows)))) == []


def test_the_lexical_scorer_hears_three_quarters_of_the_far_fetched() -> None:
    rows = Rubric(rows=tuple(row for row in RUBRIC.rows if row.rule == OTHER_WORDS))
    results = asyncio.run(outcomes(rated_by(lexical()), rows))
    assert sum(outcome.right for outcome in results) >= 0.75 * len(results)


def test_a_scorer_that_hears_nothing_is_wrong_wherever_something_is_said() -> None:
    results = asyncio.run(outcomes(rated_by(Blank()), RUBRIC))
    assert {outcome.row.level for outcome in results if outcome.right} == {"none"}


def test_a_row_on_which_the_scorer_fails_is_a_line_and_never_right() -> None:
    results = asyncio.run(outcomes(rated_by(Falters()), RUBRIC))
    assert len(results) == len(RUBRIC.rows)
    failed = [outcome for outcome in results if outcome.given == "failed"]
    assert [outcome.row for outcome in failed] == [RUBRIC.rows[1]]
    assert not failed[0].right
    assert any("failed (refused: not this one)" in line for line in wrong(results))


def test_a_second_level_is_right_where_the_rule_allows_it() -> None:
    row = next(row for row in RUBRIC.rows if row.either is not None)
    assert isinstance(row.turns[0], Turn)
    assert {row.level, row.either} == {2, 3}


def test_a_bad_row_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "rubric.yaml"
    path.write_text("rows:\n  - {item: 22, level: 1, rule: r, reply: x}\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"rows\[0\]\.item") as error:
        load_yaml(path, Rubric)
    assert "\n" not in str(error.value)
