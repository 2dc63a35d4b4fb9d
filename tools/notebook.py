"""Write docs/quickstart.ipynb from docs/quickstart.md: ``python tools/notebook.py``."""

import json
import re
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
SITE = "https://github.com/mdaml/mdaml/blob/main/docs/"
BLOCK = re.compile(r"```python\n(.*?)```\n?", re.DOTALL)
LINK = re.compile(r"(?<!!)\[([^]]+)\]\((?!\w+:|#)([^)]+)\)")


def code_of(block: str) -> str:
    """Turn the examples of a block into the lines of a cell, without what they print."""
    lines = [line for line in block.splitlines() if line.startswith((">>>", "..."))]
    return "\n".join(line[4:] for line in lines)


def text_of(text: str) -> str:
    """Make the prose of the page readable elsewhere: no roles, absolute links, no pictures."""
    text = re.sub(
        r"^The same code is.*\n|^!\[.*\n| The same code is a \{download\}.*$", "", text, flags=re.M
    )
    text = re.sub(r"```bash\n(.*?)```", r"```\n\1```", text, flags=re.DOTALL)
    return LINK.sub(lambda m: f"[{m[1]}]({SITE}{m[2]})", text).strip()


def build(page: str) -> str:
    """Return a notebook of the page, as JSON."""
    cells = []
    for number, part in enumerate(BLOCK.split(page)):
        is_code = number % 2 == 1
        source = code_of(part) if is_code else text_of(part)
        if not source:
            continue
        cell = {
            "cell_type": "code" if is_code else "markdown",
            "id": f"cell-{number}",
            "metadata": {},
        }
        if is_code:
            cell |= {"execution_count": None, "outputs": []}
        cells.append(cell | {"source": source.splitlines(keepends=True)})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    book = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(book, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    page = (DOCS / "quickstart.md").read_text(encoding="utf-8")
    (DOCS / "quickstart.ipynb").write_text(build(page), encoding="utf-8")
