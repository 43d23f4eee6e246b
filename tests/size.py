"""Print how large the product and its tests are; fail where one file grows too large."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FILE_MAX, PRODUCT_MAX = 300, 8000


def lines(folder: str) -> dict[Path, int]:
    """Return the lines of every Python file below a folder."""
    files = sorted((ROOT / folder).rglob("*.py"))
    return {f.relative_to(ROOT): len(f.read_text(encoding="utf-8").splitlines()) for f in files}


def main() -> int:
    """Return 1 if something is too large."""
    product, tests = lines("src") | lines("serving"), lines("tests")
    sys.stdout.write(
        f"size: {sum(product.values())} lines of product code in {len(product)} files "
        f"(aim: at most {PRODUCT_MAX}), {sum(tests.values())} of tests\n"
    )
    long = [f"{path}: {n} lines" for path, n in product.items() if n > FILE_MAX]
    for line in long:
        sys.stdout.write(f"more than {FILE_MAX} lines: {line}\n")
    return 1 if long else 0


if __name__ == "__main__":
    sys.exit(main())
