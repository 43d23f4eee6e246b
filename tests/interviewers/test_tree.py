"""The dialogue tree: what the loader refuses, which branch a reply takes, what is offered when."""

import re
import time
from pathlib import Path
from typing import Any, Literal, get_args

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import RootModel

from src.clinical.bdi import ASSESSABLE
from src.clinical.text import marked_words
from src.errors import InputError
from src.interviewers.tree import DialogueTree, Opener, as_printed, best_match
from src.prompts import load_yaml, located
from src.records import Answer, Guidance, Question, Record, StopReason, Turn

TREE = "trees/screening.yaml"
REPLIES = Path(__file__).parent / "replies.yaml"


Kind = Literal["affirming", "denying", "mixed", "empty", "deflecting", "emoji", "stage direction"]


class Labelled(Record):
    """One invented reply and the branch that it calls for."""

    opener: str
    kind: Kind
    expected: str
    reply: str


class LabelledFile(RootModel[tuple[Labelled, ...]]):
    """All labelled replies."""


LABELLED = load_yaml(REPLIES, LabelledFile).root
SCREENING = DialogueTree(TREE)
PRINTED = DialogueTree(TREE, bm25="okapi")
ON_DEMAND = Guidance(text="", focus=ASSESSABLE)


def turn(number: int, question: Question, reply: str) -> Turn:
    return Turn(number=number, question=question, answer=Answer(text=reply))


def tree_turns(*nodes: str, reply: str = "") -> list[Turn]:
    """Return turns in which these nodes were asked; every reply is the same."""
    return [
        turn(n, Question(text=node, source=f"tree:{node}"), reply)
        for n, node in enumerate(nodes, 1)
    ]


def hold(tree: DialogueTree, replies: list[str], focuses: list[tuple[int, ...]]) -> list[Turn]:
    """Let the tree ask as long as it has a line; where it has none, someone else asks."""
    turns: list[Turn] = []
    for n, (reply, focus) in enumerate(zip(replies, focuses, strict=False), 1):
        line = tree.next_line(turns, Guidance(text="", focus=focus))
        turns.append(turn(n, line or Question(text=f"And {n}?", source="model"), reply))
    return turns


def raw() -> Any:
    return yaml.safe_load(located(TREE).read_text(encoding="utf-8"))


@pytest.fixture
def refusal(tmp_path: Path) -> Any:
    """Return a function that writes a changed tree and returns the loader's one line."""

    def of(change: Any) -> str:
        content = raw()
        change(content)
        path = tmp_path / "bent.yaml"
        path.write_text(yaml.safe_dump(content), encoding="utf-8")
        with pytest.raises(InputError) as caught:
            DialogueTree(path)
        line = str(caught.value)
        assert "\n" not in line
        assert line.startswith(f"{path}: ")
        return line.removeprefix(f"{path}: ")

    return of


# The tree that is shipped ----------------------------------------------------------------------


def test_the_tree_has_the_papers_shape() -> None:
    branches = [branch for opener in SCREENING.openers for branch in opener.follow_ups]
    assert len({opener.cluster for opener in SCREENING.openers}) == 7
    assert len(SCREENING.openers) == 12
    assert len(branches) == 17
    assert sum(branch.severity_probe for branch in branches) == 13
    assert sum(branch.branch == "positive" for branch in branches) == 4
    assert sum(len(opener.follow_ups) == 1 for opener in SCREENING.openers) == 7


def test_the_openers_and_the_follow_ups_have_the_papers_targets() -> None:
    assert {opener.id: opener.targets for opener in SCREENING.openers} == {
        "sadness": (1,),
        "anhedonia": (4,),
        "energy": (15, 20),
        "sleep": (16,),
        "appetite": (18,),
        "pessimism": (2,),
        "interest": (12,),
        "concentration": (19, 13),
        "self-worth": (7, 14),
        "crying": (10,),
        "irritability": (17, 11),
        "guilt": (5, 8),
    }
    positive = {
        opener.id: branch.targets
        for opener in SCREENING.openers
        for branch in opener.follow_ups
        if branch.branch == "positive"
    }
    assert positive == {"sadness": (4,), "anhedonia": (2,), "energy": (16,), "crying": (11,)}


def test_guilt_has_two_negative_branches() -> None:
    guilt = SCREENING.openers[-1]
    assert [(branch.id, branch.branch, branch.targets) for branch in guilt.follow_ups] == [
        ("pervasive", "negative", (5,)),
        ("self-criticism", "negative", (8,)),
    ]


def test_every_negative_branch_is_a_severity_probe() -> None:
    for opener in SCREENING.openers:
        for branch in opener.follow_ups:
            assert branch.severity_probe == (branch.branch == "negative")


def test_the_openers_cover_the_items_that_may_be_asked_about() -> None:
    targets = sorted(item for opener in SCREENING.openers for item in opener.targets)
    assert targets == sorted(ASSESSABLE)


def test_every_line_is_short_and_speaks_of_nothing_that_must_not_be_asked() -> None:
    lines = [opener.text for opener in SCREENING.openers]
    lines += [branch.text for opener in SCREENING.openers for branch in opener.follow_ups]
    for line in lines:
        assert len(re.findall(r"[.!?](?:\s|$)", line)) <= 3
        assert len(line.split()) <= 40
        assert not re.search(
            r"depress|suicid|\bsex|symptom|disorder|diagnos|clinic|therap|anhedon|insomn|fatigue"
            r"|agitat|irritab|worthless|self-harm|\bdie\b|death|\bkill",
            line.lower(),
        )


# What the loader refuses -----------------------------------------------------------------------


def test_an_item_that_does_not_exist_is_refused(refusal: Any) -> None:
    line = refusal(lambda tree: tree["openers"][0].update(targets=[22]))
    assert line.startswith("openers[0].targets[0]: ")
    assert "not 22" in line


@pytest.mark.parametrize("item", [3, 6, 9, 21])
def test_a_sensitive_item_is_no_target(refusal: Any, item: int) -> None:
    line = refusal(lambda tree: tree["openers"][0]["follow_ups"][1].update(targets=[4, item]))
    assert line.startswith("openers[0].follow_ups[1].targets[1]: must be one of the 17 items")
    assert line.endswith(f"not {item}")


def test_an_opener_without_targets_is_refused(refusal: Any) -> None:
    assert refusal(lambda tree: tree["openers"][3].update(targets=[])).startswith(
        "openers[3].targets: "
    )
    assert refusal(lambda tree: tree["openers"][3].pop("targets")) == (
        "openers[3].targets: field required"
    )


def test_two_openers_of_one_name_are_refused(refusal: Any) -> None:
    assert refusal(lambda tree: tree["openers"][4].update(id="sleep")) == (
        "openers[4].id: 'sleep' names an earlier opener already"
    )


def test_two_branches_of_one_name_are_refused(refusal: Any) -> None:
    assert refusal(lambda tree: tree["openers"][0]["follow_ups"][1].update(id="negative")) == (
        "openers[0].follow_ups[1].id: 'negative' names an earlier branch already"
    )


def test_two_branches_with_the_same_keywords_are_refused(refusal: Any) -> None:
    def change(tree: Any) -> None:
        first, second = tree["openers"][0]["follow_ups"]
        second["keywords"] = list(reversed(first["keywords"]))

    assert refusal(change) == (
        "openers[0].follow_ups[1].keywords: has the keywords of an earlier branch"
    )


def test_two_branches_with_the_same_text_are_refused(refusal: Any) -> None:
    def change(tree: Any) -> None:
        tree["openers"][5]["follow_ups"][0]["text"] = tree["openers"][0]["follow_ups"][0]["text"]

    assert refusal(change) == "openers[5].follow_ups[0].text: is asked elsewhere already"


def test_an_opener_that_repeats_a_line_is_refused(refusal: Any) -> None:
    def change(tree: Any) -> None:
        tree["openers"][5]["text"] = tree["openers"][0]["follow_ups"][0]["text"]

    assert refusal(change) == "openers[5].text: is asked elsewhere already"


def test_a_branch_without_keywords_is_refused(refusal: Any) -> None:
    line = refusal(lambda tree: tree["openers"][6]["follow_ups"][0].update(keywords=[]))
    assert line.startswith("openers[6].follow_ups[0].keywords: ")


@pytest.mark.parametrize("keyword", ["Sad", "in my bed", "*", "", "sad *", False])
def test_a_keyword_that_no_reply_can_meet_is_refused(refusal: Any, keyword: object) -> None:
    line = refusal(lambda tree: tree["openers"][6]["follow_ups"][0].update(keywords=[keyword]))
    assert line.startswith("openers[6].follow_ups[0].keywords[0]: ")


def test_a_keyword_that_another_covers_is_refused(refusal: Any) -> None:
    line = refusal(
        lambda tree: tree["openers"][0]["follow_ups"][0].update(keywords=["low", "sad*", "sadly"])
    )
    assert line == (
        "openers[0].follow_ups[0].keywords[2]: 'sadly' is covered by another keyword of this branch"
    )


def test_clusters_stand_in_order(refusal: Any) -> None:
    def change(tree: Any) -> None:
        tree["openers"][1], tree["openers"][2] = tree["openers"][2], tree["openers"][1]

    assert refusal(change) == "openers[2].cluster: must come before Physical"


def test_a_cluster_that_does_not_exist_is_refused(refusal: Any) -> None:
    line = refusal(lambda tree: tree["openers"][1].update(cluster="Mood"))
    assert line.startswith("openers[1].cluster: must be one of: Mood & Pleasure; ")


def test_a_target_outside_the_cluster_is_refused(refusal: Any) -> None:
    assert refusal(lambda tree: tree["openers"][2].update(targets=[15, 20, 1])) == (
        "openers[2].targets[2]: item 1 is not in the cluster Physical"
    )


def test_a_severity_probe_stays_with_its_openers_targets(refusal: Any) -> None:
    assert refusal(lambda tree: tree["openers"][3]["follow_ups"][0].update(targets=[18])) == (
        "openers[3].follow_ups[0].targets: must stay with the opener's targets"
    )


def test_an_unknown_key_is_refused(refusal: Any) -> None:
    line = refusal(lambda tree: tree["openers"][3]["follow_ups"][0].update(weight=2))
    assert line.startswith("openers[3].follow_ups[0].weight: ")


def test_a_line_asks_exactly_one_question(refusal: Any) -> None:
    for text in ("How are you? And at home?", "Tell me about it.", "How so? I wonder."):
        line = refusal(lambda tree, text=text: tree["openers"][0].update(text=text))
        assert line.startswith("openers[0].text: must ask exactly one question, at its end")


def test_the_greeting_asks_nothing(refusal: Any) -> None:
    assert refusal(lambda tree: tree.update(greeting="Hello, how are you?")).startswith("greeting:")


def test_text_where_a_truth_value_belongs_is_refused(refusal: Any) -> None:
    line = refusal(lambda tree: tree["openers"][0]["follow_ups"][0].update(severity_probe="on"))
    assert line.startswith("openers[0].follow_ups[0].severity_probe: ")


# Which branch a reply takes --------------------------------------------------------------------


def taken(tree: DialogueTree, labelled: Labelled) -> str:
    branch = tree.choose(labelled.opener, labelled.reply)
    return branch.id if branch else "no_match"


@pytest.mark.parametrize("labelled", LABELLED, ids=lambda x: f"{x.opener}-{x.kind}-{x.reply[:20]}")
def test_a_labelled_reply_takes_its_branch(labelled: Labelled) -> None:
    assert taken(SCREENING, labelled) == labelled.expected


def test_the_labelled_replies_reach_every_opener_and_every_branch() -> None:
    assert len(LABELLED) >= 60
    assert {x.opener for x in LABELLED} == {opener.id for opener in SCREENING.openers}
    assert {x.kind for x in LABELLED} == set(get_args(Kind))
    reached = {(x.opener, x.expected) for x in LABELLED}
    for opener in SCREENING.openers:
        assert {branch.id for branch in opener.follow_ups} <= {
            expected for name, expected in reached if name == opener.id
        }
        assert (opener.id, "no_match") in reached


def test_okapi_takes_the_wrong_branch_for_many_labelled_replies() -> None:
    wrong = [x for x in LABELLED if taken(PRINTED, x) != x.expected]
    reversed_ = [x for x in wrong if x.expected != "no_match"]
    assert len(wrong) >= 10
    assert reversed_  # not only a branch where there should be none, but the opposite one


def test_okapi_takes_a_branch_whatever_was_said() -> None:
    for labelled in LABELLED:
        assert taken(PRINTED, labelled) != "no_match"


def test_okapi_depends_on_the_order_of_the_branches() -> None:
    branches = SCREENING.openers[0].follow_ups
    reply = "Splendid, no complaints lately."
    assert as_printed(branches, reply) != as_printed(branches[::-1], reply)


def test_a_tie_is_no_match() -> None:
    assert SCREENING.choose("sadness", "good and sad") is None


@pytest.mark.parametrize(
    ("opener", "reply"),
    [("energy", "low, weak, active, loads"), ("guilt", "again, nonstop, shame, wrong")],
)
def test_a_tie_is_no_match_in_whichever_order_the_scores_were_summed(
    opener: str, reply: str
) -> None:
    assert SCREENING.choose(opener, reply) is None


def test_the_branch_with_more_of_its_words_wins() -> None:
    branch = SCREENING.choose("sadness", "good, sad, lonely")
    assert branch is not None
    assert branch.id == "negative"


def test_a_word_said_often_counts_once() -> None:
    assert SCREENING.choose("sadness", "good, sad, sad, sad, sadness") is None


@pytest.mark.parametrize(
    "reply",
    ["", " ", "?!...", "🙂", "\n\n", "'", "*", "[", "¿", "123", "不知道", "*sighs*", "-", "’’’"],
)
def test_a_reply_without_words_is_no_match_and_breaks_nothing(reply: str) -> None:
    for opener in SCREENING.openers:
        assert SCREENING.choose(opener.id, reply) is None
        assert PRINTED.choose(opener.id, reply) is not None


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("not happy", ["not", "not happy"]),
        ("I can\u2019t sleep", ["i", "can't", "not sleep"]),
        ("no trouble sleeping", ["no", "not trouble", "sleeping"]),
        ("no, fine", ["no", "fine"]),
        ("No I'm fine", ["no", "i'm", "fine"]),
        ("not sad but tired", ["not", "not sad", "tired"]),
        ("I can't stop crying", ["i", "can't", "not stop", "crying"]),
        ("used to laugh", ["used", "not to", "not laugh"]),
        ("I'm used to laughing", ["i'm", "used", "to", "laughing"]),
        ("too tired to laugh", ["too", "tired", "to", "not laugh"]),
        ("lost interest", ["lost", "not interest"]),
        ("I don't know if sad", ["i", "don't"]),
        ("well, fine", ["fine"]),
        ("tears for no reason", ["tears", "for", "not reason"]),
        ("*looks down sadly* fine", ["fine"]),
        ("I'm *so* tired", ["i'm", "so", "tired"]),
        ("[long pause] fine", ["fine"]),
        ("a little sad", ["a", "little", "sad"]),
        ("so little joy", ["so", "little", "not joy"]),
        ("never a b c d e f g h", ["never", *(f"not {w}" for w in "abcdefg"), "h"]),
    ],
)
def test_negation_reaches_as_far_as_its_clause(reply: str, expected: list[str]) -> None:
    assert marked_words(reply) == expected


@given(st.text())
def test_no_text_breaks_the_choice(reply: str) -> None:
    for opener in SCREENING.openers:
        SCREENING.choose(opener.id, reply)
        assert PRINTED.choose(opener.id, reply) in opener.follow_ups


@pytest.mark.parametrize("piece", ["*", "[", " ", "not ", "- ", "to too ", "a'", "*a ", "\n"])
def test_a_very_long_reply_is_read_at_once(piece: str) -> None:
    started = time.perf_counter()
    SCREENING.choose("sadness", piece * 20_000)
    assert time.perf_counter() - started < 2  # quadratic reading takes minutes


REPLY = st.lists(
    st.one_of(
        st.sampled_from(
            sorted(
                {
                    keyword.rstrip("*")
                    for opener in SCREENING.openers
                    for branch in opener.follow_ups
                    for keyword in branch.keywords
                }
            )
        ),
        st.sampled_from(["not", "never", "but", ",", ".", "and", "I", "🙂", "\n"]),
        st.text(max_size=5),
    ),
    max_size=8,
).map(" ".join)


@given(st.sampled_from(SCREENING.openers), REPLY, st.randoms(use_true_random=False))
def test_the_choice_does_not_depend_on_the_order_of_branches_or_keywords(
    opener: Opener, reply: str, random: Any
) -> None:
    branches = list(opener.follow_ups)
    mixed = [
        branch.model_copy(
            update={"keywords": tuple(random.sample(branch.keywords, k=len(branch.keywords)))}
        )
        for branch in branches
    ]
    random.shuffle(mixed)
    said = marked_words(reply)
    found, again = best_match(branches, said), best_match(mixed, said)
    assert (found and found.id) == (again and again.id)


# What is offered when --------------------------------------------------------------------------


def source(turns: list[Turn], focus: tuple[int, ...] = ASSESSABLE) -> str | None:
    line = SCREENING.next_line(turns, Guidance(text="", focus=focus))
    return line.source if line else None


def test_the_first_question_is_the_greeting_and_the_sadness_opener() -> None:
    first = SCREENING.next_line([], Guidance(text=""))
    assert first is not None
    assert first.source == "tree:sadness"
    assert first.focus == (1, 4)
    assert first.text.endswith(SCREENING.openers[0].text)
    assert first.text != SCREENING.openers[0].text
    assert first.text.count("?") == 1


def test_the_greeting_is_said_once() -> None:
    turns = [turn(1, Question(text="Hello!", source="model"), "Hi.")]
    line = SCREENING.next_line(turns, ON_DEMAND)
    assert line is not None
    assert line.text == SCREENING.openers[0].text
    assert line.focus == (1,)


def test_the_follow_up_comes_before_the_next_opener() -> None:
    assert source(tree_turns("sadness", reply="so sad")) == "tree:sadness/negative"
    assert source(tree_turns("sadness", reply="so sad"), focus=(18,)) == "tree:sadness/negative"


def test_a_follow_up_has_its_own_targets() -> None:
    line = SCREENING.next_line(tree_turns("energy", reply="plenty, I feel fit"), ON_DEMAND)
    assert line is not None
    assert line.focus == (16,)


def test_a_follow_up_is_not_followed_up() -> None:
    turns = tree_turns("sadness", "sadness/negative", reply="so sad")
    assert source(turns) == "tree:anhedonia"


def test_without_a_match_the_next_opener_in_the_focus_comes() -> None:
    assert source(tree_turns("sadness", reply="hm"), focus=(18, 2)) == "tree:appetite"
    assert source(tree_turns("sadness", reply="hm"), focus=(18, 16)) == "tree:sleep"


def test_an_opener_outside_the_focus_is_not_asked() -> None:
    assert source(tree_turns("sadness", reply="hm"), focus=()) is None
    assert source(tree_turns("sadness", reply="hm"), focus=(1,)) is None


def test_an_opener_whose_targets_were_asked_by_a_follow_up_is_used_up() -> None:
    assert source(tree_turns("sadness", "sadness/positive"), focus=(4, 18)) == "tree:appetite"
    assert source(tree_turns("anhedonia", "anhedonia/positive"), focus=(2,)) is None
    assert source(tree_turns("energy", "energy/positive"), focus=(16,)) is None


def test_an_opener_with_a_target_left_is_still_asked() -> None:
    turns = tree_turns("crying", "crying/positive")
    assert source(turns, focus=(11, 17)) == "tree:irritability"


def test_a_follow_up_whose_topic_was_asked_by_its_opener_is_left_out() -> None:
    turns = tree_turns("sleep", "energy", reply="plenty, I feel fit")
    assert source(turns, focus=(18,)) == "tree:appetite"


def test_a_question_of_someone_else_uses_nothing_up() -> None:
    asked = Question(text="And your sleep?", source="model", focus=(16,))
    assert source([turn(1, asked, "awake")], focus=(16,)) == "tree:sleep"


def test_an_unknown_node_counts_as_a_turn_and_breaks_nothing() -> None:
    turns = tree_turns("moonlight", "moonlight/full", reply="awake")
    assert source(turns, focus=(16,)) == "tree:sleep"
    assert DialogueTree(TREE, turns_max=2).next_line(turns, ON_DEMAND) is None


def test_the_tree_is_silent_where_guidance_says_stop() -> None:
    stop = Guidance(text="", focus=ASSESSABLE, stop=StopReason.STABLE)
    assert SCREENING.next_line([], stop) is None
    assert SCREENING.next_line(tree_turns("sadness", reply="so sad"), stop) is None


def test_turns_max_counts_openers_and_follow_ups_together() -> None:
    tree = DialogueTree(TREE, turns_max=3)
    turns = hold(tree, ["so sad", "all day", "bored", "hm", "hm"], [ASSESSABLE] * 5)
    assert [t.question.source for t in turns] == [
        "tree:sadness",
        "tree:sadness/negative",
        "tree:anhedonia",
        "model",
        "model",
    ]


def test_on_demand_throughout_the_tree_takes_nearly_all_turns() -> None:
    turns = hold(SCREENING, ["hm"] * 14, [ASSESSABLE] * 14)
    assert [t.question.source for t in turns].count("model") == 2


def test_without_tree_turns_the_tree_never_speaks() -> None:
    assert DialogueTree(TREE, turns_max=0).next_line([], ON_DEMAND) is None


FOCUSES = st.lists(
    st.lists(st.sampled_from(ASSESSABLE), max_size=4, unique=True).map(tuple),
    min_size=20,
    max_size=20,
)
REPLIES_GIVEN = st.lists(REPLY, min_size=20, max_size=20)
AT_MOST = {most: DialogueTree(TREE, turns_max=most) for most in (0, 1, 3, 6)}
RANKINGS = st.sampled_from([SCREENING, PRINTED])


@settings(max_examples=60, deadline=None)
@given(RANKINGS, REPLIES_GIVEN, FOCUSES)
def test_no_line_is_asked_twice(
    tree: DialogueTree, replies: list[str], focuses: list[tuple[int, ...]]
) -> None:
    turns = hold(tree, replies, focuses)
    texts = [t.question.text for t in turns]
    nodes = [t.question.source for t in turns if t.question.source != "model"]
    assert len(set(texts)) == len(texts)
    assert len(set(nodes)) == len(nodes)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(AT_MOST)), REPLIES_GIVEN, FOCUSES)
def test_turns_max_is_respected(
    most: int, replies: list[str], focuses: list[tuple[int, ...]]
) -> None:
    turns = hold(AT_MOST[most], replies, focuses)
    assert sum(t.question.source != "model" for t in turns) <= most


@settings(max_examples=25, deadline=None)
@given(RANKINGS, REPLIES_GIVEN, FOCUSES, st.integers(0, 20))
def test_an_interview_taken_up_again_goes_on_as_if_never_left(
    tree: DialogueTree, replies: list[str], focuses: list[tuple[int, ...]], cut: int
) -> None:
    whole = hold(tree, replies, focuses)
    stored = [Turn.model_validate_json(t.model_dump_json()) for t in whole[:cut]]
    fresh = DialogueTree(TREE, bm25="okapi" if tree is PRINTED else "plus")
    if cut < len(whole):
        line = fresh.next_line(stored, Guidance(text="", focus=focuses[cut]))
        expected = whole[cut].question
        assert (line.source if line else "model") == expected.source
