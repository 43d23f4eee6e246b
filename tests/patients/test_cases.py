import csv
import json
import re
import unicodedata
from collections import Counter
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from src.errors import InputError
from src.patients.cases import (
    FAMILIES,
    NO_DISORDER,
    CaseFile,
    CaseRow,
    Reference,
    load_cases,
    load_records,
)
from src.patients.profiles import Disclosure, Fact, PatientProfile, SafetyState
from src.prompts import ROOT

INVENTED = ROOT / "conf" / "cases" / "invented"
DATA = ROOT.parent / "shared" / "data"
COVERED = {family for block, family in FAMILIES.items() if block < "6E3"} - {
    "Impulse control",
    "Paraphilic",
    "Factitious",
}
"""Families of which MentalDx Bench holds records."""
NAMED = re.compile(
    r"\b(icd|dsm|ocd|adhd|ptsd|disorder|diagnos|psychiatr|psychosis|psychotic|schizo|delusion"
    r"|bipolar|mani[ac]|hypomani|depress|dysthymi|cyclothymi|agoraphob|phobi|obsessi|compulsi"
    r"|hypochondri|hoard|dissociat|depersonali|derealis|amnesi|catatoni|encopres|enures|bulimi"
    r"|anorexi|dementia|alzheimer|autis|borderline|somatoform)"
)
"""Beginnings of words that would give the disorder away."""
ROW = {
    "id": "7",
    "code": "6B03",
    "English_disease_name": "Specific phobia",
    "diagnostic_category": "Anxiety or fear-related disorders",
    "input": "A woman (female, 31 years) who will not go near dogs.",
}


@cache
def cases() -> tuple[CaseFile, ...]:
    return load_cases(INVENTED)


def profile(one: CaseFile) -> PatientProfile:
    assert one.profile is not None
    return one.profile


def said(one: CaseFile) -> str:
    played = profile(one)
    return "\n".join(
        [played.opening, *(fact.says for fact in played.known), *played.denials.values()]
    )


def folded(text: str) -> str:
    plain = unicodedata.normalize("NFKC", text).casefold()
    return re.sub(r"[\s\-\u2010-\u2015_.]+", " ", plain)


def five_grams(text: str) -> set[tuple[str, ...]]:
    words = re.findall(r"\w+", text.casefold())
    return {tuple(words[n : n + 5]) for n in range(len(words) - 4)}


def closest(texts: dict[str, str]) -> tuple[float, str, str]:
    """Return the greatest Jaccard index of word 5-grams, and whose texts have it."""
    grams = {name: five_grams(text) for name, text in texts.items()}
    return max(
        (len(grams[a] & grams[b]) / max(1, len(grams[a] | grams[b])), a, b)
        for a, b in combinations(grams, 2)
    )


def changed(tmp_path: Path, change: Any, name: str = "case-005.yaml") -> Path:
    """Write one of the cases with a change made to its content."""
    content = yaml.safe_load((INVENTED / name).read_text(encoding="utf-8"))
    change(content)
    path = tmp_path / name
    path.write_text(yaml.safe_dump(content, allow_unicode=True), encoding="utf-8")
    return path


def refused(path: Path) -> str:
    with pytest.raises(InputError) as error:
        load_cases(path)
    assert "\n" not in str(error.value)
    return str(error.value)


def jsonl(folder: Path, *rows: object) -> Path:
    path = folder / "records.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n", encoding="utf-8")
    return path


def test_every_case_lies_in_the_file_of_its_name_and_has_a_profile() -> None:
    assert len(cases()) == 34
    assert [one.case.id for one in cases()] == [p.stem for p in sorted(INVENTED.glob("*"))]
    assert all(one.profile for one in cases())


def test_every_family_of_the_benchmark_is_there_and_the_common_ones_more_often() -> None:
    families = Counter(one.case.family for one in cases())
    assert set(families) == COVERED | {NO_DISORDER}
    assert len(COVERED) == 16
    for common in ("Anxiety/fear", "Mood", "OC-related", NO_DISORDER):
        assert families[common] >= 3, common


def test_codes_and_titles_are_those_of_the_classification() -> None:
    path = DATA / "icd11_ch06_base_codes.tsv"
    if not path.exists():
        pytest.skip("shared/data/icd11_ch06_base_codes.tsv is not beside this checkout")
    with path.open(encoding="utf-8") as file:
        rows = {row["code"]: row for row in csv.DictReader(file, delimiter="\t")}
    for code, row in rows.items():
        assert FAMILIES[code[:3]] == row["family"], code
    assert {row["family"] for row in rows.values() if row["mentaldx_n"] != "0"} == COVERED
    for one in cases():
        for reference in one.case.references:
            assert reference.name == rows[reference.code]["title"], one.case.id


def test_people_of_both_sexes_and_all_adult_ages_are_there() -> None:
    sexes = Counter(one.case.sex for one in cases())
    assert min(sexes["female"], sexes["male"]) >= 0.4 * len(cases())
    ages = [one.case.age or 0 for one in cases()]
    assert min(ages) in range(18, 21)
    assert max(ages) in range(75, 81)
    assert {age // 10 for age in ages} == {1, 2, 3, 4, 5, 6, 7, 8}
    assert len({profile(one).demographics.name for one in cases()}) == len(cases())


def test_several_cases_hold_a_danger_and_every_kind_of_it_occurs() -> None:
    states = [state for one in cases() for state in profile(one).safety.states]
    assert {domain for domain, state in states if state.concern} == {
        "self_harm",
        "harm_to_others",
        "vulnerability",
    }
    assert sum(bool(profile(one).safety.concerns) for one in cases()) >= 5
    assert any(state.past and not state.concern for _, state in states)


def test_a_danger_stands_in_the_ledger_and_is_never_volunteered() -> None:
    for one in cases():
        risks = [fact for fact in profile(one).facts if fact.kind == "risk"]
        assert not any(fact.disclosure == "spontaneous" for fact in risks), one.case.id
        for domain in profile(one).safety.concerns:
            told = [fact for fact in risks if fact.safety == domain and fact.state == "present"]
            assert told, (one.case.id, domain)
            assert all(fact.known for fact in told)


def test_quotes_stand_word_for_word_in_the_record() -> None:
    for one in cases():
        text = " ".join(one.case.text.split())
        for _, quote in profile(one).safety.quotes:
            assert " ".join(quote.split()) in text, one.case.id


def test_facts_are_disclosed_at_every_level() -> None:
    for one in cases():
        facts = profile(one).facts
        assert 10 <= len(facts) <= 14, one.case.id
        assert {fact.disclosure for fact in facts} == set(get_args(Disclosure)), one.case.id
    levels = Counter(fact.disclosure for one in cases() for fact in profile(one).facts)
    assert levels["spontaneous"] < 0.2 * levels.total()


def test_something_argues_against_or_stays_open_in_every_person() -> None:
    for one in cases():
        states = {fact.state for fact in profile(one).facts}
        assert "uncertain" in states, one.case.id
    denying = [one for one in cases() if any(f.state == "denied" for f in profile(one).facts)]
    assert len(denying) >= 0.8 * len(cases())


def test_no_two_facts_of_a_person_are_heard_by_the_same_words_only() -> None:
    for one in cases():
        for first, second in combinations(profile(one).known, 2):
            assert set(first.topics) != set(second.topics), (one.case.id, first.id, second.id)


def test_what_only_a_clinician_knows_has_no_words() -> None:
    hidden = [fact for one in cases() for fact in profile(one).facts if not fact.known]
    assert hidden
    assert not any(fact.says or fact.topics for fact in hidden)


def test_no_text_names_the_disorder() -> None:
    for one in cases():
        played = profile(one)
        names = [reference.name for reference in one.case.references]
        codes = [reference.code for reference in one.case.references]
        parts = (said(one), *played.narrative, *(fact.text for fact in played.facts))
        guided = (state.guidance for _, state in played.safety.states)
        text = folded("\n".join((*parts, *guided, played.manner.talk, played.manner.traits)))
        joined = text.replace(" ", "")
        for name in (*names, *codes):
            assert folded(name).replace(" ", "") not in joined, (one.case.id, name)
        found = NAMED.search(text)
        assert not found, (one.case.id, found)


def test_the_record_itself_gives_no_code_or_title() -> None:
    for one in cases():
        text = folded(one.case.text)
        for reference in one.case.references:
            assert folded(reference.name) not in text, one.case.id
            assert reference.code.casefold() not in text, one.case.id
        assert "icd" not in re.findall(r"\w+", text)


def test_no_two_cases_are_alike() -> None:
    texts = {
        "records": {one.case.id: one.case.text for one in cases()},
        "what is said": {one.case.id: said(one) for one in cases()},
        "narratives": {one.case.id: "\n".join(profile(one).narrative) for one in cases()},
    }
    for what, by_case in texts.items():
        index, first, second = closest(by_case)
        assert index < 0.15, (what, first, second)


def test_every_profile_says_that_it_is_by_hand_and_that_nobody_reviewed_it() -> None:
    for one in cases():
        assert profile(one).provenance == "written by hand"
        assert profile(one).reviewed_by is None


def test_a_case_that_is_written_out_is_read_back_the_same(tmp_path: Path) -> None:
    for one in cases():
        path = tmp_path / f"{one.case.id}.yaml"
        content = one.model_dump(mode="json")
        path.write_text(yaml.safe_dump(content, allow_unicode=True), encoding="utf-8")
        assert load_cases(path) == (one,)


def test_one_file_is_read_like_a_folder_of_one(tmp_path: Path) -> None:
    path = changed(tmp_path, lambda content: None)
    assert load_cases(path) == load_cases(tmp_path)


def test_a_quote_that_is_not_in_the_record_is_refused(tmp_path: Path) -> None:
    def change(content: Any) -> None:
        content["profile"]["safety"]["self_harm"]["quote"] = "nowhere written"

    line = refused(changed(tmp_path, change))
    assert "case-005.yaml" in line
    assert "safety.self_harm: the quote does not stand in the case's text" in line


@pytest.mark.parametrize(
    ("place", "value", "expected"),
    [
        (("profile", "case"), "case-999", "the profile's case is case-999, the case's case-005"),
        (("profile", "demographics", "age"), 51, "the profile's age is 51, the case's 52"),
        (("profile", "facts", 1, "id"), "F09", "profile: fact 2 has the id F09"),
        (("profile", "facts", 0, "says"), "", "facts[0]: topics and says belong to what"),
        (("profile", "facts", 12, "says"), "Aye", "facts[12]: topics and says belong to what"),
        (("profile", "facts", 0, "topics"), ["Low"], "facts[0]: topics are written in lower case"),
        (("profile", "facts", 0, "mood"), 1, "profile.facts[0].mood: extra inputs"),
        (("profile", "facts", 6, "origin"), "elaboration", "facts[6]: nothing of kind risk may be"),
        (("profile", "facts", 6, "safety"), None, "safety.self_harm: no fact tells what the"),
        (("case", "references", 0, "code"), "F32", "case.references[0].code: no base code"),
        (("case", "id"), "five", "case.id: string should match pattern"),
    ],
)
def test_what_does_not_fit_is_named_in_one_line(
    tmp_path: Path, place: tuple[Any, ...], value: object, expected: str
) -> None:
    def change(content: Any) -> None:
        for part in place[:-1]:
            content = content[part]
        content[place[-1]] = value

    line = refused(changed(tmp_path, change))
    assert line.startswith(str(tmp_path))
    assert expected in line


def test_a_danger_that_nobody_holds_needs_words_of_denial(tmp_path: Path) -> None:
    def change(content: Any) -> None:
        del content["profile"]["denials"]["harm_to_others"]

    assert "denials.harm_to_others: field required" in refused(changed(tmp_path, change))


@pytest.mark.parametrize(
    "state",
    [
        {"concern": True, "quote": "He wept.", "guidance": "Says so."},
        {"concern": True, "timing": "recent", "guidance": "Says so."},
        {"quote": "He wept.", "timing": "recent", "guidance": "Says so."},
        {"timing": "recent"},
        {"past": "He wept once."},
    ],
)
def test_a_concern_is_whole_or_is_none(state: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"a concern needs|needs guidance"):
        SafetyState.model_validate(state)


@pytest.mark.parametrize("code", ["6B0", "6b00", "6B00.1", "7B00", "6B10", ""])
def test_a_reference_is_a_base_code_of_the_chapter(code: str) -> None:
    with pytest.raises(ValueError, match="no base code"):
        Reference(code=code, name="Something")


def test_only_experience_and_function_may_be_added_to_a_case() -> None:
    fact = profile(cases()[0]).facts[0].model_dump()
    assert Fact.model_validate(fact | {"origin": "elaboration"}).kind == "symptom"
    with pytest.raises(ValueError, match="nothing of kind history"):
        Fact.model_validate(fact | {"origin": "elaboration", "kind": "history"})


def test_malformed_yaml_and_empty_folders_are_one_line(tmp_path: Path) -> None:
    assert "no case (*.yaml) lies in this folder" in refused(tmp_path)
    path = tmp_path / "case-001.yaml"
    path.write_text("case: [\n  id: 1\nprofile: }", encoding="utf-8")
    assert re.search(r"case-001\.yaml: line \d+ ", refused(tmp_path))
    path.write_text("just words", encoding="utf-8")
    assert "case-001.yaml: the file: " in refused(path)
    assert "cannot be read" in refused(tmp_path / "gone.yaml")


def test_the_same_case_twice_is_refused(tmp_path: Path) -> None:
    path = changed(tmp_path, lambda content: None)
    (tmp_path / "copy.yaml").write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    assert refused(tmp_path).endswith("case-005 stands in it twice")


def test_a_record_becomes_a_case_without_a_profile(tmp_path: Path) -> None:
    (one,) = load_cases(jsonl(tmp_path, ROW))
    assert one.profile is None
    case = one.case
    assert (case.id, case.sex, case.age, case.family) == ("case-7", "female", 31, "Anxiety/fear")
    assert case.references == (Reference(code="6B03", name="Specific phobia"),)
    assert (case.text, case.category) == (ROW["input"], ROW["diagnostic_category"])
    assert case.source == "records.jsonl"


def test_a_record_may_hold_a_subcode_no_disorder_or_no_age(tmp_path: Path) -> None:
    path = jsonl(
        tmp_path,
        ROW | {"code": "6A70.3"},
        ROW | {"id": "8", "code": "", "English_disease_name": "", "input": "Sleeps badly."},
    )
    first, second = load_records(path)
    assert first.references[0].code == "6A70"
    assert (second.references, second.family) == ((), NO_DISORDER)
    assert (second.sex, second.age) == (None, None)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({k: v for k, v in ROW.items() if k != "code"}, ["code: field required"]),
        (ROW | {"note": "x"}, ["note: extra inputs are not permitted"]),
        (
            {k: v for k, v in ROW.items() if k != "English_disease_name"} | {"a": 1, "b": 2},
            ["English_disease_name: field required", "a: extra", "b: extra"],
        ),
        (ROW | {"id": 7}, ["id: input should be a valid string, not 7"]),
        (ROW | {"code": "F40"}, ["code: no code of ICD-11's chapter 6, not 'F40'"]),
        (ROW | {"id": "a b"}, ["id: string should match pattern"]),
        ([1], ["the file: input should be"]),
    ],
)
def test_a_wrong_record_is_one_line_that_names_every_field(
    tmp_path: Path, row: Any, expected: list[str]
) -> None:
    line = refused(jsonl(tmp_path, ROW, row))
    assert line.startswith(f"{tmp_path / 'records.jsonl'}: line 2: ")
    for part in expected:
        assert part in line


def test_a_file_that_is_no_json_or_empty_or_twice_the_same_is_one_line(tmp_path: Path) -> None:
    path = jsonl(tmp_path, ROW, ROW)
    assert refused(path).endswith("case-7 stands in it twice")
    path.write_text("\n", encoding="utf-8")
    assert refused(path).endswith("holds no record")
    path.write_text(json.dumps(ROW) + "\n\n{'id': 1}\n", encoding="utf-8")
    assert refused(path).endswith("line 3: is no JSON")


def test_the_example_shows_the_form_that_the_schema_describes() -> None:
    path = ROOT / "conf" / "cases" / "example.jsonl"
    (one,) = load_cases(path)
    assert (one.case.sex, one.case.age, one.case.family) == ("male", 42, "Anxiety/fear")
    schema = CaseRow.model_json_schema()
    assert set(schema["required"]) == set(json.loads(path.read_text(encoding="utf-8")))
    assert schema["additionalProperties"] is False
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert json.loads(readme.partition("```json\n")[2].partition("```")[0]) == schema


def test_the_benchmarks_own_records_are_read() -> None:
    path = DATA / "mentaldx_dev.jsonl"
    if not path.exists():
        pytest.skip("shared/data/mentaldx_dev.jsonl is not beside this checkout")
    records = load_records(path)
    assert len(records) == 146
    assert len({case.references[0].code for case in records}) == 76
    assert {case.family for case in records} == COVERED
    assert all(case.sex for case in records)
    assert sum(case.age is not None for case in records) >= 140
