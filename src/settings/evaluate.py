"""Everything that `python -m src.evaluate` can be told; conf/evaluate.yaml holds the values."""

from itertools import pairwise
from typing import Annotated

from pydantic import Field, field_validator, model_validator

from src.settings.form import Positive, Settings, Share

Folder = Annotated[str, Field(min_length=1)]
Condition = Annotated[str, Field(pattern=r"^[^/]+(/[^/]+)*/[^/]+$")]
"""`run/analyst`."""
Interview = Annotated[str, Field(pattern=r"^[A-Za-z0-9][\w.-]*/[1-9]\d*$")]
"""`subject/sample`."""


class EvaluateSettings(Settings):
    runs: tuple[Folder, ...]
    compare: tuple[Condition, Condition] | None
    out: Folder | None
    view: bool | Interview
    age_bands: tuple[Positive, ...]
    level: Annotated[Share, Field(gt=0, lt=1)]
    resamples: Positive
    seed: Annotated[int, Field(ge=0)]
    price_list: Folder
    estimate: Folder

    @field_validator("runs", mode="before")
    @classmethod
    def _some_runs(cls, value: object) -> object:
        """Accept one folder for a list of one."""
        folders = [value] if isinstance(value, str) else value
        if not folders:
            raise ValueError("name at least one run's folder: runs=[outputs/psycidra]")
        return tuple(folders) if isinstance(folders, list) else folders

    @model_validator(mode="after")
    def _fits(self) -> "EvaluateSettings":
        if self.view and self.out is None:
            raise ValueError("view writes pages: it needs out=FOLDER")
        if any(low >= high for low, high in pairwise(self.age_bands)):
            raise ValueError("age_bands: years in ascending order")
        return self
