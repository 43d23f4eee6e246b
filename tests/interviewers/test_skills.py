"""The skills: a whole catalogue of texts that differ, and a folder that is refused in one line."""

import re
from collections import Counter
from itertools import combinations
from pathlib import Path

import pytest

from src.errors import InputError
from src.interviewers.skills import HEADINGS, Skill, Skills

CATALOGUE = Skills("prompts/skills")
FAMILIES = {
    "session_framing": 8,
    "rapport_emotion": 7,
    "disclosure_guardedness": 8,
    "symptom_timeline": 8,
    "risk_safety": 7,
    "differential_rule_outs": 8,
    "communication_adaptation": 7,
    "context_development": 7,
}
CONDITIONS = re.compile(
    r"depress|bipolar|mania|manic|schizo|psycho|delusion|hallucin|obsess|compuls|ocd|phobi|adhd|"
    r"autis|ptsd|dement|anorex|bulimi|borderline|addict|disorder|syndrome|diagnos|symptom",
    re.IGNORECASE,
)
GOOD = """---
title: A pause
when: Nothing was said for a while.
reviewed_by: null
---
## When to use
Now.

## What to do
Wait.

## What to avoid
Haste.
"""

each_skill = pytest.mark.parametrize("skill", CATALOGUE.skills, ids=lambda skill: skill.id)


def lines_to_say(skill: Skill) -> list[str]:
    """Return the wordings that a skill offers for use, which stand in double quotes."""
    return re.findall(r'"([^"]*)"', skill.text)


def five_grams(text: str) -> set[tuple[str, ...]]:
    words = re.findall(r"\w+", text.lower())
    return set(zip(*(words[n:] for n in range(5)), strict=False))


def folder_with(tmp_path: Path, text: str, place: str = "rapport/pause.md") -> Path:
    path = tmp_path / "skills" / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return tmp_path / "skills"


def test_there_are_sixty_skills_in_eight_families() -> None:
    assert Counter(skill.family for skill in CATALOGUE.skills) == FAMILIES
    assert len(set(CATALOGUE.ids)) == 60


def test_no_two_skills_say_the_same() -> None:
    grams = {skill.id: five_grams(skill.text) for skill in CATALOGUE.skills}
    for one, other in combinations(grams, 2):
        a, b = grams[one], grams[other]
        assert len(a & b) < 0.15 * len(a | b), (one, other)
    texts = [(skill.title.lower(), skill.when.lower()) for skill in CATALOGUE.skills]
    assert len({title for title, _ in texts}) == len({when for _, when in texts}) == 60


@each_skill
def test_a_skill_has_three_headings_and_something_to_say(skill: Skill) -> None:
    assert tuple(re.findall(r"^#.*$", skill.text, re.MULTILINE)) == HEADINGS
    assert len(skill.text.split()) >= 80
    assert len(skill.when) < 140


@each_skill
def test_a_wording_to_say_asks_one_thing_and_names_no_condition(skill: Skill) -> None:
    assert skill.text.count('"') % 2 == 0
    assert lines_to_say(skill)
    for line in lines_to_say(skill):
        assert line.count("?") <= 1
        assert not CONDITIONS.search(line)


@each_skill
def test_a_skill_sends_on_only_to_skills_that_exist(skill: Skill) -> None:
    assert set(re.findall(r"`([^`]+)`", skill.text)) <= set(CATALOGUE.ids) - {skill.id}


def test_every_skill_about_danger_knows_the_safety_stop() -> None:
    for skill in CATALOGUE.skills:
        if skill.family == "risk_safety":
            assert "safety stop" in " ".join(skill.text.split()), skill.id


def test_the_index_has_one_line_a_skill_under_its_family() -> None:
    families: dict[str, list[str]] = {}
    for block in CATALOGUE.index.split("\n\n"):
        family, *lines = block.splitlines()
        families[family.removesuffix(":")] = lines
    assert {family: len(lines) for family, lines in families.items()} == FAMILIES
    for skill in CATALOGUE.skills:
        assert f"- {skill.id}: {skill.title} | {skill.when}" in families[skill.family]


def test_a_text_ends_with_who_reviewed_it(tmp_path: Path) -> None:
    assert CATALOGUE.text("taboo_thoughts").endswith("\n\nNo clinician reviewed this.")
    reviewed = folder_with(tmp_path, GOOD.replace("null", "Dr. A. Example"))
    text = Skills(reviewed).text("pause")
    assert text.endswith("\n\nReviewed by Dr. A. Example.")
    assert text.startswith("## When to use\nNow.")


def test_the_nearest_ids_are_near_and_exist() -> None:
    assert CATALOGUE.nearest("Guarded_short_answer")[0] == "guarded_short_answers"
    for wrong in ("", "zzz", "§" * 100_000, "a\nb"):
        assert len(CATALOGUE.nearest(wrong)) == 3
        assert set(CATALOGUE.nearest(wrong)) <= set(CATALOGUE.ids)


def test_an_unknown_id_has_no_text() -> None:
    with pytest.raises(KeyError):
        CATALOGUE.text("no_such_skill")


def test_files_that_a_system_hides_in_a_folder_are_no_skills(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, GOOD)
    folder_with(tmp_path, "", ".DS_Store")
    folder_with(tmp_path, "", "rapport/.pause.md.swp")
    assert Skills(folder).ids == ("pause",)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (GOOD, "", "must begin with front matter"),
        ("---\ntitle", "title", "must begin with front matter"),
        ("null\n---", "null", "must begin with front matter"),
        ("title: A pause", "title: [", "the front matter is no YAML"),
        ("title: A pause", "title: a: b", "the front matter is no YAML"),
        ("title: A pause", "title: 2026-13-45", "the front matter is no YAML"),
        ("title: A pause\n", "", "title: field required"),
        ("title: A pause", "title: 7", "title: "),
        ("when: Nothing was said for a while.", 'when: " "', "when: "),
        ("when: Nothing was said for a while.", "when: |\n  one\n  two", "when: "),
        ("reviewed_by: null\n", "", "reviewed_by: field required"),
        ("reviewed_by: null", "reviewed_by: ''", "reviewed_by: "),
        ("reviewed_by: null", "reviewed_by: null\nid: other", "id: "),
        ("title: A pause\nwhen: Nothing was said for a while.\nreviewed_by: null", "- a", "file"),
        ("## What to do\nWait.\n", "", "text: the headings must be"),
        ("## What to do", "## What one does", "text: the headings must be"),
        ("## When to use", "Something.\n## When to use", "text: the headings must be"),
        ("Haste.", "Haste.\n## More\nText.", "text: the headings must be"),
        ("Haste.", "", "text: nothing stands under '## What to avoid'"),
    ],
)
def test_a_malformed_skill_is_refused_in_one_line_with_its_file(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    assert old in GOOD
    folder = folder_with(tmp_path, GOOD.replace(old, new))
    with pytest.raises(InputError) as refused:
        Skills(folder)
    line = str(refused.value)
    assert f"rapport/pause.md: {said}" in line or (said == "file" and "pause.md: the file" in line)
    assert "\n" not in line


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("pause_2.md", "a skill lies in the folder of its family"),
        ("rapport/notes.txt", "is no skill"),
        ("rapport/deep/pause_2.md", "is no skill"),
        ("rapport/Pause.md", "id: "),
        ("rapport/a-pause.md", "id: "),
        ("Rap port/pause_2.md", "family: "),
        ("trust/pause.md", "rapport/pause.md has this id already"),
        ("trust/.hidden", "holds no skill"),
    ],
)
def test_a_file_out_of_place_is_refused_in_one_line(tmp_path: Path, place: str, said: str) -> None:
    folder_with(tmp_path, GOOD)
    with pytest.raises(InputError, match=re.escape(said)) as refused:
        Skills(folder_with(tmp_path, GOOD, place))
    assert "\n" not in str(refused.value)


def test_a_skill_that_is_no_text_is_refused(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, GOOD)
    (folder / "rapport" / "pause.md").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="not UTF-8"):
        Skills(folder)


@pytest.mark.parametrize("folder", ["", "no/such/folder", "prompts/canary.md", "empty"])
def test_a_folder_without_skills_is_refused(tmp_path: Path, folder: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError):
        Skills(tmp_path / folder if folder == "empty" else folder)
