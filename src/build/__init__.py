"""From settings to players: the one place that knows every class."""

from src.build.analysts import analyst
from src.build.casting import Casting, refuse_unaccepted
from src.build.players import AskingFor, lexical_scorer, scorer_of
from src.build.subjects import persona_name, persona_number, subjects, wanted

__all__ = [
    "AskingFor",
    "Casting",
    "analyst",
    "lexical_scorer",
    "persona_name",
    "persona_number",
    "refuse_unaccepted",
    "scorer_of",
    "subjects",
    "wanted",
]
