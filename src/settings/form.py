"""What all settings have in common: frozen, strict, and refusing unknown keys."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, RootModel

Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0)]


class Settings(BaseModel):
    """Frozen, strict, and refusing unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class File(RootModel[str]):
    """A file or folder whose content decides how an interview goes: in the digest by its hash."""

    model_config = ConfigDict(frozen=True, strict=True)

    @property
    def path(self) -> str:
        return self.root
