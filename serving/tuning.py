"""A base model with LoRA adapters in training: all that needs torch, transformers and peft.

Only for .venv-serving, and slow to import: whoever wants it imports it once it is needed.
"""

# torch and its like are in .venv-serving alone:
# mypy: disable-error-code="import-not-found"

from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import peft
import torch
import transformers

from serving.base import base_folder
from serving.dialogues import Example, Messages, batches, padded
from serving.training import BaseModelSettings, TrainingSettings, save_memory
from src.errors import InputError

DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32}
Progress = Callable[[int, float], None]
"""Called with a step's number and its loss."""


class Tuner:
    """The base and its adapters, of which one at a time, or none, speaks."""

    def __init__(self, base: BaseModelSettings, settings: TrainingSettings, *, seed: int) -> None:
        """Load the base; refuse a stop or filling token that its tokenizer does not know."""
        transformers.logging.set_verbosity_error()
        transformers.logging.disable_progress_bar()
        folder = base_folder(base)
        self._settings, self._base, self._seed = settings, base, seed
        self.device = _device(settings.device)
        self._tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
        self.stop, self.pad = self._special(base.stop), self._special(base.pad)
        if self.pad in {self.stop, self._tokenizer.eos_token_id}:
            raise InputError(f"base.pad={base.pad}: ends a reply, so it may not fill one up")
        self._model: Any = transformers.AutoModelForCausalLM.from_pretrained(
            folder, dtype=DTYPES[settings.dtype], local_files_only=True
        ).to(self.device)
        save_memory(self._model, settings)
        self._adapted = False

    def render(self, chat: Messages) -> list[int]:
        """Return a chat's tokens by the base's template; after a question, up to the reply."""
        tokens: list[int] = self._tokenizer.apply_chat_template(
            list(chat),
            add_generation_prompt=chat[-1]["role"] == "user",
            tokenize=True,
            return_dict=False,
        )
        return tokens

    def load(self, name: str, folder: Path) -> None:
        """Take in a finished adapter."""
        if self._adapted:
            self._model.load_adapter(folder, adapter_name=name)
        else:
            self._model = peft.PeftModel.from_pretrained(self._model, folder, adapter_name=name)
            self._adapted = True

    def train(self, name: str, examples: Sequence[Example], progress: Progress) -> None:
        """Make a new adapter and train it; nothing else is changed."""
        self._add(name)
        self._model.set_adapter(name)
        self._model.train()
        settings = self._settings
        weights = [p for p in self._model.parameters() if p.requires_grad]
        optimizer = torch.optim.AdamW(weights, lr=settings.learning_rate, weight_decay=0.0)
        rate = torch.optim.lr_scheduler.LambdaLR(optimizer, self._rate)
        feed = batches(examples, settings.batch, seed=self._seed)
        for step, batch in enumerate(islice(feed, settings.steps), 1):
            total, count = self._loss(batch)
            loss = total / count
            loss.backward()
            torch.nn.utils.clip_grad_norm_(weights, settings.clip)
            optimizer.step()
            optimizer.zero_grad()
            rate.step()
            progress(step, loss.item())
        self._model.eval()

    def loss(self, name: str | None, examples: Sequence[Example]) -> float:
        """Return the mean loss of a labelled token in nats, with an adapter or the base alone."""
        if name is None and self._adapted:
            with self._model.disable_adapter():
                return self._mean(examples)
        if name is not None:
            self._model.set_adapter(name)
        return self._mean(examples)

    def save(self, name: str, folder: Path) -> None:
        """Write an adapter's weights and form into a folder."""
        self._model.peft_config[name].base_model_name_or_path = self._base.name  # no local path
        self._model.save_pretrained(folder, selected_adapters=[name])
        inner = folder / name  # where peft puts an adapter that has a name
        for file in inner.iterdir():
            file.replace(folder / file.name)
        inner.rmdir()

    def _add(self, name: str) -> None:
        torch.manual_seed(self._seed)
        form = peft.LoraConfig(
            r=self._settings.rank,
            lora_alpha=self._settings.alpha,
            target_modules=list(self._settings.layers),
            task_type="CAUSAL_LM",
        )
        if self._adapted:
            self._model.add_adapter(name, form)
        else:
            self._model = peft.get_peft_model(self._model, form, adapter_name=name)
            self._adapted = True

    def _rate(self, step: int) -> float:
        """Return the share of the learning rate: it rises from little, then falls to zero."""
        rising = max(1, round(self._settings.warmup * self._settings.steps))
        if step < rising:
            return (step + 1) / rising
        return (self._settings.steps - step) / max(1, self._settings.steps - rising)

    def _mean(self, examples: Sequence[Example]) -> float:
        self._model.eval()
        order = sorted(examples, key=lambda one: len(one.tokens))  # little to fill up
        size, total, count = self._settings.batch, 0.0, 0
        with torch.inference_mode():
            for start in range(0, len(order), size):
                lost, of = self._loss(order[start : start + size])
                total, count = total + lost.item(), count + of
        return total / count

    def _loss(self, examples: Sequence[Example]) -> tuple[Any, int]:
        """Return the summed loss over the labelled tokens of some windows, and how many."""
        tokens, labels, read = (
            torch.tensor(rows, device=self.device) for rows in padded(examples, self.pad)
        )
        logits = self._model(input_ids=tokens, attention_mask=read).logits[:, :-1]
        wanted = labels[:, 1:] >= 0
        said, due = logits[wanted].float(), labels[:, 1:][wanted]
        return torch.nn.functional.cross_entropy(said, due, reduction="sum"), len(due)

    def _special(self, token: str) -> int:
        known: dict[str, int] = self._tokenizer.get_vocab()
        if token not in known:
            raise InputError(f"{token}: no token of {self._base.name}")
        return known[token]


def _device(wanted: str) -> str:
    there = torch.cuda.is_available()
    if wanted == "cuda" and not there:
        raise InputError("training.device=cuda: no GPU is there that torch can use")
    return "cuda" if there and wanted == "auto" else "cpu" if wanted == "auto" else wanted
