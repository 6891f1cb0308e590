"""Mean-pooling heads: transformers and sentence-transformers compute the same logits from the saved folder."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

import clearhead
from clearhead.core.build import build_network, named_arrays
from clearhead.core.runner import CoreRunner
from clearhead.engine.graph import Graph
from clearhead.engine.heads import pool_tokens
from clearhead.engine.layers import GraphBuilder, float_dense
from clearhead.engine.runner import EngineRunner
from clearhead.engine.session import Session
from clearhead.errors import CheckpointError, InputError
from clearhead.families import FAMILIES
from clearhead.model import Model
from tests.family_configs import FIXED_CONFIGS, make_batch_for
from tests.parity_models import TOLERANCE, import_transformers, perturb_weights
from tests.tiny_models import tiny_model, tiny_sentence_encoder

LABELS = ("one", "two", "three")
TEXTS = ["the film was good", "a plot", "we saw some very sad music and it was poor but the end was great"]
PAIRS = [("the film was good", "bad"), ("a plot", "it was the end of the film"), ("we", "saw")]
MEAN_FAMILIES = [family for family in FIXED_CONFIGS if "head_pooling" in FAMILIES[family].config_keys]


def create_classifier(family: str, **config: Any) -> Model:
    """Create a tiny classifier with perturbed weights, so that every parameter influences the logits."""
    sizes = {key: value for key, value in FIXED_CONFIGS[family].items() if key in FAMILIES[family].config_keys}
    model: Model = clearhead.create(family, config=sizes | config, head="classify", labels=LABELS)
    perturb_weights(model.module)
    return model


def run_logits(model: Model, batch: Any) -> Any:
    """Logits of a ragged batch."""
    return model.run(**batch.to_clearhead(), hidden=False).logits


def test_every_encoder_family_has_a_head_for_the_mean() -> None:
    assert MEAN_FAMILIES == ["bert", "roberta", "xlm-roberta", "distilbert", "electra", "albert", "mpnet", "deberta-v2"]


@pytest.mark.parametrize("family", MEAN_FAMILIES)
def test_a_saved_head_is_the_mean_of_what_transformers_computes(tmp_path: Path, family: str) -> None:
    model, batch = (
        create_classifier(family, head_pooling="mean"),
        make_batch_for(family, FIXED_CONFIGS[family], (9, 4, 6)),
    )
    ours = run_logits(model, batch)
    model.save(tmp_path / "model")
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    assert not any("SequenceClassification" in title for title in config["architectures"])
    encoder = import_transformers().AutoModel.from_pretrained(tmp_path / "model").eval()
    with torch.inference_mode():
        states = encoder(**batch.to_transformers()).last_hidden_state.numpy()
    mean = (states * batch.mask[..., None]).sum(1) / batch.mask.sum(1)[:, None]
    dense, out = (load_file(tmp_path / "model" / name / "model.safetensors") for name in ("2_Dense", "3_Dense"))

    def head(x: Any) -> Any:
        inner = np.tanh(x @ dense["linear.weight"].T + dense["linear.bias"])
        return inner @ out["linear.weight"].T + out["linear.bias"]

    np.testing.assert_allclose(ours, head(mean), atol=TOLERANCE)
    assert np.abs(ours - head(states[:, 0])).max() > 100 * TOLERANCE  # the first token's state gives other logits


@pytest.mark.parametrize("family", MEAN_FAMILIES)
def test_a_saved_head_loads_in_both_runtimes(tmp_path: Path, family: str) -> None:
    model, batch = (
        create_classifier(family, head_pooling="mean"),
        make_batch_for(family, FIXED_CONFIGS[family], (9, 4, 6)),
    )
    ours = run_logits(model, batch)
    model.save(tmp_path / "model")
    for runtime in ("core", "engine"):
        reloaded = clearhead.load(tmp_path / "model", runtime)
        assert (reloaded.head, reloaded.labels, reloaded.shape.head_pooling, reloaded.fresh) == (
            "classify",
            LABELS,
            "mean",
            (),
        )
        np.testing.assert_allclose(run_logits(reloaded, batch), ours, atol=1e-4 if runtime == "engine" else TOLERANCE)
        reloaded.save(tmp_path / f"from {runtime}")
        np.testing.assert_allclose(
            run_logits(clearhead.load(tmp_path / f"from {runtime}", "core"), batch), ours, atol=1e-6
        )


def test_modernbert_writes_classifier_pooling_as_transformers_does(tmp_path: Path) -> None:
    model = create_classifier("modernbert")
    model.save(tmp_path / "first")
    mean_model = clearhead.load(tmp_path / "first", "core", head="classify", fresh=True, head_pooling="mean")
    assert "head.out.weight" in mean_model.fresh  # a head trained on another pooling is not reused
    mean_model.save(tmp_path / "mean")
    assert json.loads((tmp_path / "mean" / "config.json").read_text())["classifier_pooling"] == "mean"
    theirs = import_transformers().AutoModelForSequenceClassification.from_pretrained(tmp_path / "mean").eval()
    batch = make_batch_for("modernbert", FIXED_CONFIGS["modernbert"], (9, 4, 6))
    with torch.inference_mode():
        np.testing.assert_allclose(
            run_logits(mean_model, batch), theirs(**batch.to_transformers()).logits.numpy(), atol=TOLERANCE
        )
    assert not (tmp_path / "mean" / "modules.json").exists()


@pytest.fixture
def sentences(tmp_path: Path) -> Path:
    return tiny_sentence_encoder(tmp_path / "tiny")


def load_new_head(folder: Path, **options: Any) -> Model:
    """Load a folder with a new, perturbed head."""
    model: Model = clearhead.load(folder, "core", head="classify", labels=LABELS, fresh=True, **options)
    perturb_weights(model.module)
    return model


def text_logits(model: Model, texts: list[Any]) -> Any:
    """Tokenize and run the texts or pairs one at a time."""
    rows = []
    for text in texts:
        encoding = model.tokenizer.encode(*((text,) if isinstance(text, str) else text))
        rows.append(model.run([encoding.ids], None, [encoding.segments], hidden=False).logits[0])  # type: ignore[index]
    return np.stack(rows)


def test_sentence_transformers_computes_the_logits(tmp_path: Path, sentences: Path) -> None:
    model = load_new_head(sentences, head_pooling="auto")
    assert model.shape.head_pooling == "mean"
    folder = model.save(tmp_path / "model")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from sentence_transformers import SentenceTransformer

        theirs = SentenceTransformer(str(folder), device="cpu")
    np.testing.assert_allclose(theirs.encode(TEXTS), text_logits(model, TEXTS), atol=TOLERANCE)
    np.testing.assert_allclose(theirs.encode(PAIRS), text_logits(model, PAIRS), atol=TOLERANCE)
    assert theirs.max_seq_length == 24
    assert "SentenceTransformer" in (folder / "README.md").read_text()


def test_transformers_reports_its_own_head_as_missing(tmp_path: Path, sentences: Path) -> None:
    folder = load_new_head(sentences, head_pooling="mean").save(tmp_path / "model")
    model_class = import_transformers().AutoModelForSequenceClassification
    _, loading_info = model_class.from_pretrained(folder, output_loading_info=True)
    assert {"classifier.weight", "classifier.bias"} <= set(loading_info["missing_keys"])


def test_the_first_token_is_read_as_transformers_does(tmp_path: Path, sentences: Path) -> None:
    model = load_new_head(sentences, head_pooling="first")
    folder = model.save(tmp_path / "model")
    assert not (folder / "modules.json").exists()
    theirs, loading_info = import_transformers().BertForSequenceClassification.from_pretrained(
        folder, output_loading_info=True
    )
    assert not loading_info["missing_keys"]
    tokenizer = import_transformers().AutoTokenizer.from_pretrained(folder)
    with torch.inference_mode():
        expected = [theirs.eval()(**tokenizer(text, return_tensors="pt")).logits[0].numpy() for text in TEXTS]
    np.testing.assert_allclose(text_logits(model, TEXTS), np.stack(expected), atol=TOLERANCE)


def test_a_new_head_reads_the_mean_only_if_the_folder_pools_the_mean(tmp_path: Path, sentences: Path) -> None:
    plain = tiny_model(tmp_path / "plain")
    assert load_new_head(plain, head_pooling="auto").shape.head_pooling == "first"
    assert load_new_head(sentences).shape.head_pooling == "first"  # the default is transformers' head
    config = json.loads((sentences / "1_Pooling" / "config.json").read_text())
    config |= {"pooling_mode_mean_tokens": False, "pooling_mode_cls_token": True}
    (sentences / "1_Pooling" / "config.json").write_text(json.dumps(config))
    assert load_new_head(sentences, head_pooling="auto").shape.head_pooling == "first"


def test_a_saved_head_keeps_its_pooling(tmp_path: Path, sentences: Path) -> None:
    for pooling in ("first", "mean"):
        model = load_new_head(sentences, head_pooling=pooling)
        folder = model.save(tmp_path / pooling)
        reloaded = clearhead.load(folder, "core", head="classify", labels=LABELS, head_pooling="auto")
        assert (reloaded.shape.head_pooling, reloaded.fresh) == (pooling, ())
        np.testing.assert_allclose(text_logits(reloaded, TEXTS), text_logits(model, TEXTS), atol=1e-6)
        other_pooling = {"first": "mean", "mean": "first"}[pooling]
        fresh = clearhead.load(folder, "core", head="classify", labels=LABELS, fresh=True, head_pooling=other_pooling)
        assert fresh.shape.head_pooling == other_pooling
        assert "head.out.weight" in fresh.fresh
    relabeled = clearhead.load(folder, "core", head="classify", labels=("a", "b"), fresh=True, head_pooling="auto")
    assert (relabeled.shape.head_pooling, "head.out.weight" in relabeled.fresh) == ("mean", True)
    assert clearhead.load(folder, "core", head="tag", labels=LABELS, fresh=True).head == "tag"


def test_embed_returns_encoder_vectors_and_not_logits(tmp_path: Path, sentences: Path) -> None:
    folder = load_new_head(sentences, head_pooling="mean").save(tmp_path / "model")
    model = clearhead.load(folder)
    assert model.embed(TEXTS).shape == (3, 32)
    assert model.embed(TEXTS) == pytest.approx(clearhead.load(folder, head=None).embed(TEXTS), abs=1e-6)
    bare = clearhead.load(folder, "core", head=None).save(tmp_path / "bare")
    assert clearhead.load(bare).head is None
    assert "head_pooling" not in json.loads((bare / "config.json").read_text())
    assert clearhead.load(bare).embed(TEXTS) == pytest.approx(model.embed(TEXTS), abs=1e-6)


def test_padding_and_neighbors_change_nothing(sentences: Path) -> None:
    model = load_new_head(sentences, head_pooling="mean")
    engine = EngineRunner(model.shape, named_arrays(model.module), threads=1)
    batch = make_batch_for("bert", {"vocab_size": 33}, (12, 3, 7))
    for runner in (CoreRunner(build_network(model.shape, named_arrays(model.module).items()), "cpu"), engine):
        runtime_model = replace(model, runner=runner)
        batched = runtime_model.run(batch.ids, batch.mask, hidden=False).logits
        for row, (ids, mask) in enumerate(zip(batch.ids, batch.mask, strict=True)):
            single = runtime_model.run([ids[mask]], hidden=False).logits
            np.testing.assert_allclose(batched[row], single[0], atol=1e-6)  # type: ignore[index]


@pytest.mark.parametrize("masked", [False, True])
def test_the_bits_of_a_mean_do_not_depend_on_the_batch(masked: bool) -> None:
    graph = Graph()
    x = graph.input("x", "float32", ("batch", "length", 384))
    present = graph.input("present", "bool", ("batch", "length")) if masked else ""
    graph.output(
        "mean",
        pool_tokens(GraphBuilder(g=graph, tensors={}, dense=float_dense({})), x, "mean", present),
        ("batch", 384),
    )
    session, rng = Session(graph), np.random.default_rng(0)
    for length in (1, 7, 33):
        states = rng.normal(size=(5, length, 384)).astype(np.float32)
        mask = {"present": np.ones((5, length), np.bool_)} if masked else {}
        batched = session.run({"x": states} | mask)["mean"]
        for row in range(5):
            single = {name: array[row : row + 1] for name, array in ({"x": states} | mask).items()}
            np.testing.assert_array_equal(session.run(single)["mean"][0], batched[row])
        np.testing.assert_allclose(batched, states.mean(1), atol=1e-6)


@pytest.mark.parametrize("damage", ["modules", "pooling", "normalize", "activation", "weights"])
def test_a_folder_whose_modules_compute_something_else_is_refused(tmp_path: Path, sentences: Path, damage: str) -> None:
    folder = load_new_head(sentences, head_pooling="mean").save(tmp_path / "model")

    def change(name: str, **keys: Any) -> None:
        path = folder / name
        path.write_text(json.dumps(json.loads(path.read_text()) | keys))

    if damage == "modules":
        (folder / "modules.json").unlink()
    elif damage == "pooling":
        change("1_Pooling/config.json", pooling_mode="max")
    elif damage == "normalize":
        modules = json.loads((folder / "modules.json").read_text())
        extra = {"idx": 4, "name": "4", "path": "4_Normalize", "type": "sentence_transformers.models.Normalize"}
        (folder / "modules.json").write_text(json.dumps([*modules, extra]))
    elif damage == "activation":
        change("2_Dense/config.json", activation_function="torch.nn.modules.activation.ReLU")
    else:
        (folder / "3_Dense" / "model.safetensors").unlink()
    with pytest.raises(CheckpointError):
        clearhead.load(folder)


def test_unknown_poolings_are_refused(tmp_path: Path, sentences: Path) -> None:
    with pytest.raises(InputError, match="head_pooling must be one of auto, first, mean, got 'max'"):
        clearhead.load(sentences, head="classify", head_pooling="max")
    clearhead.create("gpt2", config=FIXED_CONFIGS["gpt2"], head="causal").save(tmp_path / "gpt2")
    with pytest.raises(InputError, match=r"GPT-2 has no head_pooling 'mean'\. Omit head_pooling\."):
        clearhead.load(tmp_path / "gpt2", "core", head="classify", head_pooling="mean")
    for name in ("modules.json", "1_Pooling/config.json"):  # a causal sentence encoder is valid
        (tmp_path / "gpt2" / "1_Pooling").mkdir(exist_ok=True)
        (tmp_path / "gpt2" / name).write_text((sentences / name).read_text())
    model = clearhead.load(tmp_path / "gpt2", "core", head="classify", fresh=True, head_pooling="auto")
    assert (model.pooling.modes, model.shape.head_pooling) == (("mean",), "last")
