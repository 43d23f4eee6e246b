"""Settings of the training of stand-in personas: what conf/train.yaml and conf/base hold."""

from typing import Annotated, Literal, Protocol

from pydantic import Field

from src.settings.commands import SomePersonas
from src.settings.form import Count, Positive, Settings

Text = Annotated[str, Field(min_length=1)]
InnerShare = Annotated[float, Field(gt=0, lt=1)]


class BaseModelSettings(Settings):
    """The model that an adapter is for."""

    name: Text
    path: Text | None
    """A folder that holds it; None: the copy that the hub's client keeps."""
    licence: Text
    stop: Text
    """The token that ends a reply."""
    pad: Text
    missing: Text
    """The way on where the model is not there."""


class TrainingSettings(Settings):
    """How an adapter is trained."""

    rank: Positive
    alpha: Positive
    layers: Annotated[tuple[Text, ...], Field(min_length=1)]
    steps: Positive
    batch: Positive
    max_length: Annotated[int, Field(ge=32)]
    learning_rate: Annotated[float, Field(gt=0, lt=1)]
    warmup: Annotated[float, Field(ge=0, lt=1)]
    clip: Annotated[float, Field(gt=0)]
    device: Literal["auto", "cpu", "cuda"]
    checkpointing: bool
    """Keep what enters a layer alone, and compute the layer again for its gradients."""
    dtype: Literal["bfloat16", "float32"]


class Checkpointed(Protocol):
    """What transformers' models have to train with little memory."""

    def gradient_checkpointing_enable(self) -> None: ...

    def enable_input_require_grads(self) -> None: ...


def save_memory(model: Checkpointed, settings: TrainingSettings) -> None:
    """Have a model keep little for its gradients, where the settings say so."""
    if settings.checkpointing:
        model.gradient_checkpointing_enable()
        model.enable_input_require_grads()  # else no gradient passes a layer of a frozen base


class TrainSettings(Settings):
    """Everything that `python -m serving.train_persona` can be told."""

    persona: SomePersonas
    run: Text = Field(alias="from")
    out: Text
    seed: Annotated[int, Field(ge=0, lt=2**31)]
    held_out: InnerShare
    others: Count
    python: Text
    """Of the environment that holds torch, transformers and peft."""
    base: BaseModelSettings
    training: TrainingSettings
