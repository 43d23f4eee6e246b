"""Folders that look like adapters: a configuration, a few bytes for weights, a tokenizer."""

import json
from pathlib import Path


def adapter(folder: Path, name: str, weights: str = "weights", /, **config: object) -> Path:
    """Put one adapter down and return its folder."""
    made = folder / name
    made.mkdir(parents=True)
    settings = {"r": 12, "lora_alpha": 16, "base_model_name_or_path": "somewhere", **config}
    (made / "adapter_config.json").write_text(json.dumps(settings), encoding="utf-8")
    (made / "adapter_model.safetensors").write_text(weights, encoding="utf-8")
    return made


def tokenizer(folder: Path, *, tokens: dict[str, int], template: str) -> None:
    """Give a folder a tokenizer of these tokens and a chat template."""
    folder.mkdir(parents=True, exist_ok=True)
    content = {"model": {"vocab": tokens}, "added_tokens": [{"id": 9, "content": "<end>"}]}
    (folder / "tokenizer.json").write_text(json.dumps(content), encoding="utf-8")
    settings = {"chat_template": template}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")


def shaped_weights(folder: Path, width: int) -> None:
    """Give an adapter weights whose head says which width they are for."""
    key = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"
    head = json.dumps({"__metadata__": {}, key: {"dtype": "BF16", "shape": [8, width]}}).encode()
    content = len(head).to_bytes(8, "little") + head
    (folder / "adapter_model.safetensors").write_bytes(content)
