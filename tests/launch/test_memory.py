"""What a server needs of a card, against figures known from elsewhere, and how one is split."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from personas_on_disk import adapter
from terminal import ROOT

from serving.launch import notes
from serving.lora import find_adapters
from serving.memory import (
    GIB,
    adapter_bytes,
    interviews,
    kv_bytes,
    need,
    running_bytes,
    shares,
    weight_bytes,
)
from serving.settings import ArchitectureSettings, LaunchSettings, ServerSettings
from src import config
from src.errors import InputError
from src.readiness import Longest, longest_prompts
from src.settings import ModelSettings, RunSettings

ROUNDED = 300
"""Tokens by which conf may round the longest interview up."""


def settings(*arguments: str) -> LaunchSettings:
    return config.read_settings("launch", LaunchSettings, arguments)


def server(option: str, name: str, *arguments: str) -> ServerSettings:
    return settings(f"serving={option}", *arguments).servers[name]


def shape(option: str, name: str) -> ArchitectureSettings:
    found = server(option, name).architecture
    assert found is not None
    return found


def longest() -> dict[str, Longest]:
    """Return each role's longest prompt where Gemma scores and the guard limits questions."""
    local = config.read_settings("config", RunSettings, ["experiment=local"])
    rules = yaml.safe_load((ROOT / "prompts" / "guard_rules.yaml").read_text(encoding="utf-8"))
    return longest_prompts(local, words_max=rules["limits"]["words"])


@pytest.mark.parametrize(
    ("option", "name", "parameters"),
    [("gemma", "gemma", 27_009e6), ("personas", "personas", 8_030e6)],  # the makers' cards
)
def test_weights_are_two_bytes_a_parameter(option: str, name: str, parameters: float) -> None:
    assert weight_bytes(shape(option, name)) == pytest.approx(2 * parameters, rel=2e-3)


def test_four_bits_shrink_the_linear_layers_alone() -> None:
    whole, small = shape("gemma", "gemma"), shape("gemma_int4", "gemma")
    embeddings = 262208 * 5376 * 2
    ratio = (weight_bytes(small) - embeddings) / (weight_bytes(whole) - embeddings)
    assert ratio == pytest.approx(4.125 / 16)


def test_llamas_cache_is_linear_and_gemmas_is_not() -> None:
    llama, gemma = shape("personas", "personas"), shape("gemma", "gemma")
    assert kv_bytes(llama, 8192) == 8 * kv_bytes(llama, 1024) == 2**30
    assert kv_bytes(gemma, 1024) == 1024 * 70 * 8192  # 10 full layers, 52 windowed in 6 groups
    assert kv_bytes(gemma, 16384) - kv_bytes(gemma, 1024) == 10 * 8192 * (16384 - 1024)


@pytest.mark.parametrize(("batch", "gib"), [(1024, 2.6636), (4096, 5.4761)])
def test_the_cache_for_a_start_is_what_vllms_own_code_wants(batch: int, gib: float) -> None:
    """The figures come from vLLM 0.32.0; tests/serving asks it again."""
    gemma = server("gemma", "gemma", f"servers.gemma.batch_tokens={batch}")
    assert need(gemma, 0).start / GIB == pytest.approx(gib, rel=3e-3)


def test_an_adapters_buffers_grow_with_rank_and_number() -> None:
    llama = shape("personas", "personas")
    assert adapter_bytes(llama, 16) == 2 * adapter_bytes(llama, 8) == 16 * 32 * 81920 * 2
    one = need(server("personas", "personas", "servers.personas.lora.max_loras=1"), 16)
    assert need(server("personas", "personas"), 16).adapters == 4 * one.adapters


def test_tensor_parallel_divides_weights_and_cache_but_no_overhead() -> None:
    one = need(server("gemma", "gemma"), 0)
    two = need(server("gemma", "gemma", "servers.gemma.tensor_parallel=2"), 0)
    assert (two.weights, two.start) == (one.weights / 2, one.start / 2)
    assert two.overhead == one.overhead


def test_replicas_hold_as_many_interviews_each() -> None:
    def held(replicas: int) -> int:
        gemma = server("gemma", "gemma", f"servers.gemma.replicas={replicas}")
        return interviews(gemma, 0, share=0.92, memory=81000, roles=["interviewer"])

    assert held(2) == 2 * held(1) > 0


def test_both_are_refused_on_a_card_that_is_too_small() -> None:
    with pytest.raises(InputError, match=r"gemma and personas need a card of .* has 65536"):
        shares(settings("serving=both", "card=65536"), {"personas": 16})


def test_servers_that_want_one_card_whole_each_are_refused() -> None:
    whole = [f"servers.{name}.memory=0.92" for name in ("gemma", "personas")]
    with pytest.raises(InputError, match=r"all of card 0 and more.*servers.personas.cards=\[1\]"):
        shares(settings("serving=both", *whole), {"personas": 16})
    apart = [*whole, "servers.gemma.cards=[0]", "servers.personas.cards=[1]"]
    assert shares(settings("serving=both", *apart), {}) == {"gemma": 0.92, "personas": 0.92}


def test_a_server_on_several_cards_shares_none() -> None:
    with pytest.raises(InputError, match=r"servers\.gemma: on several cards it shares none"):
        shares(settings("serving=both", "servers.gemma.replicas=2"), {"personas": 16})


BOTH = settings("serving=both")


@given(card=st.integers(81_000, 300_000), rank=st.sampled_from([8, 16, 64]))
def test_a_split_card_starts_both_and_holds_as_many_interviews_of_each(
    card: int, rank: int
) -> None:
    chosen = BOTH.model_copy(update={"card": card})
    memory = card - chosen.card_reserve
    try:
        found = shares(chosen, {"personas": rank})
    except InputError:
        assert card < 84_000  # what rank 64 takes
        return
    assert sum(found.values()) <= chosen.card_share + 2e-4
    held = []
    for name, one in chosen.servers.items():
        wanted = need(one, rank if one.lora else 0)
        assert found[name] * memory * 2**20 >= wanted.least
        cache = found[name] * memory * 2**20 - wanted.fixed - running_bytes(one)
        assert one.architecture is not None
        each = sum(kv_bytes(one.architecture, tokens) for tokens in one.interview.values())
        held.append(cache / each)
    if min(held) > 2:  # below, what a start takes decides
        assert held[0] == pytest.approx(held[1], rel=0.05)


@given(tokens=st.integers(1, 100_000))
def test_a_longer_sequence_never_takes_less(tokens: int) -> None:
    gemma = BOTH.servers["gemma"].architecture
    assert gemma is not None
    assert kv_bytes(gemma, tokens + 1) > kv_bytes(gemma, tokens)


@pytest.mark.parametrize(
    ("option", "name", "model", "experiment"),
    [
        ("gemma", "gemma", "gemma", "hybrid"),
        ("personas", "personas", "persona", "hybrid"),
        ("cpu", "cpu", "smollm2", "cpu"),
    ],
)
def test_what_is_served_is_what_the_driver_expects(
    option: str, name: str, model: str, experiment: str
) -> None:
    run = config.read_settings("config", RunSettings, [f"experiment={experiment}"])
    expected: ModelSettings = run.models[model]
    served = server(option, name)
    assert (served.context, served.served) == (expected.context, expected.name)
    assert expected.endpoint == name
    if served.architecture is not None:
        form = served.architecture
        token = form.layers * 2 * form.kv_heads * form.head_dim * 2
        assert expected.kv_bytes_per_token == token


@pytest.mark.parametrize(
    ("option", "card", "offered"),
    [("gemma", 40960, True), ("gemma_int4", 16384, False), ("personas", 16384, False)],
)
def test_four_bits_are_offered_to_whom_they_help(option: str, card: int, offered: bool) -> None:
    with pytest.raises(InputError, match="needs") as refused:
        shares(settings(f"serving={option}", f"card={card}"), {})
    assert ("serving=gemma_int4" in str(refused.value)) == offered


def test_int4_is_served_with_the_same_window() -> None:
    assert server("gemma_int4", "gemma").context == server("gemma", "gemma").context


def test_every_window_holds_the_longest_interview_and_conf_says_how_long_it_is() -> None:
    computed = longest()
    for one in BOTH.servers.values():
        for role, tokens in one.interview.items():
            assert computed[role].tokens <= tokens <= computed[role].tokens + ROUNDED
            assert tokens <= one.context


def test_the_window_holds_a_scoring_that_is_sent_back_once() -> None:
    scorer = longest()["scorer"]
    assert scorer.tokens + scorer.answer + ROUNDED <= server("gemma", "gemma").context


def test_a_start_says_how_many_interviews_fit_and_who_shares_buffers(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("adapters")
    for number in range(1, 6):
        adapter(folder, f"persona-{number:02d}", r=16)
    chosen = settings("serving=both", "card=143771")
    found = find_adapters(folder)
    lines = notes(chosen, shares(chosen, {"personas": 16}), found)
    assert (
        "gemma: the cache holds the longest interviews at once: 37 as interviewer, 17" in lines[0]
    )
    assert lines[1].startswith("personas: 5 personas share max_loras=4: interview 4 at a time")
    assert "17 as patient" in lines[2]
