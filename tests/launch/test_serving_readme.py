"""The page about serving: its figures are those that are computed, and its flags are ours."""

import re

import pytest
from terminal import ROOT

from serving.memory import GIB, interviews, kv_bytes, need, shares
from serving.settings import LaunchSettings, ServerSettings
from src import config
from src.errors import InputError

PAGE = (ROOT / "serving" / "README.md").read_text(encoding="utf-8")
RANK = 16
NEEDS = {"gemma": "gemma", "gemma_int4": "gemma", "personas": "personas"}
CARDS = {
    "24 GB (A10, L4)": 23028,
    "24 GB (RTX 4090)": 24564,
    "40 GB (A100)": 40960,
    "48 GB (L40S)": 46068,
    "80 GB (H100)": 81559,
    "141 GB (H200)": 143771,
}
COLUMNS = ("gemma", "gemma, two cards (tensor_parallel=2)", "gemma_int4", "personas", "both")


def settings(option: str, *arguments: str) -> LaunchSettings:
    return config.read_settings("launch", LaunchSettings, [f"serving={option}", *arguments])


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def needs() -> str:
    rows = []
    for option, name in NEEDS.items():
        server = settings(option).servers[name]
        wanted = need(server, RANK if server.lora else 0)
        assert server.architecture is not None
        longest = [
            f"{kv_bytes(server.architecture, tokens) / GIB:.2f} {role}"
            for role, tokens in server.interview.items()
        ]
        parts = (wanted.weights, wanted.adapters, wanted.overhead, wanted.start, wanted.least)
        rows.append([f"`{option}`", *(f"{part / GIB:.1f}" for part in parts), ", ".join(longest)])
    head = ["", "weights", "adapters", "overhead", "start", "sum", "cache of one interview"]
    return table(head, rows)


def fits() -> str:
    rows = [
        [name, str(card), *(cell(column, card) for column in COLUMNS)]
        for name, card in CARDS.items()
    ]
    return table(
        ["Card", "MiB", *(f"`{name}`" if " " not in name else name for name in COLUMNS)], rows
    )


def cell(column: str, card: int) -> str:
    option, *_ = column.split(",")
    parallel = ["servers.gemma.tensor_parallel=2"] if "two cards" in column else []
    chosen = settings(option, f"card={card}", *parallel)
    ranks = {name: RANK for name, server in chosen.servers.items() if server.lora}
    try:
        found = shares(chosen, ranks)
    except InputError:
        return "–"
    held = [
        held_by(one, ranks.get(name, 0), found[name], chosen)
        for name, one in chosen.servers.items()
    ]
    return " / ".join(str(min(each)) for each in zip(*padded(held), strict=True))


def held_by(server: ServerSettings, rank: int, share: float, chosen: LaunchSettings) -> list[int]:
    memory, roles = chosen.card_memory, list(server.interview)
    assert memory is not None
    casts = [roles[: size + 1] for size in range(len(roles))]
    return [interviews(server, rank, share=share, memory=memory, roles=cast) for cast in casts]


def padded(held: list[list[int]]) -> list[list[int]]:
    """Return lists of one length: who plays one role holds as many whatever others play."""
    longest = max(map(len, held))
    return [each + each[-1:] * (longest - len(each)) for each in held]


@pytest.mark.parametrize("made", [needs, fits], ids=["needs", "fits"])
def test_the_tables_hold_what_is_computed(made: object) -> None:
    assert callable(made)
    assert made() in PAGE


def test_the_page_explains_every_flag_that_a_command_line_holds() -> None:
    golden = (ROOT / "tests" / "launch" / "golden").glob("*.txt")
    used = {flag for file in golden for flag in re.findall(r"--[a-z][a-z-]+", file.read_text())}
    chosen_at_the_start = {"--host", "--port", "--no-enable-prefix-caching"}
    assert {flag for flag in used - chosen_at_the_start if flag not in PAGE} == set()


def test_every_option_stands_on_the_page() -> None:
    for file in (ROOT / "conf" / "serving").glob("*.yaml"):
        assert f"`{file.stem}`" in PAGE


def test_the_figures_in_the_text_are_those_of_conf() -> None:
    launch = settings("both")
    figures = [launch.servers["gemma"].context, *launch.servers["gemma"].interview.values()]
    figures += launch.servers["personas"].interview.values()
    for figure in figures:
        assert f"{figure:,}" in PAGE
    assert f"{launch.card_reserve} MiB" in PAGE
    assert f"for `both` {launch.card_share}" in PAGE


def test_a_card_of_23028_mib_holds_gemma_int4_as_the_page_says() -> None:
    assert shares(settings("gemma_int4", "card=23028"), {}) == {"gemma": 0.95}
    assert "for `gemma_int4` 0.95" in PAGE
    with pytest.raises(InputError, match="a larger card"):
        shares(settings("gemma_int4", "card=23028", "card_share=0.92"), {})


def test_a_full_cache_would_be_as_much_larger_as_the_page_says() -> None:
    shape = settings("gemma").servers["gemma"].architecture
    assert shape is not None
    full = shape.layers * 16384 * 8192
    assert f"{full / kv_bytes(shape, 16384):.1f} times as much" in PAGE
