"""word2vec beside gensim: words a second and quality at the same settings on the same text, interleaved.

    python benchmarks/words.py [--words 1500000] [--repeat 5] [--threads 1] [--modes skipgram,cbow]

The text is corpus_novels and corpus_imdb_unsup in CLEARHEAD_DATA, half of the words from each, cut into words once by
the same rule. Each run is a process of its own; its time begins when the sentences are in memory and counts reading the
vocabulary and five epochs (width 100, window 5, 5 negative samples, words that come five times or more). The quality is
that of the first repeat: WordSim-353, SimLex-999 and the analogies of questions-words.txt, with 95 % intervals. The
promise: at least half of gensim's speed, and a quality within its interval or above.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import chain
from pathlib import Path
from typing import Any

TEXTS = ("corpus_novels", "corpus_imdb_unsup")
TESTS = {"WordSim-353": "wordsim353.tsv", "SimLex-999": "simlex999.txt"}
QUESTIONS = "questions-words.txt"


def sentences(data: Path, words: int) -> list[list[str]]:
    """Lines as words in small letters, half of them from each text."""
    from clearhead.words.corpus import read_file_sentences

    def some(name: str) -> Any:
        left = words // len(TEXTS)
        for line in read_file_sentences([data / name / "train.txt.gz"], None, None, []):
            yield line
            left -= len(line)
            if left <= 0:
                return

    return list(chain.from_iterable(some(name) for name in TEXTS))


def once(arguments: argparse.Namespace) -> dict[str, Any]:
    """One run in this process."""
    from clearhead.words import WordVectors
    from clearhead.words.learn import learn_words
    from clearhead.words.measure import measure_analogies, measure_similarity
    from clearhead.words.steps import WordSettings

    data = Path(os.environ["CLEARHEAD_DATA"])
    text = sentences(data, arguments.words)
    if arguments.which == "gensim":
        from gensim.models import Word2Vec
    wall, cpu = time.perf_counter(), time.process_time()
    if arguments.which == "clearhead":
        settings = WordSettings(mode=arguments.modes, seed=arguments.seed, threads=arguments.threads)
        vectors = learn_words(text, settings).vectors
    else:
        skip = int(arguments.modes == "skipgram")
        made = Word2Vec(text, sg=skip, seed=arguments.seed, workers=arguments.threads)  # its defaults are ours
        vectors = WordVectors(words=tuple(made.wv.index_to_key), matrix=made.wv.vectors, name="gensim")
    spent = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
    tests = data / "word_similarity"
    if not arguments.quality:
        return spent | {"read": sum(map(len, text))}
    quality = {name: str(measure_similarity(vectors, tests / file).spearman) for name, file in TESTS.items()}
    solved = measure_analogies(vectors, tests / QUESTIONS).whole
    quality["analogies"] = f"{solved.accuracy} of {solved.known:,}"
    return spent | {"read": sum(map(len, text)), "words": len(vectors), "quality": quality}


def child(which: str, mode: str, seed: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """One run in a fresh process, with one thread for each product of matrices."""
    command = [sys.executable, __file__, "--which", which, "--modes", mode, "--seed", str(seed)]
    command += ["--words", str(arguments.words), "--threads", str(arguments.threads)]
    command += ["--quality"] if seed == 1 else []
    with tempfile.TemporaryFile("w+") as out:
        subprocess.run(command, stdout=out, check=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
        out.seek(0)
        made: dict[str, Any] = json.loads(out.read().splitlines()[-1])
    print(f"{mode} {which} seed {seed}: {made}", file=sys.stderr, flush=True)
    return made


def main() -> None:
    """A Markdown table of both, mode by mode."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--words", type=int, default=1_500_000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--modes", default="skipgram,cbow")
    parser.add_argument("--which", choices=("clearhead", "gensim"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quality", action="store_true")
    arguments = parser.parse_args()
    if arguments.which is not None:
        print(json.dumps(once(arguments)))
        return
    rows = []
    for mode in arguments.modes.split(","):
        runs: dict[str, list[dict[str, Any]]] = {"clearhead": [], "gensim": []}
        for seed in range(1, arguments.repeat + 1):
            for which, done in runs.items():
                done.append(child(which, mode, seed, arguments))
        speed = {
            clock: {which: statistics.median(5 * one["read"] / one[clock] for one in runs[which]) for which in runs}
            for clock in ("wall", "cpu")
        }
        for which, done in runs.items():
            ratios = [f"{speed[clock][which] / speed[clock]['gensim']:.2f}" for clock in ("wall", "cpu")]
            found = done[0]["quality"]
            rows.append([mode, which, f"{speed['cpu'][which]:,.0f}", *ratios, *found.values()])
    head = ["mode", "learned by", "words a second of CPU", "x gensim by the clock", "x gensim by CPU time"]
    head += [*TESTS, "analogies"]
    for row in (head, ["---"] * len(head), *rows):
        print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    main()
