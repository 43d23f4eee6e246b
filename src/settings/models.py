"""Settings of served models: where they are, what they accept, how much may be asked of them."""

from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from src.settings.form import Positive, Seconds, Settings


class RateSettings(Settings):
    requests: Positive | None
    tokens: Positive | None
    seconds: Seconds


class RetrySettings(Settings):
    tries: Positive
    first_wait: Annotated[float, Field(ge=0)]
    longest_wait: Seconds


class ModelSettings(Settings):
    """One served model: where it is, what its API accepts, how much may be asked of it."""

    name: Annotated[str, Field(min_length=1)]
    base_url: Annotated[str, Field(pattern=r"^https?://")] | None
    """Where it is; None: where the endpoint file says."""
    endpoint: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")] | None
    """Name of the endpoint file that a server of ours writes (serving/launch.py)."""
    backend: Literal["openai", "vllm", "compatible"]
    """Whose parameters it takes; `compatible`: vLLM's names, at somebody else's server."""
    key_env: str | None
    calls: Positive
    context: Positive
    accepts: tuple[Literal["temperature", "top_p", "top_k", "seed", "stop_token_ids"], ...]
    tools: Literal["native", "schema"]
    """How it calls tools: by the API's own means, or by JSON that follows a schema."""
    effort: str | None
    efforts: tuple[str, ...]
    rate: RateSettings
    retry: RetrySettings
    restart_wait: Annotated[float, Field(ge=0)]
    """Seconds for which a server that refuses connections is waited for."""
    kv_bytes_per_token: Positive | None

    @field_validator("base_url")
    @classmethod
    def _plain_address(cls, value: str | None) -> str | None:
        """Refuse what no request could be sent to, and what holds a secret."""
        if value is None:
            return None
        parts = urlsplit(value)  # raises a ValueError of its own for a broken address
        if not parts.hostname or parts.port == 0:
            raise ValueError("names no host and port")
        if parts.username or parts.password or parts.query:
            raise ValueError("holds more than an address; a key belongs into key_env")
        return value

    @model_validator(mode="after")
    def _somewhere(self) -> "ModelSettings":
        if self.base_url is None and self.endpoint is None:
            raise ValueError(f"{self.name} is nowhere: give it a base_url or an endpoint")
        return self

    @model_validator(mode="after")
    def _known_effort(self) -> "ModelSettings":
        if self.effort is not None and self.effort not in self.efforts:
            accepted = ", ".join(self.efforts) or "none"
            raise ValueError(f"effort={self.effort} is not accepted by {self.name}: {accepted}")
        return self


class CallSettings(Settings):
    """What is sent with every call, explicitly: a server's own defaults never decide."""

    temperature: Annotated[float, Field(ge=0, le=2)] | None
    top_p: Annotated[float, Field(gt=0, le=1)] | None
    top_k: Annotated[int, Field(ge=-1)] | None
    max_tokens: Positive
    timeout: Seconds
