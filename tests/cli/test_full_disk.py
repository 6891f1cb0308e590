"""A full disk is one sentence on stderr, in every command that writes."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from clearhead.errors import ClearheadError
from clearhead.translate.files import open_output

FULL = Path("/dev/full")
MAIN = "from clearhead.cli import main; main()"
Run = Callable[..., tuple[int, str, str]]
pytestmark = pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full")


def test_answers_of_generate_and_translate() -> None:
    def write(*, flush: bool) -> None:
        with open_output(FULL, None, as_json=False) as (output, _):
            output.write("one line\n")
            if flush:
                output.flush()

    for flush in (True, False):  # without flushing, the error occurs when the file is closed
        with pytest.raises(ClearheadError, match="/dev/full cannot be written: No space left"):
            write(flush=flush)


@pytest.fixture
def small_files() -> Iterator[None]:
    """Limit the files of this process to 100 bytes."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)


VERBS = {
    "embed": ("embed", "MODEL", "TEXTS", "-o", "out.npy"),
    "embed as rows": ("embed", "MODEL", "TEXTS", "-o", "out.jsonl"),
    "convert": ("convert", "MODEL", "copy"),
    "export": ("export", "MODEL", "graph"),
    "quantize": ("quantize", "MODEL", "TEXTS", "-o", "small", "--min-cosine", "0.1"),
    "learn-tokenizer": ("learn-tokenizer", "TEXTS", "-o", "learned", "--vocab-size", "300"),
    "word2vec": ("word2vec", "TEXTS", "-o", "words.txt", "--width", "8", "--min-count", "1", "--epochs", "1"),
}


@pytest.mark.parametrize("verb", VERBS)
def test_verbs_that_write_files(
    verb: str,
    masked_model: Path,
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    monkeypatch.chdir(tmp_path)
    texts = tmp_path / "texts.txt"
    texts.write_text("paris is the capital of france\na cat sat on the mat\n" * 40)
    paths = {"MODEL": str(masked_model), "TEXTS": str(texts)}
    request.getfixturevalue("small_files")
    code, _, err = run(*(paths.get(word, word) for word in VERBS[verb]), "--quiet")
    assert code == 2, err
    assert "Traceback" not in err
    assert "too large" in err
    assert err.count("\n") == 1
    assert len(err) < 300 + 2 * len(str(tmp_path))
    file_names = sorted(path.name for path in tmp_path.iterdir())
    if not verb.startswith("embed"):
        assert file_names == ["texts.txt"]
        return
    assert file_names == [
        f"{VERBS[verb][-1]}.partial",
        "texts.txt",
    ]  # kept to resume when there is space again
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.getrlimit(resource.RLIMIT_FSIZE)[1],) * 2)
    code, _, err = run(*(paths.get(word, word) for word in VERBS[verb]), "--quiet")
    assert (code, err) == (0, "")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([VERBS[verb][-1], "texts.txt"])


@pytest.mark.parametrize(("unbuffered", "subject"), [("1", "Standard output or a file"), ("", "Standard output")])
def test_standard_output(masked_model: Path, unbuffered: str, subject: str) -> None:
    """An unbuffered write fails at once, a buffered one when it is flushed at the end."""
    with FULL.open("w") as full:
        process = subprocess.run(
            [sys.executable, "-c", MAIN, "tokens", str(masked_model), "a cat", "--json"],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUNBUFFERED": unbuffered},
        )
    assert process.returncode == 2
    assert process.stderr.decode() == f"clearhead: {subject} cannot be written: No space left on device.\n"
