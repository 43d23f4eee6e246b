from pathlib import Path
from typing import Any, Literal

import pytest
import yaml

from src.analysts.imputation import Imputation

ROOT = Path(__file__).parents[2]


def option(name: str) -> dict[str, Any]:
    content = yaml.safe_load((ROOT / "conf" / "analyst" / f"{name}.yaml").read_text())
    assert isinstance(content, dict)
    return content


def imputation_of(values: dict[str, Any], **changes: Any) -> Imputation:
    values = values | changes
    return Imputation(
        mode=values["imputation"],
        renormalise=values["renormalise"],
        donor_confidence=values["donor_confidence"],
        donor_score=values["donor_score"],
        donor_weights=tuple(values["donor_weights"]),
        imputed_cap=values["imputed_cap"],
        imputed_rounding=values["imputed_rounding"],
    )


class Options:
    """The options as they stand in conf, with single values changed."""

    def imputation(
        self, name: Literal["consensus", "median"] = "consensus", **changes: Any
    ) -> Imputation:
        return imputation_of(option(name), **changes)

    def __getitem__(self, name: str) -> dict[str, Any]:
        return option(name)


@pytest.fixture(scope="session")
def options() -> Options:
    return Options()
