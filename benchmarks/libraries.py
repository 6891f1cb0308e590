"""Our own code compared with libraries that could replace it: equal results, speed, and effects of hostile files.

    python benchmarks/libraries.py [sentencepiece] [hostile] [regex] [png] [safetensors]

The figures of docs/dependencies.md come from here. Times are CPU seconds (safetensors: wall clock), medians of five
interleaved rounds. Texts are 20,000 random ones in thirty scripts and up to 300 lines of each file of CLEARHEAD_DATA.
Hostile files are read in a child process with 4 GB and 30 s. `png` needs `pip install resvg-py`; sentencepiece and
regex come with the extra `dev`.
"""

from __future__ import annotations

import io
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

REPO = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPO))

from fuzz import piece_files  # noqa: E402
from tests.text.random_texts import make_random_texts  # noqa: E402

SOURCE = REPO / "src" / "clearhead"
ROUNDS, TIMEOUT = 5, 30
Tokenize = Callable[[str], list[Any]]


def count_lines(*names: str) -> int:
    """Count the lines of our files."""
    return sum(len((SOURCE / name).read_text(encoding="utf-8").splitlines()) for name in names)


def read_shared_texts(max_per_file: int = 300) -> list[str]:
    """Sample lines of every text file of the shared data."""
    folder = os.environ.get("CLEARHEAD_DATA")
    texts: list[str] = []
    for path in sorted(Path(folder).glob("*/*")) if folder else []:
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (UnicodeDecodeError, OSError):
            continue
        random.Random(path.name).shuffle(lines)
        texts += [line[:2000] for line in lines[:max_per_file] if line.strip()]
    return texts


def time_interleaved(
    calls: Sequence[Callable[[], object]], clock: Callable[[], float] = time.process_time
) -> list[float]:
    """Measure the median time of each call over interleaved rounds."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(ROUNDS):
        for durations, call in zip(times, calls, strict=True):
            start = clock()
            call()
            durations.append(clock() - start)
    return [median(durations) for durations in times]


def compare_cuts(name: str, texts: Sequence[str], ours: Tokenize, theirs: Tokenize) -> None:
    """Count equal results, and compare the speed."""
    equal = sum(ours(text) == theirs(text) for text in texts)
    our_seconds, their_seconds = time_interleaved(
        [lambda: [ours(text) for text in texts], lambda: [theirs(text) for text in texts]]
    )
    character_count = sum(map(len, texts))
    print(
        f"  {name:<44}{equal:>7,} of {len(texts):,} equal; "
        f"ours {our_seconds / character_count * 1e6:.2f} µs per character, "
        f"theirs {our_seconds / their_seconds:.1f} x as fast"
    )


def make_sentencepiece_pair(data: bytes) -> tuple[Tokenize, Tokenize, Tokenize, Tokenize]:
    """Make our and their tokenization, without and with offsets."""
    import sentencepiece

    from clearhead.text.sentencepiece.model_file import parse_model
    from clearhead.text.sentencepiece.normalizer import SentencePieceNormalizer
    from clearhead.text.sentencepiece.segmenter import make_segmenter
    from clearhead.text.sentencepiece.trie import StepBudget

    model = parse_model(data, "model")
    normalizer, segment = SentencePieceNormalizer(model, "model"), make_segmenter(model, "model")
    processor = sentencepiece.SentencePieceProcessor(model_proto=data)
    until_022: Any = "immutable_proto"

    def ours(text: str) -> list[Any]:
        budget = StepBudget(len(text))
        normalized, offsets = normalizer.normalize(text, budget)
        return [(piece, offsets[start], offsets[end]) for piece, start, end in segment(normalized, budget)]

    def theirs(text: str) -> list[Any]:
        try:
            encoded = processor.encode(text, out_type=until_022).pieces
        except ValueError:  # from 0.2.3 on
            encoded = processor.encode(text, return_type="offset_mapping")
            return [(piece, *offsets) for piece, offsets in zip(encoded["pieces"], encoded["offsets"], strict=True)]
        return [(piece.piece, piece.begin, piece.end) for piece in encoded]

    return (
        lambda text: [piece for piece, _, _ in ours(text)],
        lambda text: list(processor.encode(text, out_type=str)),
        ours,
        theirs,
    )


def compare_sentencepiece() -> None:
    """Compare SentencePiece tokenization."""
    import sentencepiece

    print(f"sentencepiece {sentencepiece.__version__}")
    our_modules = ("model_file", "normalizer", "segmenter", "decoder", "trie")
    paths = [f"text/sentencepiece/{name}.py" for name in our_modules]
    print(f"  our lines: {count_lines(*paths):,} ({', '.join(our_modules)})")
    real_texts = read_shared_texts()
    sample = [text for text in real_texts if len(text) < 1000] or make_random_texts(5000, seed=9)

    def train_model(**settings: Any) -> bytes:
        out = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(sample),
            model_writer=out,
            vocab_size=8000,
            hard_vocab_limit=False,
            minloglevel=2,
            num_threads=1,
            **settings,
        )
        return out.getvalue()

    models = {
        "unigram, 8,000": train_model(model_type="unigram"),
        "bpe with bytes": train_model(model_type="bpe", byte_fallback=True),
    }
    albert = Path(os.environ.get("CLEARHEAD_WEIGHTS", "")) / "tokenizers/albert/spiece.model"
    if albert.is_file():
        models = {"unigram, 30,000 (ALBERT's)": albert.read_bytes(), **models}
    for name, data in models.items():
        ours, theirs, our_offsets, their_offsets = make_sentencepiece_pair(data)
        for kind, texts in (("random", make_random_texts(20_000, seed=7)), ("real", real_texts)):
            if texts:
                compare_cuts(f"{name}, {kind}", texts, ours, theirs)
                compare_cuts(f"{name}, {kind}, with offsets", texts, our_offsets, their_offsets)


def compare_hostile() -> None:
    """Compare the effects of hostile SentencePiece files."""
    import sentencepiece

    print(f"hostile files, sentencepiece {sentencepiece.__version__}")
    for name, (data, text) in make_hostile_files().items():
        print(f"  {name}: theirs {read_hostile('theirs', data, text)}; ours {read_hostile('ours', data, text)}")


def make_hostile_files() -> dict[str, tuple[bytes, str]]:
    """Make small or valid files that are expensive to read, each with a text."""
    letter_pieces = [(letter, -1.0, piece_files.NORMAL) for letter in "ab▁"]
    nested_pieces = [("a" * size, -1.0 - size / 100, piece_files.NORMAL) for size in range(1, 513)]
    long_text = "a" * 300_000
    growing_table, cyclic_table = piece_files.make_growing_table, piece_files.make_cyclic_table
    many_pieces = [(f"p{number}", -1.0, piece_files.NORMAL) for number in range(2_000_000)]
    return {
        "512 nested pieces, 300,000 letters": (
            piece_files.make_piece_file([*nested_pieces, *letter_pieces[1:]]),
            long_text,
        ),
        "2,000,000 pieces": (piece_files.make_piece_file([*letter_pieces, *many_pieces]), "abc"),
        "one letter becomes 1,000": (
            piece_files.make_piece_file(letter_pieces, table=growing_table("a", b"z" * 1000)),
            long_text,
        ),
        "one letter becomes 60,000": (
            piece_files.make_piece_file(letter_pieces, table=growing_table("a", b"z" * 60_000)),
            long_text,
        ),
        "cyclic table": (piece_files.make_piece_file(letter_pieces, table=cyclic_table("a")), long_text),
        "cyclic table without rules": (
            piece_files.make_piece_file(letter_pieces, table=cyclic_table("a", has_rules=False)),
            long_text,
        ),
        "table of 0xff": (piece_files.make_piece_file(letter_pieces, table=b"\x00\x04\0\0" + b"\xff" * 1030), "abc"),
    }


HOSTILE_CHILD = """
import resource, sys, time
from pathlib import Path
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
which, folder = sys.argv[1], Path(sys.argv[2])
data, text = (folder / "model").read_bytes(), (folder / "text").read_text()
if which == "theirs":
    import sentencepiece
    before = time.process_time()
    count = len(sentencepiece.SentencePieceProcessor(model_proto=data).encode(text, out_type=str))
else:
    from clearhead.text.sentencepiece.normalizer import SentencePieceNormalizer
    from clearhead.text.sentencepiece.model_file import parse_model
    from clearhead.text.sentencepiece.segmenter import make_segmenter
    from clearhead.text.sentencepiece.trie import StepBudget
    before = time.process_time()
    model, budget = parse_model(data, "x.spm"), StepBudget(len(text))
    normalized, _ = SentencePieceNormalizer(model, "x.spm").normalize(text, budget)
    count = len(make_segmenter(model, "x.spm")(normalized, budget))
peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(f"{count:,} pieces, {time.process_time() - before:.1f} s, {peak // 1024:,} MB")
"""


def read_hostile(library: str, data: bytes, text: str) -> str:
    """Read a hostile file in a child process, and describe the outcome."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "model").write_bytes(data)
        (Path(folder) / "text").write_text(text)
        command = [sys.executable, "-c", HOSTILE_CHILD, library, folder]
        before = os.times()
        try:
            process = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
        except subprocess.TimeoutExpired:
            return f"timeout after {TIMEOUT} s"
    if process.returncode:
        after = os.times()
        seconds = after.children_user + after.children_system - before.children_user - before.children_system
        message = (process.stderr.strip().splitlines() or [f"exit code {process.returncode}"])[-1]
        return f"{message.removeprefix('clearhead.errors.')[:70]!r} after {seconds:.1f} s"
    return process.stdout.strip()


def compare_regex() -> None:
    """Compare word boundaries with the regex library, which has Unicode properties instead of lists."""
    import regex

    from clearhead.text import words

    print(f"regex {regex.__version__}")
    print(f"  our lines: {count_lines('text/words.py'):,} (words), of which it would save 6")
    unspaced = "".join(f"{chr(first)}-{chr(last)}" for first, last in words.UNSPACED_RANGES)
    sign = f"\\S[\\p{{M}}{words.VARIATION_MARKS}]*"
    letters = f"(?:[[\\p{{L}}\\p{{N}}]--[{unspaced}]][\\p{{M}}\u200c\u200d]*)+"
    start = time.process_time()
    pattern = regex.compile(f"(?V1:{letters}|[\U0001f1e6-\U0001f1ff]{{2}}|{sign}(?:\u200d{sign})*)")
    print(f"  first use: theirs {(time.process_time() - start) * 1000:.0f} ms", end=", ")
    words._compile_word_pattern.cache_clear()
    start = time.process_time()
    words._compile_word_pattern(keep_inner_punctuation=False)
    print(f"ours {(time.process_time() - start) * 1000:.0f} ms")

    def theirs(text: str) -> list[Any]:
        return [match.span() for match in pattern.finditer(text)]

    for kind, texts in (("random", make_random_texts(20_000, seed=7)), ("real", read_shared_texts())):
        if texts:
            compare_cuts(f"words of a tagger, {kind}", texts, words.find_word_spans, theirs)
    characters = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    letter, space = regex.compile(r"[\p{L}\p{N}]"), regex.compile(r"\s")
    letter_differences = sum(character.isalnum() != bool(letter.match(character)) for character in characters)
    space_differences = sum(character.isspace() != bool(space.match(character)) for character in characters)
    print(f"  characters that only one treats as a letter: {letter_differences:,}, as whitespace: {space_differences}")


def compare_png() -> None:
    """Compare PNGs of the pictures of the docs."""
    import resvg_py

    from clearhead.explain import png

    print(f"resvg-py {resvg_py.__version__}")
    print(f"  our lines: {count_lines('explain/svg/raster.py'):,} (raster), on matplotlib")
    pictures = [path.read_text() for path in sorted((REPO / "docs/pictures").glob("*.svg"))]
    pictures = [svg for svg in pictures if " width=" in svg[: svg.index(">")]]
    base_settings = {"zoom": 2.0, "background": "#ffffff"}
    font_settings = base_settings | {"font_family": "DejaVu Sans", "sans_serif_family": "DejaVu Sans"}

    def theirs(svg: str, **settings: Any) -> bytes:
        return bytes(resvg_py.svg_to_bytes(svg_string=svg, **settings))

    png(pictures[0])
    our_seconds, their_seconds = time_interleaved(
        [lambda: [png(svg) for svg in pictures], lambda: [theirs(svg, **font_settings) for svg in pictures]]
    )
    print(f"  {len(pictures)} pictures: ours {our_seconds:.2f} s, theirs {our_seconds / their_seconds:.1f} x as fast")
    for name, settings in (
        ("as installed", base_settings),
        ("without system fonts", font_settings | {"skip_system_fonts": True}),
    ):
        lost = sum(theirs(svg, **settings) == theirs(_strip_text(svg), **base_settings) for svg in pictures)
        print(f"  {name}: {lost} of {len(pictures)} pictures silently lose all text")


def _strip_text(svg: str) -> str:
    from xml.etree import ElementTree

    root = ElementTree.fromstring(svg)
    for element in root.iter():
        if element.tag.endswith("text"):
            element.text = ""
    return ElementTree.tostring(root, encoding="unicode")


def compare_safetensors() -> None:
    """Compare reading of weights."""
    import numpy as np
    import safetensors
    from safetensors.numpy import load_file, save_file

    from clearhead.checkpoint.weights import WEIGHTS_FILE, MappedTensors, list_tensors

    print(f"safetensors {safetensors.__version__}")
    print(f"  our lines: {count_lines('checkpoint/weights.py'):,} (weights), also for shards, limits and writing")
    with tempfile.TemporaryDirectory() as folder:
        rng = np.random.default_rng(0)
        tensors = {f"layer.{number}.weight": rng.random((768, 768), np.float32) for number in range(100)}
        save_file(tensors, Path(folder) / WEIGHTS_FILE)

        def ours() -> dict[str, Any]:
            mapped = MappedTensors(list_tensors(Path(folder)))
            return {name: mapped.array(name) for name in tensors}

        def theirs() -> dict[str, Any]:
            return dict(load_file(Path(folder) / WEIGHTS_FILE))

        equal = sum(bool((ours()[name] == tensor).all()) for name, tensor in tensors.items())

        def summed(read: Callable[[], dict[str, Any]]) -> Callable[[], object]:
            return lambda: [float(tensor.sum()) for tensor in read().values()]

        calls = [ours, theirs, summed(ours), summed(theirs)]
        times = [f"{seconds * 1000:.1f} ms" for seconds in time_interleaved(calls, time.perf_counter)]
    print(
        f"  {equal} of 100 tensors of 2.4 MB equal; read: ours {times[0]}, theirs {times[1]}; "
        f"read and summed: ours {times[2]}, theirs {times[3]}"
    )


COMPARISONS = {
    "sentencepiece": compare_sentencepiece,
    "hostile": compare_hostile,
    "regex": compare_regex,
    "png": compare_png,
    "safetensors": compare_safetensors,
}


def main(names: Sequence[str]) -> None:
    """Run the named comparisons, or all."""
    if unknown := set(names) - set(COMPARISONS):
        sys.exit(f"unknown: {json.dumps(sorted(unknown))}; available: {', '.join(COMPARISONS)}")
    for name in names or COMPARISONS:
        try:
            COMPARISONS[name]()
        except ModuleNotFoundError as error:
            print(f"{name}: {error.name} is not installed")


if __name__ == "__main__":
    main(sys.argv[1:])
