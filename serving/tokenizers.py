"""Whether an adapter was trained with the tokenizer and chat template that it is served with."""

import json
from collections.abc import Sequence
from pathlib import Path

from serving.cached import copy_of
from serving.lora import Adapter
from src.errors import InputError
from src.prompts import shown

TOKENIZER, SETTINGS, TEMPLATE = "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"


def differences(adapters: Sequence[Adapter], model: str, revision: str | None) -> list[str]:
    """Return a warning for each adapter with another chat template than its base's.

    Another vocabulary is an `InputError`: vLLM reads prompts with the base's alone. What either
    side does not bring along is not compared.
    """
    base = base_on_disk(model, revision)
    if base is None:
        return []
    words, template = _vocabulary(base), _template(base)
    lines = []
    for adapter in adapters:
        if not _same_file(adapter.folder, base) and words is not None:
            own = _vocabulary(adapter.folder)
            if own is not None and own != words:
                raise InputError(
                    f"{shown(adapter.folder)}: its tokenizer has other tokens than {model}, which "
                    "vLLM would read its prompts with; train it with the base's"
                )
        own_template = _template(adapter.folder)
        if None not in (own_template, template) and own_template != template:
            lines.append(
                f"{shown(adapter.folder)}: has another chat template than {model}; it is served "
                "with the base's, unless chat_template= names its own"
            )
    return lines


def base_on_disk(model: str, revision: str | None) -> Path | None:
    """Return the base's folder, its own or the hub's copy of the revision; None: not here."""
    if Path(model).is_dir():
        return Path(model)
    folder = copy_of(model, revision)
    return folder if folder.is_dir() else None


def _same_file(folder: Path, base: Path) -> bool:
    """Return whether both have the same file, found without reading what it says."""
    try:
        return (folder / TOKENIZER).read_bytes() == (base / TOKENIZER).read_bytes()
    except OSError:
        return False


def _vocabulary(folder: Path) -> dict[str, int] | None:
    """Return every token with its number; None without a tokenizer."""
    content = _read(folder / TOKENIZER)
    if content is None:
        return None
    model, added = content.get("model"), content.get("added_tokens")
    words = dict(model.get("vocab") or {}) if isinstance(model, dict) else {}
    for token in added if isinstance(added, list) else ():
        words[token["content"]] = token["id"]
    return words


def _template(folder: Path) -> str | None:
    """Return the chat template, of its own file or of the tokenizer's settings."""
    try:
        return (folder / TEMPLATE).read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        found = (_read(folder / SETTINGS) or {}).get("chat_template")
        return found.strip() if isinstance(found, str) else None


def _read(path: Path) -> dict[str, object] | None:
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise InputError(f"{shown(path)}: cannot be read") from error
    return content if isinstance(content, dict) else None
