"""The code in README.md and docs/ runs as it stands.

Each ```python block runs in an interpreter of its own, and each ``$ python -m mxgemm …`` line of a
```console block as a command of its own, in one folder per document, in order. An HTML comment before a
block says what differs: ``<!-- gpu -->`` (needs a device), ``<!-- exits N -->`` (the status that the last
command, or the block, ends with).
"""

import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from mxgemm import bounds
from mxgemm.configs import CONFIGURATIONS

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(
    r"(?P<notes>(?:^<!--.*?-->\n+)*)^```(?P<kind>python|console)\n(?P<body>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
PREFIX = "$ python -m mxgemm"


@dataclass(frozen=True)
class Block:
    """One block that runs: its line, the commands it stands for, and what its comment says."""

    line: int
    commands: tuple[tuple[str, ...], ...]
    needs_gpu: bool
    status: int


def blocks(text: str) -> list[Block]:
    found = []
    for match in BLOCK.finditer(text):
        if match["kind"] == "python":
            commands: tuple[tuple[str, ...], ...] = (("-c", match["body"]),)
        else:
            lines = match["body"].replace("\\\n", " ").splitlines()
            commands = tuple(tuple(shlex.split(line)[2:]) for line in lines if line.startswith(PREFIX))
        status = re.search(r"<!-- exits (\d+) -->", match["notes"])
        line = text.count("\n", 0, match.start("kind")) + 1
        found.append(Block(line, commands, "<!-- gpu -->" in match["notes"], int(status[1]) if status else 0))
    return found


def run_blocks(text: str, folder: Path, *, gpu: bool) -> list[str]:
    """Run the blocks of a document in order; return a line for each one that ends otherwise than it says."""
    faults = []
    for block in blocks(text):
        if block.needs_gpu and not gpu:
            continue
        for command in block.commands:
            expected = block.status if command is block.commands[-1] else 0
            run = subprocess.run(
                [sys.executable, *command], cwd=folder, capture_output=True, text=True, check=False
            )
            if run.returncode != expected:
                faults.append(
                    f"line {block.line}: status {run.returncode}, not {expected}: {run.stderr[-2000:]}"
                )
    return faults


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_code_of_a_document_runs(document: Path, tmp_path: Path, no_device: str | None) -> None:
    assert run_blocks(document.read_text(), tmp_path, gpu=no_device is None) == []


def test_the_readme_has_code_that_runs() -> None:
    assert blocks((ROOT / "README.md").read_text()) != []


@pytest.mark.parametrize(
    "text",
    [
        "```python\nraise SystemExit(3)\n```\n",
        "```python\nimport mxgemm\nmxgemm.gemm('a', 'b')\n```\n",
        "```console\n$ python -m mxgemm no-such-command\n```\n",
        "<!-- exits 1 -->\n```python\npass\n```\n",
    ],
)
def test_a_block_that_fails_is_caught(text: str, tmp_path: Path) -> None:
    assert run_blocks(text, tmp_path, gpu=False) != []


def test_a_comment_states_the_status_or_the_device(tmp_path: Path) -> None:
    fails = "```python\nraise SystemExit(3)\n```\n"
    text = f"<!-- exits 3 -->\n{fails}\n<!-- gpu -->\n{fails}"
    assert run_blocks(text, tmp_path, gpu=False) == []


LINK = re.compile(r"\]\((?!https?://|#)([^)#\s]+)")
CODE = re.compile(r"^```.*?^```$|`[^`\n]+`", re.MULTILINE | re.DOTALL)


def broken_links(text: str, folder: Path) -> list[str]:
    """Targets of relative links, outside code, that do not exist."""
    return [target for target in LINK.findall(CODE.sub("", text)) if not (folder / target).exists()]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_between_documents_lead_somewhere(document: Path) -> None:
    assert broken_links(document.read_text(), document.parent) == []


def test_a_broken_link_is_caught_and_code_is_no_link(tmp_path: Path) -> None:
    text = "[a](missing.md#part) [b](https://example.org)\n```python\nk[1](x)\n```\n`k[2](y)`\n"
    assert broken_links(text, tmp_path) == ["missing.md"]


# The README's table of precisions

ROW = re.compile(
    r"^\| (?P<types>[\w, ]+) \| (?P<precisions>`.*?) \| .*? \| (?P<bound>.*?) \| .*? \|$", re.MULTILINE
)
WIDE = ("int16", "int32", "int64", "uint16", "uint32", "uint64")
RANGES = {"int16 to uint64": WIDE, "int8 to uint64": ("int8", "uint8", *WIDE)}


def table_of(text: str) -> dict[tuple[str, str], str]:
    """The bound that the table states for each source type and precision."""
    stated = {}
    for row in ROW.finditer(text):
        types = RANGES.get(row["types"]) or row["types"].split(", ")
        names = re.findall(r"`(\w+)`", row["precisions"])
        if "…" in row["precisions"]:
            names = [f"i8crt{n}" for n in range(int(names[0][5:]), int(names[1][5:]) + 1)]
        stated |= {(dtype, name): row["bound"] for dtype in types for name in names}
    return stated


def test_the_readme_states_the_bound_of_every_configuration() -> None:
    stated = table_of((ROOT / "README.md").read_text())
    for row in CONFIGURATIONS:
        leading = bounds.leading(row, "sm_90", 4096)
        for dtype in row.source_types:
            said = stated[dtype, row.precision]
            if leading is None:
                assert not said[0].isdigit(), (dtype, row.precision)
            else:
                # Three figures, rounded up.
                assert leading <= float(said) <= leading * 1.01, (dtype, row.precision)
