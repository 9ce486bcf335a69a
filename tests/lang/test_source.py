"""The text that is compiled is the function's own, wherever it was written, and messages point into it."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxgemm import cuda
from mxgemm.errors import KernelSyntaxError
from mxgemm.lang.source import KernelSource
from mxgemm.lang.source_text import _matching
from tests.lang.running import function, interpret

ROOT = Path(__file__).parents[2]


def nested() -> Any:
    def kernel(x):
        # one indented comment
        # and one in the first column
        """Text
        over lines
        """
        x[0] = 1

    return kernel


def test_comments_and_text_in_the_first_column_of_a_nested_kernel_change_nothing() -> None:
    x = np.zeros(1)
    interpret(cuda.jit(nested()), 1, 1, x)
    assert x[0] == 1
    tree = KernelSource(nested()).tree
    assert [node.lineno - tree.lineno for node in tree.body] == [3, 6]


@pytest.mark.parametrize("indentation", ["    ", "\t", "  \t"])
@pytest.mark.parametrize("before", ["", "é = 1; ", "x[0] = 1 + 2; "])
def test_the_caret_counts_characters_and_not_bytes(indentation: str, before: str) -> None:
    line = f"{indentation}{before}y = x[1:2]"
    with pytest.raises(KernelSyntaxError) as caught:
        interpret(cuda.jit(function(f"def kernel(x):\n{line}\n")), 1, 1, np.zeros(3))
    assert caught.value.offset - 1 == line.index("1:2")


SESSION = """
import numpy as np
from mxgemm import cuda
@cuda.jit
def first(x):
    i = cuda.grid(1)
    x[i] = x[i] * 2

x = np.ones(4)
first[1, 4](x)
@cuda.jit
def second(x):
    x[cuda.grid(1)] += 10

second[1, 4](x)
old = first
@cuda.jit
def first(x):
    i = cuda.grid(1)
    x[i] = x[i] + 2

old[1, 4](x)
first[1, 4](x)
def make(n):
    @cuda.jit
    def inner(x):
        x[cuda.grid(1)] += n * 100
    return inner

make(1)[1, 4](x)
make(2)[1, 4](x)
print("found", x.tolist())
try:
    first[1, 5](x)
except cuda.OutOfBoundsError as error:
    print("line", str(error).splitlines()[1].strip())

"""


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals")
def test_every_kernel_of_a_session_is_compiled_from_its_own_text() -> None:
    import pty

    child, terminal = pty.fork()
    if child == 0:
        os.environ.update(PYTHONPATH=str(ROOT), MXGEMM_INTERPRETER="1", TERM="dumb", PYTHON_BASIC_REPL="1")
        os.execv(sys.executable, [sys.executable, "-q"])  # noqa: S606  # a session of this interpreter
    os.write(terminal, SESSION.encode() + b"\nexit()\n")
    seen = b""
    try:
        while chunk := os.read(terminal, 4096):
            seen += chunk
    except OSError:  # the child has closed its end
        pass
    os.waitpid(child, 0)
    # 1·2 + 10, doubled by the kernel that was first, + 2 by the one that took its name, + 100 + 200
    assert b"found [326.0, 326.0, 326.0, 326.0]" in seen, seen.decode()
    assert b"line x[i] = x[i] + 2" in seen, seen.decode()


def test_text_made_by_exec_is_not_taken_for_the_command_lines() -> None:
    text = (
        "import numpy as np\nfrom mxgemm import cuda\n@cuda.jit\ndef outer(x):\n    x[0] = 1\n"
        "names = {'cuda': cuda}\nexec('@cuda.jit\\n\\n\\ndef inner(x):\\n    x[0] = 2\\n', names)\n"
        "x = np.zeros(1)\nouter[1, 1](x)\nprint(x)\nnames['inner'][1, 1](x)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", text],
        env={**os.environ, "PYTHONPATH": str(ROOT), "MXGEMM_INTERPRETER": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == "[1.]\n"
    assert "the source of 'inner' cannot be read" in done.stderr


@pytest.mark.parametrize("other", ["x[0] - 2", "x[0] + 2.0", "x[0] + 3", "x[1] + 2", "y[0] + 2"])
def test_a_text_that_compiles_to_other_code_is_not_the_functions(other: str) -> None:
    text = "def kernel(x, y):\n    x[0] = {}\n"
    found = function(text.format("x[0] + 2"))
    assert _matching(text.format("x[0] + 2").splitlines(keepends=True), found)
    assert not _matching(text.format(other).splitlines(keepends=True), found)
