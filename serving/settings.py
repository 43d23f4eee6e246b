"""Settings of serving: what conf/launch.yaml and conf/serving hold."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from src.settings.form import Count, Positive, Seconds, Settings

Name = Annotated[str, Field(min_length=1)]
Persona = Annotated[int, Field(ge=1, le=99)]
Flag = bool | int | float | str | dict[str, bool | int | float | str]
"""A flag's value: true and false become --x and --no-x, a mapping becomes JSON."""


class LifecycleSettings(Settings):
    """How a server is started, watched and ended."""

    host: str | None
    """Address to listen at; null: 127.0.0.1 without Slurm, 0.0.0.0 within a job."""
    start_timeout: Seconds
    """Longest time from the start to the first generated token."""
    idle_shutdown: Seconds | None
    """End a server that nothing asked of for so long; null: never."""
    grace: Seconds
    """Time that requests under way have to finish once the server is told to end."""
    log_lines: Positive
    """Last lines of a dead server's log that are shown."""
    logs: Name
    """Folder of the servers' log files: a path, or a folder of the checkout."""


class ArchitectureSettings(Settings):
    """A model's shape, from its published config.json; serving.memory computes from it."""

    layers: Positive
    full_attention: Positive
    """Layers that keep every token; the others keep a window."""
    window: Positive | None
    hidden: Positive
    intermediate: Positive
    heads: Positive
    kv_heads: Positive
    head_dim: Positive
    vocabulary: Positive
    tied: bool
    """Whether one matrix embeds tokens and predicts them."""
    linear_bits: Annotated[float, Field(gt=0, le=32)]
    """Bits a weight of the linear layers takes; everything else takes 16."""

    @model_validator(mode="after")
    def _window_stands(self) -> Self:
        if self.full_attention > self.layers:
            raise ValueError("more layers with full attention than layers")
        if (self.window is None) != (self.full_attention == self.layers):
            raise ValueError("window belongs to layers without full attention, and to no other")
        return self


class LoraSettings(Settings):
    """How many adapters are held where."""

    max_loras: Positive
    """Adapters that one batch may mix; buffers for them are taken at the start."""
    max_cpu_loras: Positive
    """Adapters kept in main memory."""


class ServerSettings(Settings):
    """One vLLM server; its key in `servers` names its endpoint file."""

    device: Literal["gpu", "cpu"]
    model: Name
    """A repository of the hub, or a folder: a path, or a folder of the checkout."""
    served: Name
    """The name that requests use."""
    revision: str | None
    """The commit of model and tokenizer; null for a folder."""
    dtype: Literal["bfloat16"]
    context: Positive
    """Tokens of the longest sequence, prompt and answer."""
    sequences: Positive
    """Requests that are computed at once; more wait in the server."""
    tensor_parallel: Positive
    replicas: Positive
    batch_tokens: Positive
    """Tokens that one step computes; a longer prompt takes several."""
    cards: tuple[Count, ...] | None
    """Positions of its cards among those visible; null: as many as it needs, from the first."""
    memory: Annotated[float, Field(gt=0, lt=1)] | None
    """Share of a card's memory; null: computed, for servers that share one card."""
    overhead: Annotated[float, Field(ge=0)]
    """GiB beside weights, adapters and cache: activations, graphs, the driver's own."""
    interview: dict[str, Positive]
    """Tokens of an interview's longest prompt and answer, by role that this server plays."""
    lora: LoraSettings | None
    chat_template: str | None
    flags: dict[str, Flag]
    """Every other flag of vLLM, written with _ for -."""
    environment: dict[str, str]
    architecture: ArchitectureSettings | None
    """Null where nobody needs figures."""

    @property
    def cards_needed(self) -> int:
        return self.tensor_parallel * self.replicas

    @property
    def positions(self) -> tuple[int, ...]:
        """Return which of the visible cards it stands on, counted from 0."""
        return self.cards if self.cards is not None else tuple(range(self.cards_needed))

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if self.device == "gpu" and self.architecture is None:
            raise ValueError("a server on a GPU needs an architecture, to compute its memory")
        if self.cards is not None and len(set(self.cards)) != self.cards_needed:
            raise ValueError(f"cards: {self.cards_needed} different ones are needed")
        if self.architecture and self.architecture.kv_heads % self.tensor_parallel:
            raise ValueError(
                f"tensor_parallel={self.tensor_parallel} does not divide "
                f"{self.architecture.kv_heads} heads"
            )
        return self


class LaunchSettings(Settings):
    """Everything that `serving.launch` is told."""

    servers: Annotated[dict[str, ServerSettings], Field(min_length=1)]
    python: Name
    """The Python of vLLM's environment: a path, or a file of the checkout."""
    endpoints: Name
    adapters: Name
    """Folder of the adapters, one folder persona-NN each."""
    persona: Literal["all"] | Persona | Annotated[tuple[Persona, ...], Field(min_length=1)]
    """Whose adapters are served."""
    card: Positive | None
    """MiB of a card, as nvidia-smi shows them, for print=true; a start asks nvidia-smi."""
    card_reserve: Count
    """MiB that nvidia-smi counts and no program gets."""
    card_share: Annotated[float, Field(gt=0, lt=1)]
    """Share of a card that servers on it take together."""
    environment: dict[str, str]
    """Variables of every server."""
    print: bool
    lifecycle: LifecycleSettings

    @property
    def card_memory(self) -> int | None:
        """Return the MiB of a card that programs get; None while nobody has said."""
        return None if self.card is None else self.card - self.card_reserve

    @property
    def personas(self) -> tuple[int, ...] | None:
        """Return those asked for; None: all that are there."""
        if self.persona == "all":
            return None
        return (self.persona,) if isinstance(self.persona, int) else self.persona
