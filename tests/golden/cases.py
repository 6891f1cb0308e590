"""Small runs, one per task and method: their data, settings, and the values that are compared.

`record.py` trains them with an earlier version of clearhead, the tests with this one, so that only public names are
used here.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

import clearhead
from clearhead.cli import main

HERE = Path(__file__).parent
EARLIER = HERE / "earlier"  # folders that an earlier version wrote
EXPECTED = HERE / "expected.json"  # what that version computed
ROOT = "/earlier"  # replaces the path of the recording machine in stored files
VARIABLE = "CLEARHEAD_DATA"
RECORDS = ("run.json", "metrics.json", "split.json", "clearhead.json", "ladder.json")  # these files may contain a path
NOT_READ = ("report.html", "log.jsonl", "README.md")  # files that no reader of a finished run needs

# fixes what tests vary by default; a single thread adds up in a fixed order
FIXED_SETTINGS: dict[str, Any] = {"seed": 0, "threads": 1, "precision": "float", "device": "cpu", "report": False}
NETWORK: dict[str, Any] = {"epochs": 10, "rate": 1e-2, "batch_rows": 16, "baselines": False}
HEAD: dict[str, Any] = {**NETWORK, "method": "head", "rate": 2e-2}
FEATURES: dict[str, Any] = {"method": "features", "layer": "last", "pooling": "mean", "strength": 1.0}
TFIDF: dict[str, Any] = {"method": "tfidf", "strength": 1.0}
MAJORITY: dict[str, Any] = {"method": "majority"}
TRANSLATE: dict[str, Any] = {
    "task": "translate",
    "source": "de",
    "target": "en",
    "vocabulary": 48,
    "epochs": 6,
    "rate": 1e-2,
    "batch_tokens": 256,
    "average": 2,
    "beam": 2,
}
TRANSFORMER = '{"width": 24, "heads": 2, "feed_width": 32, "encoder_layers": 1, "decoder_layers": 1}'
RECURRENT = '{"width": 16, "encoder_layers": 1, "decoder_layers": 1, "attention": "dot"}'

# task -> its data file, its model, the settings that every method shares, and the methods that can learn it
TASKS: dict[str, tuple[str, dict[str, Any], tuple[str, ...]]] = {
    "classify": ("reviews.csv", {}, ("finetune", "head", "features", "tfidf", "majority")),
    "multilabel": ("topics.jsonl", {}, ("finetune", "head", "features", "tfidf", "majority")),
    "pair": ("pairs.csv", {"task": "pair"}, ("finetune", "head", "features", "tfidf", "majority")),
    "regress": ("scores.csv", {"task": "regress"}, ("finetune", "head", "features", "tfidf", "majority")),
    "tag": ("orders.conll", {"task": "tag"}, ("finetune", "head", "features")),
    "span": ("questions.jsonl", {"task": "span"}, ("finetune", "head")),
    "choice": ("quiz.csv", {"task": "choice"}, ("finetune", "head")),
}
METHODS = {"finetune": NETWORK, "head": HEAD, "features": FEATURES, "tfidf": TFIDF, "majority": MAJORITY}
MODEL = {"finetune": "models/bert", "head": "models/bert", "features": "models/bert"}

# case -> the data file and the settings of `clearhead.train`; a model is a folder below the root
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    f"{task}-{method}": (data, shared | METHODS[method] | ({"model": MODEL[method]} if method in MODEL else {}))
    for task, (data, shared, methods) in TASKS.items()
    for method in methods
} | {
    "tag-features": ("orders.conll", {"method": "features", "model": "models/bert", "task": "tag", "layer": "last"}),
    "classify-gpt": ("reviews.csv", {**NETWORK, "model": "models/gpt", "lm_weight": 0.5}),
    "pair-gpt": ("pairs.csv", {**NETWORK, "model": "models/gpt", "task": "pair"}),
    "classify-layers": ("reviews.csv", {"method": "features", "model": "models/bert", "layers": "sweep"}),
    "classify-weighted": (
        "reviews.csv",
        {"method": "features", "model": "models/bert", "layer": "weighted", "pooling": "mean"},
    ),
    "classify-words": ("reviews.csv", {"method": "features", "model": "words", "strength": 1.0}),
    "pair-words": ("pairs.csv", {"method": "features", "model": "words", "task": "pair", "strength": 1.0}),
    "aspect-finetune": ("aspects.jsonl", {**NETWORK, "model": "models/bert", "task": "aspect"}),
    "translate-transformer": ("parallel.tsv", {**TRANSLATE, "family": "transformer", "config": TRANSFORMER}),
    "translate-rnn": ("parallel.tsv", {**TRANSLATE, "family": "rnn", "config": RECURRENT}),
}
PRETRAIN: dict[str, Any] = {
    "preset": "tiny",
    "config": json.dumps(
        {
            "hidden_size": 16,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "intermediate_size": 24,
            "max_position_embeddings": 32,
        }
    ),
    "vocab_size": 120,
    "max_length": 32,
    "batch_tokens": 256,
    "max_steps": 12,
    "evaluations": 3,
}
WORDS: dict[str, Any] = {"width": 8, "min_count": 1, "epochs": 20, "seed": 0, "threads": 1}
LADDER: dict[str, Any] = {**NETWORK, "methods": "majority,tfidf,finetune", "strength": 1.0}
QUANTIZED = ("classify-finetune", "translate-transformer")
# after this number of steps the process is killed
KILL_STEPS = {"classify-finetune": 60, "translate-transformer": 74, "pretrain": 7}
ROW_INTERVAL = 16  # every 16th row of the data file is predicted and compared


def _use_current_names(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Rename settings for this version; the cases have the names of version 0.1, which records them."""
    try:
        from clearhead.deprecation import PLAN_SETTINGS, TRAINING_SETTINGS, rename_stored
    except ImportError:  # version 0.1
        return dict(settings)
    return rename_stored(settings, TRAINING_SETTINGS | PLAN_SETTINGS)


def train_case(name: str, root: Path, output: Path | None, **changes: Any) -> clearhead.Run:
    """Train a case of `CASES` with the data and models below `root`."""
    data, settings = CASES[name]
    model = {"model": str(root / settings["model"])} if "model" in settings else {}
    return clearhead.train(
        root / "data" / data, output=output, **_use_current_names({**FIXED_SETTINGS, **settings, **model, **changes})
    )


def pretrain_case(root: Path, output: Path | None, **changes: Any) -> clearhead.PretrainResult:
    """Pre-train the small model."""
    return clearhead.pretrain(root / "data/text.txt", output=output, **{**FIXED_SETTINGS, **PRETRAIN, **changes})


def learn_words(root: Path, output: Path) -> None:
    """Train the word vectors that some cases use as features."""
    clearhead.word2vec(root / "data/reviews.csv", output, text="text", **WORDS)


def run_ladder(root: Path, output: Path, **changes: Any) -> clearhead.Ladder:
    """Compare three methods on the reviews."""
    settings = _use_current_names({**FIXED_SETTINGS, **LADDER, **changes})
    del settings["report"], settings["baselines"]  # a ladder sets both itself
    return clearhead.ladder(root / "data/reviews.csv", output=output, model=str(root / "models/bert"), **settings)


def read_answers(folder: Path, root: Path, name: str, **options: Any) -> list[dict[str, Any]]:
    """Predict every sixteenth row of a folder's data."""
    data = root / "data" / CASES[name][0]
    if CASES[name][1].get("task") == "translate":
        sources = [line.split("\t")[0] for line in data.read_text(encoding="utf-8").splitlines()[1::ROW_INTERVAL]]
        translations = clearhead.load(folder, **options).generate(sources, num_beams=2)
        return [{"text": answer.text, "score": answer.score} for answer in translations]
    predictor = clearhead.load_predictor(folder, threads=1, **options)
    return [answer.to_json() for answer in clearhead.predict(predictor, data)[::ROW_INTERVAL]]


def read_metrics(folder: Path, root: Path, name: str, part: str | None = "test") -> dict[str, Any]:
    """Evaluate a folder on the test rows of its run, or on all rows."""
    evaluation = clearhead.evaluate(folder, root / "data" / CASES[name][0], part=part)
    metrics: dict[str, Any] = evaluation.to_json()["metrics"]
    return metrics


def describe(folder: Path) -> dict[str, Any]:
    """Return what `clearhead describe --json` prints about a folder, without prose."""
    output = io.StringIO()
    with redirect_stdout(output):
        main(["describe", str(folder), "--json"])
    facts: dict[str, Any] = json.loads(output.getvalue())
    return _without_prose(facts)


def _without_prose(facts: Any) -> Any:
    prose = ("reference", "tokenizer", "notes", "said_by", "architecture", "positions", "norm", "activation")
    if isinstance(facts, dict):
        remaining = {key: _without_prose(value) for key, value in facts.items() if key not in (*prose, "disk_bytes")}
        return {key: value for key, value in remaining.items() if key not in ("machine", "versions")}
    return facts


def read_weights(folder: Path) -> dict[str, np.ndarray[Any, Any]]:
    """Read all tensors of a folder and its subfolders."""
    return {
        f"{path.relative_to(folder).as_posix()}:{name}": tensor
        for path in sorted(folder.rglob("*.safetensors"))
        for name, tensor in sorted(load_file(path).items())
    }


def digest(weights: Mapping[str, np.ndarray[Any, Any]]) -> str:
    """Hash names, shapes, types and bits."""
    sha256 = hashlib.sha256()
    for name, tensor in sorted(weights.items()):
        sha256.update(f"{name} {tensor.dtype} {tensor.shape}\n".encode() + np.ascontiguousarray(tensor).tobytes())
    return sha256.hexdigest()


def read_split(folder: Path) -> dict[str, Any]:
    """Read which rows a run held out, and the hashes of the rows of each part."""
    runs = {path.parent: json.loads(path.read_text())["data"] for path in sorted(folder.rglob("run.json"))}
    return {
        run.relative_to(folder).as_posix(): {
            "parts": json.loads((run / "split.json").read_text())["parts"],
            "labels": data.get("labels"),
            "rows": {part: [rows["rows"], rows["sha256"]] for part, rows in data.get("data", {}).items()},
        }
        for run, data in runs.items()
    }


def resolve_recipes(module: Any) -> dict[str, Any]:
    """Resolve each recipe to its settings with the functions of the module that reads recipes."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = ROOT  # recipes read their data from this folder
    try:
        paths = sorted((HERE.parents[1] / "recipes").glob("*.toml"))
        plans = {path.name: asdict(module.make_plan(module.read_recipe(path))) for path in paths}
    finally:
        os.environ.pop(VARIABLE) if before is None else os.environ.update({VARIABLE: before})
    resolved: dict[str, Any] = json.loads(json.dumps(plans))
    return resolved


def read_files(folder: Path) -> dict[str, Any]:
    """List the files of a run that readers need, with the values of JSON records except times and versions."""
    values: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name not in NOT_READ:
            value = json.loads(path.read_text()) if path.name in RECORDS else {}
            compared = value["parts"] if path.name == "metrics.json" else value
            values[path.relative_to(folder).as_posix()] = _without_times(compared)
    return values


def _without_times(values: Any) -> Any:
    if isinstance(values, dict):
        return {key: _without_times(value) for key, value in values.items() if key not in ("clearhead", "seconds")}
    return values


def read_machine(folder: Path) -> dict[str, Any]:
    """Read what the bits of a run depend on: CPU, threads and library versions."""
    trained = json.loads((folder / "clearhead.json").read_text())["trained"]
    versions = {name: version for name, version in trained["versions"].items() if name != "clearhead"}
    return {"machine": trained["machine"], "versions": versions}
