"""House rules that no checker knows: how many exceptions there are, and why each."""

import re
import tomllib

from terminal import ROOT

SOURCES = sorted((ROOT / "src").rglob("*.py"))
RULES_OFF_AT_MOST, EXCEPTIONS_AT_MOST = 12, 5


def lines_with(pattern: str) -> list[str]:
    return [
        line.strip()
        for path in SOURCES
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.search(pattern, line)
    ]


def test_few_checks_are_waived_in_the_product_and_each_says_why() -> None:
    for pattern in (r"#\s*noqa", r"#\s*type:\s*ignore"):
        found = lines_with(pattern)
        assert len(found) <= EXCEPTIONS_AT_MOST, found
        for line in found:
            assert re.search(r"#.*( - |#).{10,}", line), line


def test_few_rules_are_off_and_each_says_why() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    off = tomllib.loads(text)["tool"]["ruff"]["lint"]["ignore"]
    assert len(off) <= RULES_OFF_AT_MOST
    for rule in off:
        assert re.search(rf'"{rule}",\s+# .{{10,}}', text), rule


def test_nobody_waives_a_whole_file() -> None:
    assert not lines_with(r"ruff:\s*noqa|flake8:\s*noqa|mypy:\s*ignore-errors")


def test_nothing_is_left_unfinished() -> None:
    assert not lines_with(r"\b(TODO|FIXME|XXX)\b|NotImplementedError")


def test_no_double_of_our_own_code_is_patched_in() -> None:
    tests = [path for path in (ROOT / "tests").rglob("*.py") if path.name != "test_house.py"]
    patching = re.compile(r"unittest\.mock|mocker\b|monkeypatch\.setattr")
    found = [path.name for path in tests if patching.search(path.read_text())]
    assert not found
