"""The ICD-11 reference: every promised code, told apart from its neighbours, found by any form."""

import csv
import itertools
import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from src.clinical.icd11 import Reference, base
from src.errors import InputError

ROOT = Path(__file__).resolve().parents[2]
FOLDER = "prompts/icd11"
TITLES = ROOT.parent / "shared" / "data" / "icd11_ch06_base_codes.tsv"
MENTALDX = """
6A00 6A02 6A03 6A04 6A05 6A06 6A20 6A21 6A22 6A23 6A24 6A40 6A41 6A60 6A61 6A62 6A70 6A71 6A72
6A73 6B00 6B01 6B02 6B03 6B04 6B05 6B06 6B20 6B21 6B22 6B23 6B24 6B25 6B40 6B41 6B42 6B43 6B60
6B61 6B62 6B63 6B64 6B66 6B80 6B81 6B82 6B83 6B84 6B85 6C01 6C20 6C40 6C41 6C44 6C46 6C47 6C49
6C4D 6C4E 6C4F 6C4G 6C50 6C51 6C90 6C91 6D10 6D70 6D71 6D72 6D81 6D83 6D84 6D85 6D86 6E20 6E21
"""
FURTHER = """
6A01 6B44 6B45 6B65 6C00 6C21 6C42 6C43 6C45 6C48 6C4A 6C4B 6C4C 6C70 6C71 6C72 6C73 6D80 6D82
6E60 6E61 6E62 6E63 6E64 6E65 6E66 6E67 6E68 6E69
"""
ALIKE = 0.15
"""Jaccard of word-5-grams from which two entries would be called filler."""


@pytest.fixture(scope="module")
def reference() -> Reference:
    return Reference(FOLDER)


@pytest.fixture(scope="module")
def official() -> dict[str, dict[str, str]]:
    if not TITLES.exists():
        pytest.skip("../shared/data is absent: titles are compared where the list of codes is")
    with TITLES.open(encoding="utf-8", newline="") as file:
        return {row["code"]: row for row in csv.DictReader(file, delimiter="\t")}


def minimal(**changes: object) -> dict[str, object]:
    """Return a family of two entries that are each other's neighbours, as a file would say it."""

    def entry(number: int) -> dict[str, object]:
        others = [{"code": f"6A0{n}", "note": "differs"} for n in range(3) if n != number]
        return {
            "title": f"Title {number}",
            "essential": ["one", "two", "three"],
            "threshold": "a month",
            "exclusions": ["a drug"],
            "boundaries": others,
            "reviewed_by": None,
        }

    family: dict[str, object] = {
        "family": "Mood",
        "title": "Mood disorders",
        "definition": "Moods.",
        "source": "project summary",
        "entries": {f"6A0{n}": entry(n) for n in range(3)},
        "other_titles": {"6A0Z": "Unspecified"},
    }
    return family | changes


def first(family: dict[str, object], **changes: object) -> dict[str, object]:
    """Return the family with its first entry changed."""
    entries = family["entries"]
    assert isinstance(entries, dict)
    return family | {"entries": entries | {"6A00": entries["6A00"] | changes}}


def written(folder: Path, *families: dict[str, object]) -> Path:
    for family in families:
        name = re.sub(r"\W+", "_", str(family["family"]).casefold())
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(family))
    return folder


def words_of(reference: Reference, code: str) -> list[str]:
    entry = reference.entry(code)
    notes = (boundary.note for boundary in entry.boundaries)
    text = " ".join([*entry.essential, entry.threshold, *entry.exclusions, *notes])
    return re.findall(r"\w+", text.casefold())


def test_every_promised_code_has_an_entry(reference: Reference) -> None:
    assert len(MENTALDX.split()) == 76
    assert sorted({*MENTALDX.split(), *FURTHER.split()} - set(reference.codes)) == []


def test_the_promised_codes_are_those_of_the_bench(official: dict[str, dict[str, str]]) -> None:
    assert [code for code, row in official.items() if int(row["mentaldx_n"])] == MENTALDX.split()
    assert set(FURTHER.split()) <= official.keys()


def test_codes_titles_and_families_are_the_official_ones(
    reference: Reference, official: dict[str, dict[str, str]]
) -> None:
    ours = {code: (reference.title(code), reference.family_of(code)) for code in official}
    assert ours == {code: (row["title"], row["family"]) for code, row in official.items()}
    assert set(reference.codes) <= official.keys()


def test_every_entry_tells_itself_from_two_neighbours_that_exist(reference: Reference) -> None:
    for code in reference.codes:
        entry = reference.entry(code)
        neighbours = {boundary.code for boundary in entry.boundaries}
        assert len(neighbours) == len(entry.boundaries) >= 2, code
        assert neighbours <= set(reference.codes) - {code}, code
        assert len(entry.essential) >= 3, code
        assert entry.threshold, code
        assert entry.exclusions, code


def test_every_entry_says_enough_to_ask_about(reference: Reference) -> None:
    assert [code for code in reference.codes if len(words_of(reference, code)) < 100] == []


def test_no_two_entries_are_alike(reference: Reference) -> None:
    grams = {
        code: {tuple(words[n : n + 5]) for n in range(len(words) - 4)}
        for code in reference.codes
        for words in [words_of(reference, code)]
    }
    alike = [
        (one, other)
        for one, other in itertools.combinations(grams, 2)
        if len(grams[one] & grams[other]) >= ALIKE * len(grams[one] | grams[other])
    ]
    assert alike == []


def test_no_code_is_written_twice_in_a_file(reference: Reference) -> None:
    for name in reference.families:
        lines = (ROOT / FOLDER / f"{name}.yaml").read_text(encoding="utf-8").splitlines()
        keys = [found[1] for line in lines if (found := re.match(r"  [\"']?(6\w{3})[\"']?:", line))]
        assert len(keys) == len(set(keys)), name


def test_a_model_reads_features_threshold_exclusions_and_neighbours(reference: Reference) -> None:
    text = reference.disorder("6B41")
    entry = reference.entry("6B41")
    for part in (*entry.essential, entry.threshold, *entry.exclusions):
        assert part in text
    for boundary in entry.boundaries:
        assert f"{boundary.code} {reference.title(boundary.code)}: {boundary.note}" in text
    assert text.startswith("6B41 Complex post traumatic stress disorder")


def test_every_text_ends_by_saying_what_it_is_not(reference: Reference) -> None:
    texts = [reference.disorder(code) for code in (*reference.codes, "6A2Y")]
    texts += [reference.category(name) for name in reference.families]
    for text in texts:
        last = text.splitlines()[-1]
        assert "No clinician reviewed this" in last
        assert "not WHO text" in last


def test_a_review_is_shown_by_name(tmp_path: Path) -> None:
    reference = Reference(written(tmp_path, first(minimal(), reviewed_by="Dr A. Example")))
    assert "Reviewed by Dr A. Example" in reference.disorder("6A00").splitlines()[-1]
    assert "No clinician reviewed this" in reference.disorder("6A01").splitlines()[-1]


def test_a_category_names_its_members(reference: Reference) -> None:
    text = reference.category("6B20")
    family = reference.families["oc_related"]
    assert family.definition in text
    assert [line for line in text.splitlines() if line.startswith("- ")] == [
        f"- {code} {title}" for code, title in family.titles().items()
    ]
    assert {"6B20", "6B25", "6B2Y", "6B2Z"} <= family.titles().keys()


@pytest.mark.parametrize(
    "name", ["6A70", "6A70.1", "6A8Z", "6A6", "mood", " MOOD ", "Mood disorders"]
)
def test_a_category_is_found_by_code_block_or_name(reference: Reference, name: str) -> None:
    assert reference.category(name).startswith("Mood disorders\n")


def test_an_unknown_category_names_the_families(reference: Reference) -> None:
    with pytest.raises(InputError, match=r"^'weather' is no family .*mood") as refused:
        reference.category("weather")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("code", ["6A70.3", "6a70", " 6A70 ", "6A70.Z", "6A70&XS25", "6A70/6B00"])
def test_an_extension_does_not_change_the_base_code(reference: Reference, code: str) -> None:
    assert base(code) == "6A70"
    assert reference.disorder(code) == reference.disorder("6A70")
    assert reference.title(code) == "Single episode depressive disorder"


@given(st.text())
def test_a_base_code_is_its_own_base(code: str) -> None:
    assert base(base(code)) == base(code)


@pytest.mark.parametrize(
    ("code", "family"),
    [
        ("6A0Y", "Neurodevelopmental"),
        ("6A2Z.1", "Psychotic"),
        ("6A8Y", "Mood"),
        ("6B0Z", "Anxiety/fear"),
        ("6C5Y", "Substance/addictive"),
        ("6E0Z", "Neurocognitive"),
        ("6E6Y", "Secondary"),
    ],
)
def test_a_residual_code_belongs_to_its_block(reference: Reference, code: str, family: str) -> None:
    assert reference.family_of(code) == family


@pytest.mark.parametrize("code", ["6A30", "F32", "", "depression"])
def test_a_code_of_no_family_is_unmapped(reference: Reference, code: str) -> None:
    assert reference.family_of(code) is None


def test_a_residual_code_has_a_title_and_points_to_the_entries(reference: Reference) -> None:
    text = reference.disorder("6B4Z")
    assert text.startswith("6B4Z Disorders specifically associated with stress, unspecified")
    assert "6B40, 6B41, 6B42, 6B43" in text
    assert "6B4Z" not in reference.codes


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("6A74", "6A73"),
        ("6B07", "6B06"),
        ("6A30", "6A24"),
        ("6C4Z9", "6C4G"),
        ("Panic disorders", "6B01"),
        ("bipolar type 1 disorder", "6A60"),
        ("generalized anxiety", "6B00"),
        ("Depression", "6A71"),
        ("PTSD", "6B40"),
        ("ocd", "6B20"),
        ("ADHD", "6A05"),
    ],
)
def test_a_wrong_code_is_answered_with_the_nearest(
    reference: Reference, wrong: str, meant: str
) -> None:
    near = reference.nearest(wrong)
    assert near[0] == meant
    assert len(near) == 3


def test_an_unknown_code_is_refused_in_one_line_with_the_nearest(reference: Reference) -> None:
    for look_up in (reference.disorder, reference.title, reference.entry):
        with pytest.raises(InputError, match="'6A99' is no code of this reference") as refused:
            look_up("6A99")
        assert "\n" not in str(refused.value)
        assert all(code in str(refused.value) for code in reference.nearest("6A99"))


def test_a_refusal_repeats_no_more_than_a_line_of_what_was_asked(reference: Reference) -> None:
    for look_up in (reference.disorder, reference.category):
        with pytest.raises(InputError) as refused:
            look_up("tell me everything\n" * 500)
        assert "\n" not in str(refused.value)
        assert len(str(refused.value)) < 800


@given(st.text(max_size=12))
def test_whatever_a_model_asks_for_gets_three_codes_that_exist(
    reference: Reference, code: str
) -> None:
    near = reference.nearest(code)
    assert set(near) <= set(reference.codes)
    assert len(near) == 3


@pytest.mark.parametrize(
    ("family", "line"),
    [
        (minimal() | {"colour": "red"}, r"mood\.yaml: colour: "),
        (minimal(title=" "), r"mood\.yaml: title: "),
        (minimal(source="WHO"), r"mood\.yaml: source: .*project summary"),
        (minimal(other_titles={"6A00": "Again"}), r"mood\.yaml: .*6A00 stands in entries and"),
        (minimal(other_titles={"F32": "Other book"}), r"mood\.yaml: other_titles\.F32"),
        (first(minimal(), essential=["one", "two"]), r"mood\.yaml: entries\.6A00\.essential: "),
        (first(minimal(), threshold=""), r"mood\.yaml: entries\.6A00\.threshold: "),
        (first(minimal(), title=None), r"mood\.yaml: entries\.6A00\.title: "),
        (first(minimal(), exclusions=[]), r"mood\.yaml: entries\.6A00\.exclusions: "),
        (
            first(minimal(), boundaries=[{"code": "6A01", "note": "differs"}]),
            r"mood\.yaml: entries\.6A00\.boundaries: ",
        ),
        (
            first(minimal(), boundaries=[{"code": c, "note": "x"} for c in ("6A01", "6B01")]),
            r"mood\.yaml: entries\.6A00\.boundaries\[1\]\.code: 6B01 has no entry",
        ),
        (
            first(minimal(), boundaries=[{"code": c, "note": "x"} for c in ("6A00", "6A01")]),
            r"mood\.yaml: entries\.6A00\.boundaries\[0\]\.code: 6A00 is the entry itself",
        ),
    ],
)
def test_a_malformed_family_is_refused_in_one_line(
    tmp_path: Path, family: dict[str, object], line: str
) -> None:
    with pytest.raises(InputError, match=line) as refused:
        Reference(written(tmp_path, family))
    assert "\n" not in str(refused.value)


def test_a_missing_title_is_refused_in_one_line(tmp_path: Path) -> None:
    family = minimal()
    del family["title"]
    with pytest.raises(InputError, match=r"mood\.yaml: title: field required$"):
        Reference(written(tmp_path, family))


def test_a_family_stands_in_the_file_of_its_name(tmp_path: Path) -> None:
    written(tmp_path, minimal())
    (tmp_path / "mood.yaml").rename(tmp_path / "sadness.yaml")
    with pytest.raises(InputError, match=r"sadness\.yaml: the family Mood belongs in mood\.yaml"):
        Reference(tmp_path)


def test_two_families_do_not_share_a_block(tmp_path: Path) -> None:
    written(tmp_path, minimal(), minimal(family="Anxiety/fear"))
    with pytest.raises(InputError, match=r"mood\.yaml: codes in 6A0 belong to Anxiety/fear"):
        Reference(tmp_path)


def test_a_folder_without_families_is_refused(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "absent"):
        with pytest.raises(InputError, match="is no folder with family files"):
            Reference(folder)
