"""An adapter is served with its base's tokenizer, so it must have been trained with that."""

from pathlib import Path

import pytest
from personas_on_disk import adapter, tokenizer

from serving.lora import find_adapters
from serving.tokenizers import differences
from src.errors import InputError

TOKENS = {"a": 0, "b": 1}


def compared(folder: Path, *, tokens: dict[str, int], template: str) -> list[str]:
    tokenizer(folder / "base", tokens=TOKENS, template="{{ messages }}")
    tokenizer(adapter(folder / "adapters", "persona-07"), tokens=tokens, template=template)
    return differences(find_adapters(folder / "adapters"), str(folder / "base"), None)


def test_the_bases_own_tokenizer_is_accepted(tmp_path: Path) -> None:
    assert compared(tmp_path, tokens=TOKENS, template="{{ messages }}") == []


def test_another_vocabulary_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="persona-07: its tokenizer has other tokens"):
        compared(tmp_path, tokens={**TOKENS, "c": 2}, template="{{ messages }}")


def test_another_chat_template_is_one_warning(tmp_path: Path) -> None:
    (line,) = compared(tmp_path, tokens=TOKENS, template="{{ other }}")
    assert "persona-07: has another chat template" in line


def test_an_adapter_without_a_tokenizer_is_not_compared(tmp_path: Path) -> None:
    tokenizer(tmp_path / "base", tokens=TOKENS, template="{{ messages }}")
    adapter(tmp_path / "adapters", "persona-07")
    assert differences(find_adapters(tmp_path / "adapters"), str(tmp_path / "base"), None) == []


def test_a_template_of_its_own_file_counts_like_one_in_the_settings(tmp_path: Path) -> None:
    made = adapter(tmp_path / "adapters", "persona-07")
    (made / "chat_template.jinja").write_text("{{ messages }}\n", encoding="utf-8")
    tokenizer(tmp_path / "base", tokens=TOKENS, template="{{ messages }}")
    assert differences(find_adapters(tmp_path / "adapters"), str(tmp_path / "base"), None) == []


def test_the_hubs_copy_of_the_pinned_revision_is_what_is_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    kept = tmp_path / "hub" / "models--maker--model" / "snapshots" / "c0ffee"
    tokenizer(kept, tokens=TOKENS, template="{{ messages }}")
    tokenizer(adapter(tmp_path / "adapters", "persona-07"), tokens={"a": 0}, template="x")
    found = find_adapters(tmp_path / "adapters")
    with pytest.raises(InputError, match="other tokens than maker/model"):
        differences(found, "maker/model", "c0ffee")
    assert differences(found, "maker/model", "another") == []


def test_a_broken_tokenizer_is_one_line(tmp_path: Path) -> None:
    tokenizer(tmp_path / "base", tokens=TOKENS, template="{{ messages }}")
    made = adapter(tmp_path / "adapters", "persona-07")
    (made / "tokenizer.json").write_text("{", encoding="utf-8")
    with pytest.raises(InputError, match=r"tokenizer\.json: cannot be read"):
        differences(find_adapters(tmp_path / "adapters"), str(tmp_path / "base"), None)
