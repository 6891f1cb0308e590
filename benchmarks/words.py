"""word2vec compared with gensim: words per second and quality with the same settings and text, interleaved.

    python benchmarks/words.py [--words 1500000] [--repeat 5] [--threads 1] [--modes skipgram,cbow]

The text is corpus_novels and corpus_imdb_unsup in CLEARHEAD_DATA, half of the words from each, split into words by the
same rule. Each run is a separate process; its time starts when the sentences are in memory and includes building the
vocabulary and five epochs (width 100, window 5, 5 negative samples, words that occur at least five times). The quality
is that of the first repeat: WordSim-353, SimLex-999 and the analogies of questions-words.txt, with 95 % intervals.
Target: at least half of gensim's speed, and a quality within its interval or above.
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


def read_sentences(data: Path, words: int) -> list[list[str]]:
    """Read lines as lowercase words, half of them from each text."""
    from clearhead.words.corpus import read_file_sentences

    def read_part(name: str) -> Any:
        remaining = words // len(TEXTS)
        for line in read_file_sentences([data / name / "train.txt.gz"], None, None, []):
            yield line
            remaining -= len(line)
            if remaining <= 0:
                return

    return list(chain.from_iterable(read_part(name) for name in TEXTS))


def run_once(arguments: argparse.Namespace) -> dict[str, Any]:
    """Train and measure once in this process."""
    from clearhead.words import WordVectors
    from clearhead.words.learn import learn_words
    from clearhead.words.measure import measure_analogies, measure_similarity
    from clearhead.words.steps import WordSettings

    data = Path(os.environ["CLEARHEAD_DATA"])
    corpus = read_sentences(data, arguments.words)
    if arguments.which == "gensim":
        from gensim.models import Word2Vec
    wall, cpu = time.perf_counter(), time.process_time()
    if arguments.which == "clearhead":
        settings = WordSettings(mode=arguments.modes, seed=arguments.seed, threads=arguments.threads)
        vectors = learn_words(corpus, settings).vectors
    else:
        skip = int(arguments.modes == "skipgram")
        word2vec = Word2Vec(corpus, sg=skip, seed=arguments.seed, workers=arguments.threads)  # its defaults equal ours
        vectors = WordVectors(words=tuple(word2vec.wv.index_to_key), matrix=word2vec.wv.vectors, name="gensim")
    times = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
    tests = data / "word_similarity"
    if not arguments.quality:
        return times | {"read": sum(map(len, corpus))}
    quality = {name: str(measure_similarity(vectors, tests / file).spearman) for name, file in TESTS.items()}
    analogies = measure_analogies(vectors, tests / QUESTIONS).whole
    quality["analogies"] = f"{analogies.accuracy} of {analogies.known:,}"
    return times | {"read": sum(map(len, corpus)), "words": len(vectors), "quality": quality}


def run_in_process(learner: str, mode: str, seed: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """Train and measure once in a fresh process, with one thread per matrix product."""
    command = [sys.executable, __file__, "--which", learner, "--modes", mode, "--seed", str(seed)]
    command += ["--words", str(arguments.words), "--threads", str(arguments.threads)]
    command += ["--quality"] if seed == 1 else []
    with tempfile.TemporaryFile("w+") as out:
        subprocess.run(command, stdout=out, check=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
        out.seek(0)
        record: dict[str, Any] = json.loads(out.read().splitlines()[-1])
    print(f"{mode} {learner} seed {seed}: {record}", file=sys.stderr, flush=True)
    return record


def main() -> None:
    """Print a Markdown table of both, mode by mode."""
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
        print(json.dumps(run_once(arguments)))
        return
    rows = []
    for mode in arguments.modes.split(","):
        runs: dict[str, list[dict[str, Any]]] = {"clearhead": [], "gensim": []}
        for seed in range(1, arguments.repeat + 1):
            for learner, records in runs.items():
                records.append(run_in_process(learner, mode, seed, arguments))
        speed = {
            clock: {
                learner: statistics.median(5 * record["read"] / record[clock] for record in runs[learner])
                for learner in runs
            }
            for clock in ("wall", "cpu")
        }
        for learner, records in runs.items():
            ratios = [f"{speed[clock][learner] / speed[clock]['gensim']:.2f}" for clock in ("wall", "cpu")]
            quality = records[0]["quality"]
            rows.append([mode, learner, f"{speed['cpu'][learner]:,.0f}", *ratios, *quality.values()])
    header = ["mode", "learned by", "words per CPU second", "x gensim by the clock", "x gensim by CPU time"]
    header += [*TESTS, "analogies"]
    for row in (header, ["---"] * len(header), *rows):
        print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    main()
