"""The offline world must not be one in which the scorer reads its own words.

Persons' lines and the scorer's cues were written apart, and so were the cases' lines and the
diagnoser's signs; these tests keep them so.
"""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from terminal import ROOT, tacit

from src.analysts.cues import DiagnosisCues
from src.clinical.phrases import Lexicon
from src.clinical.text import content_words, sentences, words
from src.patients.cases import load_cases
from src.patients.offline import load_lines, load_persons
from src.prompts import load_yaml
from src.steering.cues import GRADES, Cues

CUES = ROOT / "conf" / "lexicon" / "cues.yaml"
OTHERS = [
    ROOT / "conf" / "checks" / "rubric.yaml",
    ROOT / "trees" / "screening.yaml",
    ROOT / "prompts" / "scripted.yaml",
    ROOT / "prompts" / "guidance.yaml",
    ROOT / "prompts" / "rubric.yaml",
]
"""What else must share no run of words with a person's line."""
SIGNS = ROOT / "conf" / "lexicon" / "diagnosis.yaml"
SCRIPT = ROOT / "prompts" / "agent_script.yaml"
HEARING = ROOT / "conf" / "cases" / "hearing.yaml"
CUE_WORDS_AT_MOST = 0.35
CANARY_MARGIN = 0.06
ELEMENT = re.compile(r"\([^()]*\)\??|\.\.|[^ ()]+")
Run = tuple[str, ...]


def texts(content: object) -> Iterator[str]:
    """Yield every text below a place in a YAML file."""
    if isinstance(content, dict):
        content = list(content.values())
    if isinstance(content, list | tuple):
        for value in content:
            yield from texts(value)
    elif isinstance(content, str):
        yield content


def said_in_cases() -> list[tuple[str, str]]:
    """Return every line that an invented patient may say, each with the case's id or `hearing`."""
    fillers = yaml.safe_load(HEARING.read_text(encoding="utf-8"))["lines"]
    return [
        (one.case.id, line)
        for one in load_cases(ROOT / "conf" / "cases" / "invented")
        if (played := one.profile)
        for line in (played.opening, *(f.says for f in played.known), *played.denials.values())
    ] + [("hearing", line) for line in texts(fillers)]


def said_by_cases() -> list[str]:
    return [line for _, line in said_in_cases()]


def said() -> list[str]:
    """Return every line that an offline person may say."""
    lines = load_lines(ROOT / "conf" / "personas" / "offline_lines.yaml")
    everything = lines.model_dump(mode="json", exclude={"listening": True})
    for item in everything["items"].values():
        del item["listens_for"]
    persons = load_persons(ROOT / "conf" / "personas" / "offline.yaml")
    return [*texts(everything), *(aside for person in persons.persons for aside in person.asides)]


def runs_of(words: list[str]) -> set[Run]:
    """Return the trigrams of a text's content words."""
    return set(zip(words, words[1:], words[2:], strict=False))


def cue_phrases(path: Path, names: str) -> Iterator[str]:
    """Yield the phrases of a file; those below its key `names` stand in the others."""
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    named = content.get(names, {})
    for text in texts({key: value for key, value in content.items() if key != "reach"}):
        full = re.sub(r"<([a-z]+)>", lambda m: named[m.group(1)], " ".join(text.split()))
        yield from (phrase.strip() for phrase in full.split(";"))


def options(element: str) -> list[list[str]]:
    """Return the content words of each way to read one element of a cue; [] where it may lack."""
    ways = [plain(way) for way in element.rstrip("?").strip("()").split("|")]
    return [*ways, []] if element.endswith("?") else ways


def plain(text: str) -> list[str]:
    """Return content words, a stem keeping its star."""
    return [
        word + ("*" if f"{word}*" in text else "") for word in content_words(text.replace("*", " "))
    ]


def cue_runs(phrase: str) -> set[Run]:
    """Return the trigrams of every reading of a cue phrase; a gap may hold anything and parts."""
    found: set[Run] = set()
    ends: set[Run] = {()}
    for element in ELEMENT.findall(phrase):
        if element == "..":
            ends = {()}
            continue
        extended: set[Run] = set()
        for end in ends:
            for way in options(element):
                run = (*end, *way)
                found |= runs_of(list(run))
                extended.add(run[-2:])
        ends = extended
    return found


def meets(cue: str, word: str) -> bool:
    return word.startswith(cue[:-1]) if cue.endswith("*") else word == cue


def shared(line: str, cues: set[Run]) -> Iterator[str]:
    """Yield the runs that a line has in common with cues, whose words may be stems."""
    stemmed = [run for run in cues if any(word.endswith("*") for word in run)]
    for run in runs_of(content_words(line)):
        if run in cues or any(all(map(meets, cue, run)) for cue in stemmed):
            yield " ".join(run)


def signs() -> Lexicon:
    """Return every phrase by which the diagnoser finds a sign."""
    cues = load_yaml(SIGNS, DiagnosisCues)
    found = Lexicon(cues.names)
    for name, sign in cues.signs.items():
        found.add(sign.said, name)
    return found


def grades() -> Lexicon:
    """Return every phrase by which the scorer grades an item."""
    cues = load_yaml(CUES, Cues)
    found = Lexicon(cues.words)
    for item, entry in cues.items.items():
        for level, grade in enumerate(GRADES):
            found.add(getattr(entry, grade), level, item)
    return found


def words_read(line: str, lexicon: Lexicon) -> tuple[int, int]:
    """Return how many content words of a line a cue lays hold of, and how many there are."""
    read = total = 0
    for sentence in sentences(line):
        flat = " ".join(words(sentence)) + " "
        held = {i for _, match in lexicon.find(flat) for i in range(*match.span())}
        for word in re.finditer(r"[^ ]+", flat):
            if content_words(word.group()):
                total += 1
                read += word.start() in held
    return read, total


def test_no_line_shares_a_run_of_three_content_words_with_what_reads_it() -> None:
    other = {
        run
        for path in OTHERS
        for text in texts(yaml.safe_load(path.read_text(encoding="utf-8")))
        for run in runs_of(content_words(text))
    }
    cues = {run for phrase in cue_phrases(CUES, "words") for run in cue_runs(phrase)}
    found = [f"{run} in {line!r}" for line in said() for run in shared(line, cues | other)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(("path", "names"), [(SIGNS, "names"), (SCRIPT, "")])
def test_no_patient_of_a_case_shares_a_run_with_what_asks_or_diagnoses(
    path: Path, names: str
) -> None:
    cues = {run for phrase in cue_phrases(path, names) for run in cue_runs(phrase)}
    lines = said_in_cases()
    found = [f"{run} in {case}: {line!r}" for case, line in lines for run in shared(line, cues)]
    assert lines
    assert cues
    assert not found, "\n".join(found)


def test_a_line_that_repeats_a_phrase_is_found() -> None:
    cues = cue_runs("(wake|woke) hours? early monday*")
    assert list(shared("I woke so early on Mondays.", cues)) == ["woke early mondays"]
    assert not list(shared("On Mondays I was up before the birds.", cues))


@pytest.mark.parametrize(("lines", "phrases"), [(said, grades), (said_by_cases, signs)])
def test_cues_lay_hold_of_at_most_35_percent_of_a_lines_content_words(
    lines: Callable[[], list[str]], phrases: Callable[[], Lexicon]
) -> None:
    full, lexicon = [], phrases()
    for line in lines():
        read, total = words_read(line, lexicon)
        if total and read / total > CUE_WORDS_AT_MOST:
            full.append(f"{read}/{total} in {line!r}")
    assert not full, f"{len(full)} lines:\n" + "\n".join(full)


def test_a_plain_word_is_laid_hold_of() -> None:
    assert words_read("I feel sad beside the window of the bakery.", grades()) == (1, 5)
    assert words_read("My head hurts, and I weep beside the window.", signs())[0] > 0


def test_the_trigrams_of_a_cue_are_those_of_all_its_readings() -> None:
    assert ("wake", "hours", "early") in cue_runs("(wake|woke) hours? early")
    assert ("woke", "early", "monday*") in cue_runs("(wake|woke) hours? early monday*")
    assert cue_runs("wake .. hours early") == set()


@given(st.lists(st.sampled_from(["river", "stone", "lamp"]), min_size=3, max_size=6))
def test_a_copied_run_is_found_whatever_stands_around_it(words: list[str]) -> None:
    assert tuple(words[:3]) in runs_of(content_words("the " + " ".join(words) + " and so"))


def test_offline_persons_are_no_easier_to_read_than_real_conversations(
    shared_data: Path, tmp_path: Path
) -> None:

    def closeness(*sources: Path) -> float:
        out = tmp_path / "o.json"
        assert tacit("src.score", *map(str, sources), f"out={out}").returncode == 0
        value = json.loads(out.read_text())["measures"]["this scorer, person"]["adodl"]
        assert isinstance(value, float)
        return value

    tacit("src.run", "experiment=offline", "persona=all", "samples=3", f"outputs={tmp_path}")
    names = ("erisk2026_transcripts", "dsgt2025_submissions", "conversations")
    real = closeness(*(shared_data / f"{name}.jsonl" for name in names))
    assert closeness(tmp_path / "offline") <= real + CANARY_MARGIN
