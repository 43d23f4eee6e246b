"""Write the small model of a package as a folder that vLLM and peft read; runs in .venv-serving.

python -m serving.convert           does nothing where the folder is there already
"""

# torch and its like are in .venv-serving alone:
# mypy: disable-error-code="import-not-found"

import os
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Annotated

from pydantic import Field

from serving.origin import ORIGIN, Origin, origin_of, sha256_of, whole_folder
from src import command, config
from src.errors import InputError
from src.prompts import shown
from src.settings.form import Settings

Text = Annotated[str, Field(min_length=1)]


class ConvertSettings(Settings):
    """Everything that `python -m serving.convert` can be told."""

    package: Text
    file: Text
    out: Text
    model: Text
    source: Text
    licence: Text


def convert(arguments: Sequence[str]) -> None:
    """Convert once: a folder of the same origin is left as it is, another one refused."""
    settings = config.read_settings("convert", ConvertSettings, arguments)
    out = config.folder(settings.out)
    path, origin = packaged(settings)
    known = origin_of(out)
    if known == origin:
        command.console().print(f"{shown(out)} is there: {origin.model}, {origin.licence}")
        return
    if known is not None:
        raise InputError(f"{shown(out)}: made of another file; remove it, or give out=FOLDER")
    with whole_folder(out) as folder:
        _write(path, folder)
        (folder / ORIGIN).write_text(origin.model_dump_json(indent=1) + "\n", encoding="utf-8")
        (folder / "README.md").write_text(_page(origin), encoding="utf-8")
    command.console().print(f"{shown(out)}: {origin.model}, {origin.licence}, from {path.name}")


def packaged(settings: ConvertSettings) -> tuple[Path, Origin]:
    """Return the file in the installed package, and where it comes from."""
    try:
        package = distribution(settings.package)
    except PackageNotFoundError as error:
        raise InputError(
            f"{settings.package} is not installed here: run .venv-serving/bin/python -m "
            "serving.convert (make run-cpu installs it)"
        ) from error
    path = Path(str(package.locate_file(settings.file)))
    if not path.is_file():
        raise InputError(f"{settings.package} {package.version} holds no {settings.file}")
    return path, Origin(
        model=settings.model,
        source=settings.source,
        licence=settings.licence,
        package=settings.package,
        version=package.version,
        file=settings.file,
        sha256=sha256_of(path),
    )


def _write(path: Path, folder: Path) -> None:
    """Write weights and tokenizer in bfloat16.

    A model that was read from a GGUF file refuses to be saved, being marked as quantised: so its
    weights, which are plain numbers by now, move into a fresh model of the same form.
    """
    # read when the libraries are imported: nothing is looked up, and no progress is drawn
    os.environ.update(HF_HUB_OFFLINE="1", TQDM_DISABLE="1")
    import torch  # noqa: PLC0415 - --help and a folder that is there need none of it
    import transformers  # noqa: PLC0415 - the same

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    place = {"pretrained_model_name_or_path": str(path.parent), "gguf_file": path.name}
    tokenizer = transformers.AutoTokenizer.from_pretrained(**place)
    read = transformers.AutoModelForCausalLM.from_pretrained(**place, dtype=torch.bfloat16)
    form = type(read.config)(**_plain_form(read.config.to_dict()))
    fresh = type(read)(form).to(torch.bfloat16)
    fresh.load_state_dict(read.state_dict())
    fresh.generation_config.eos_token_id = tokenizer.eos_token_id
    fresh.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _plain_form(form: dict[str, object]) -> dict[str, object]:
    return {key: value for key, value in form.items() if key != "quantization_config"}


def _page(origin: Origin) -> str:
    return (
        f"# {origin.model}\n\n"
        f"The weights of [{origin.model}]({origin.source}), licence {origin.licence}, dequantised "
        f"to bfloat16 from `{Path(origin.file).name}` (SHA-256 {origin.sha256}), which the Python "
        f"package {origin.package} {origin.version} contains. Changed in its form alone. It shows "
        "that the machinery works, not how well it screens.\n"
    )


if __name__ == "__main__":
    command.main(__doc__, "convert", convert)
