import json
from pathlib import Path
from typing import Any

import pytest

from src import config
from src.errors import InputError
from src.evaluation.conversations import read_conversations
from src.evaluation.scored import Scored, constants_of, measured_of
from src.records import ITEMS, Assessment, SymptomScore
from src.settings import ScoreSettings

SAID = [{"role": "user", "message": "How is it?"}, {"role": "assistant", "message": "Fine."}]


def settings() -> ScoreSettings:
    return config.read_settings("score", ScoreSettings, ["scorer=lexical"])


def scored(folder: Path, *rows: dict[str, Any]) -> list[Scored]:
    """Return one conversation a file, each read as nothing but item 1 at 2."""
    silent = SymptomScore(score=0, confidence=0.0)
    sad = SymptomScore(score=2, confidence=0.8)
    reading = Assessment(symptoms=(sad, *[silent] * (ITEMS - 1)))
    made = []
    for n, row in enumerate(rows):
        path = folder / f"{n}.jsonl"
        path.write_text(json.dumps({"persona": "Alex", "conversation": SAID} | row))
        (conversation,) = read_conversations(path)
        made.append(Scored(source=str(path), conversation=conversation, by_turn={1: reading}))
    return made


def test_a_record_without_predicted_symptoms_is_not_judged_by_symptoms(tmp_path: Path) -> None:
    truth = {"gold_bdi": 12, "gold_key_symptoms": ["Sadness"], "pred_bdi": 12}
    measured = measured_of(scored(tmp_path, truth), settings())
    recorded = measured["as recorded, conversation"]
    assert (recorded.dchr, recorded.ashr, recorded.lashr) == (1, None, None)
    assert measured["this scorer, conversation"].ashr == 0.25


@pytest.mark.parametrize(("named", "share"), [([], 0), (["gloom"], 0), (["Sadness"], 0.25)])
def test_a_recorded_prediction_of_symptoms_is_judged(
    tmp_path: Path, named: list[str], share: float
) -> None:
    truth = {"gold_bdi": 12, "gold_key_symptoms": ["Sadness"], "pred_bdi": 12}
    one = scored(tmp_path, truth | {"pred_key_symptoms": named})
    assert measured_of(one, settings())["as recorded, person"].ashr == share


def test_each_person_counts_once_in_the_best_constant_in_any_case(tmp_path: Path) -> None:
    rows = [{"persona": name, "gold_bdi": 40} for name in ("Alex", "alex", "ALEX")]
    known = scored(tmp_path, *rows, *({"persona": p, "gold_bdi": 2} for p in ("Mo", "Kit")))
    constants = constants_of(known, "erisk")
    assert (constants["conversation"].total, constants["person"].total) == (40, 2)
    assert measured_of(known, settings())["this scorer, person"].persons == 3


def test_two_truths_for_one_person_are_refused_by_name(tmp_path: Path) -> None:
    known = scored(tmp_path, {"gold_bdi": 40}, {"persona": "alex", "gold_bdi": 2})
    with pytest.raises(InputError, match="alex has two truths, 40 and 2"):
        constants_of(known, "erisk")
    with pytest.raises(InputError, match="alex has two truths, 40 and 2"):
        measured_of(known, settings())
