import pytest
from pydantic import TypeAdapter, ValidationError

from src.clinical.phrases import Lexicon, Phrases

PHRASES = TypeAdapter(Phrases)


def found(phrases: str, clause: str) -> bool:
    lexicon = Lexicon({"feel": "(feel|felt)"})
    lexicon.add(PHRASES.validate_python(phrases), 1)
    return bool(list(lexicon.find(clause + " ")))


@pytest.mark.parametrize(
    ("phrase", "clause"),
    [
        ("sad", "i am sad now"),
        ("irritab*", "so irritable"),
        ("(tired|worn out) of it", "worn out of it"),
        ("feel so? low", "i feel low"),
        ("feel so? low", "i feel so low"),
        ("enjoy .. less", "enjoy it a lot less"),
        ("<feel> flat", "it felt flat"),
        ("n't enjoy", "i didn't enjoy"),
        ("can't .. (sleep|finish .. book)", "can't even finish that short book"),
    ],
)
def test_a_phrase_is_found_where_its_notation_says(phrase: str, clause: str) -> None:
    assert found(phrase, clause)


@pytest.mark.parametrize(
    ("phrase", "clause"),
    [
        ("sad", "sadly no"),
        ("sad", "crusade"),
        ("feel .. low", "feel not low"),
        ("feel .. low", "feel one two three four five low"),
        ("feel low", "low feel"),
    ],
)
def test_a_phrase_is_not_found_elsewhere(phrase: str, clause: str) -> None:
    assert not found(phrase, clause)


@pytest.mark.parametrize(
    "phrase", ["(a|b", "a (b|c)(d|e)", "a ..", "a (b)?", "Sad!", "(a|(b|c)) d"]
)
def test_a_malformed_phrase_is_refused(phrase: str) -> None:
    with pytest.raises(ValidationError, match="malformed phrase"):
        PHRASES.validate_python(phrase)


def test_phrases_are_parted_by_semicolons_over_any_lines() -> None:
    assert PHRASES.validate_python("so sad;\n very\n low; ") == ("so sad", "very low")
