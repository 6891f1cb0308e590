"""Exported graphs, fused and portable, for every family: other runtimes compute the outputs of the core."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from clearhead.core.build import named_arrays
from clearhead.engine import export as writing
from clearhead.engine.export import (
    ENCODER_DECODER_NAMES,
    EXPORTED_NAMES,
    MODEL_FILE,
    WEIGHTS_FILE,
    build_export_graph,
    write_model,
)
from clearhead.engine.graph import ALIGNMENT
from clearhead.engine.int8 import Int8Plan
from clearhead.engine.runner import EngineRunner
from clearhead.engine.session import Session
from clearhead.families import FAMILIES
from clearhead.model import layers as features
from clearhead.shape import DenseShape, ModelShape, Pooling
from tests.engine.both import HEADS, TOLERANCE, build_perturbed, build_runners, max_difference, run_checked, run_file
from tests.family_configs import FIXED_CONFIGS, make_batch_for
from tests.parity_models import TokenBatch

Array = np.ndarray[Any, Any]
KINDS = ("fused", "portable")
STEPS = ("linear", "tanh", "relu", "relu6", "leaky_relu", "sigmoid", "silu", "elu", "mish", "gelu")
POOLED = ("cls", "lasttoken", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "pooler")


def exported_inputs(batch: TokenBatch, shape: ModelShape) -> dict[str, Array]:
    """Return a batch under the names of an exported file."""
    inputs = {name: array.numpy() for name, array in batch.to_transformers().items()}
    if shape.stack.segments < 2:
        inputs.pop("token_type_ids", None)
    return inputs


def exported_outputs(core: Any, batch: TokenBatch) -> dict[str, Array]:
    """Return the core's outputs under the names of an exported file."""
    out = run_checked(core, batch)
    has_decoder = core.shape.decoder is not None
    if core.shape.head is not None:
        second = None if core.shape.head.kind == "next" else out.next_sentence
        outputs = {"logits": out.logits if out.logits is not None else out.next_sentence, "next_sentence": second}
    else:
        outputs = {"last": out.last, "pooled": out.pooled}
        outputs |= {"top": out.target_hidden[-1]} if out.target_hidden is not None else {}
    names = EXPORTED_NAMES | (ENCODER_DECODER_NAMES if has_decoder else {})
    return {names.get(name, name): array for name, array in outputs.items() if array is not None}


def at_real_tokens(outputs: dict[str, Array], batch: TokenBatch) -> dict[str, Array]:
    """Select the outputs at real tokens; outputs at padding are undefined."""
    masks = [mask for mask in (batch.mask, batch.target_mask) if mask is not None]
    if batch.target_mask is None:
        masks_by_name = dict.fromkeys(outputs, batch.mask)
    else:
        masks_by_name = {name: batch.mask if name.startswith("encoder") else batch.target_mask for name in outputs}
    assert len({mask.shape for mask in masks}) == len(masks)
    return {
        name: array[masks_by_name[name]] if array.shape[:2] == masks_by_name[name].shape else array
        for name, array in outputs.items()
    }


def domains_in(path: Path) -> set[str]:
    return {node.domain for node in onnx.load(path, load_external_data=False).graph.node}


@pytest.mark.thin(4)
@pytest.mark.parametrize(("family", "head"), HEADS)
def test_every_family_and_head_in_both_graphs(
    family: str, head: str | None, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    shape = FAMILIES[family].model_shape(FIXED_CONFIGS[family], head, 3)
    net = build_perturbed(shape)
    core, _ = build_runners(net)
    for left in (False, True):
        batch = make_batch_for(
            family,
            FIXED_CONFIGS[family],
            (9, 6, 3),
            pad_left=left,
            **({} if shape.decoder is not None else {"targets": ()}),
        )
        expected = at_real_tokens(exported_outputs(core, batch), batch)
        for kind in KINDS:
            g = build_export_graph(shape, named_arrays(net), portable=kind == "portable")
            folder = tmp_path / f"{kind}-{left}"
            folder.mkdir()
            write_model(folder, g)
            onnx.checker.check_model(str(folder / MODEL_FILE), full_check=True)
            outputs = run_file(folder / MODEL_FILE, exported_inputs(batch, shape))
            assert max_difference(expected, at_real_tokens(outputs, batch)) < TOLERANCE, (kind, left)
            assert domains_in(folder / MODEL_FILE) <= ({""} if kind == "portable" else {"", "com.microsoft"})
    assert capfd.readouterr().err == ""  # no warnings of ONNX Runtime


@pytest.mark.parametrize("kind", KINDS)
def test_a_fused_graph_is_fused(kind: str, tmp_path: Path) -> None:
    shape = FAMILIES["bert"].model_shape(FIXED_CONFIGS["bert"], "classify", 3)
    write_model(tmp_path, build_export_graph(shape, named_arrays(build_perturbed(shape)), portable=kind == "portable"))
    ops = {node.op_type for node in onnx.load(tmp_path / MODEL_FILE).graph.node}
    assert ("MultiHeadAttention" in ops) == (kind == "fused")


@pytest.mark.parametrize(("family", "head"), [("bert", "classify"), ("t5", "seq2seq"), ("modernbert", None)])
def test_another_runtime_reads_the_portable_graph(family: str, head: str | None, tmp_path: Path) -> None:
    from onnx.reference import ReferenceEvaluator

    shape = FAMILIES[family].model_shape(FIXED_CONFIGS[family], head, 3)
    net = build_perturbed(shape)
    batch = make_batch_for(
        family, FIXED_CONFIGS[family], (7, 4), **({} if shape.decoder is not None else {"targets": ()})
    )
    write_model(tmp_path, build_export_graph(shape, named_arrays(net), portable=True))
    evaluator = ReferenceEvaluator(str(tmp_path / MODEL_FILE))
    outputs = dict(zip(evaluator.output_names, evaluator.run(None, exported_inputs(batch, shape)), strict=True))
    expected = at_real_tokens(exported_outputs(build_runners(net)[0], batch), batch)
    assert max_difference(expected, at_real_tokens(outputs, batch)) < TOLERANCE


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("family", "head"), [("bert", "classify"), ("albert", None), ("gpt2", "causal")])
def test_int8_in_a_file(family: str, head: str | None, kind: str, tmp_path: Path) -> None:
    from onnx.reference import ReferenceEvaluator

    shape = FAMILIES[family].model_shape(FIXED_CONFIGS[family], head, 3)
    tensors = named_arrays(build_perturbed(shape))
    names = sorted(name.removesuffix(".weight") for name in tensors if name.endswith(("up.weight", "down.weight")))
    width = {name: tensors[f"{name}.weight"].shape[1] for name in names}
    plan = Int8Plan(
        smoothing={name: np.linspace(0.5, 2.0, width[name]).astype("f") for name in names},
        outlier_channels={names[0]: np.array([1, 3])},
        float_steps=frozenset(names[-1:]),
    )
    batch = make_batch_for(family, FIXED_CONFIGS[family], (7,), targets=())
    write_model(tmp_path, build_export_graph(shape, tensors, portable=kind == "portable", int8=plan))
    onnx.checker.check_model(str(tmp_path / MODEL_FILE), full_check=True)
    inputs = exported_inputs(batch, shape)
    ours, exact = (EngineRunner(shape, tensors, int8=int8_plan) for int8_plan in (plan, None))
    expected, float_outputs = (at_real_tokens(exported_outputs(runner, batch), batch) for runner in (ours, exact))
    outputs = at_real_tokens(run_file(tmp_path / MODEL_FILE, inputs), batch)
    assert max_difference(expected, outputs) < 0.01  # values between two steps may be rounded either way
    assert max_difference(expected, float_outputs) > 0
    ops = {node.op_type for node in onnx.load(tmp_path / MODEL_FILE).graph.node}
    assert ("MatMulInteger" if kind == "portable" else "DynamicQuantizeMatMul") in ops
    if kind == "portable":
        reader = ReferenceEvaluator(str(tmp_path / MODEL_FILE))
        outputs_read = dict(zip(reader.output_names, reader.run(None, inputs), strict=True))
        assert max_difference(expected, at_real_tokens(outputs_read, batch)) < 0.01


def test_a_file_with_one_wrong_number_is_seen(tmp_path: Path) -> None:
    shape = FAMILIES["bert"].model_shape(FIXED_CONFIGS["bert"], None, 3)
    net = build_perturbed(shape)
    tensors = {name: array.copy() for name, array in named_arrays(net).items()}
    tensors["stack.blocks.1.feed.inner.down.bias"][0] += 0.5
    write_model(tmp_path, build_export_graph(shape, tensors))
    batch = make_batch_for("bert", FIXED_CONFIGS["bert"], (7, 4))
    outputs = run_file(tmp_path / MODEL_FILE, exported_inputs(batch, shape))
    assert (
        max_difference(
            at_real_tokens(exported_outputs(build_runners(net)[0], batch), batch), at_real_tokens(outputs, batch)
        )
        > TOLERANCE
    )


def test_large_weights_lie_in_a_file_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shape = FAMILIES["bert"].model_shape(FIXED_CONFIGS["bert"], "classify", 3)
    net = build_perturbed(shape)
    batch, calls = make_batch_for("bert", FIXED_CONFIGS["bert"], (7, 4)), []
    monkeypatch.setattr(writing, "MAX_INLINE_BYTES", 0)
    for kind in KINDS:
        folder = tmp_path / kind
        folder.mkdir()
        g = build_export_graph(shape, named_arrays(net), portable=kind == "portable")
        write_model(folder, g, lambda *args: calls.append(args))
        model = onnx.load(folder / MODEL_FILE, load_external_data=False)
        external = {
            tensor.name: {entry.key: entry.value for entry in tensor.external_data}
            for tensor in model.graph.initializer
            if tensor.external_data
        }
        assert external.keys() == g.large_weights.keys() != set()
        assert all(
            entries["location"] == WEIGHTS_FILE and int(entries["offset"]) % ALIGNMENT == 0
            for entries in external.values()
        )
        assert calls[-1][0] == WEIGHTS_FILE
        assert calls[-1][1] == calls[-1][2]
        onnx.checker.check_model(str(folder / MODEL_FILE), full_check=True)
        outputs = run_file(folder / MODEL_FILE, exported_inputs(batch, shape))
        assert (
            max_difference(
                at_real_tokens(exported_outputs(build_runners(net)[0], batch), batch), at_real_tokens(outputs, batch)
            )
            < TOLERANCE
        )


def test_weights_are_never_held_twice(tmp_path: Path) -> None:
    config = FIXED_CONFIGS["bert"] | {"vocab_size": 400_000, "hidden_size": 48}
    shape = FAMILIES["bert"].model_shape(config, None, 3)
    tensors = named_arrays(build_perturbed(shape))
    total = sum(array.nbytes for array in tensors.values())
    assert total > 64 << 20
    tracemalloc.start()
    write_model(tmp_path, build_export_graph(shape, tensors))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (tmp_path / WEIGHTS_FILE).stat().st_size >= total
    assert peak < total // 16


@pytest.mark.parametrize("portable", [False, True])
@pytest.mark.parametrize("modes", [*((mode,) for mode in POOLED), ("mean", "max", "cls"), POOLED])
def test_pooling_is_that_of_the_library(modes: tuple[str, ...], portable: bool) -> None:
    shape = FAMILIES["bert"].model_shape(FIXED_CONFIGS["bert"], None, 3)
    net = build_perturbed(shape)
    core, _ = build_runners(net)
    for left in (False, True):
        batch = make_batch_for("bert", FIXED_CONFIGS["bert"], (9, 6, 1), pad_left=left)
        out = run_checked(core, batch)
        expected = features.pool(out.last, batch.mask, out.pooled, modes)  # type: ignore[arg-type]
        g = build_export_graph(
            shape, named_arrays(net), portable=portable, pooling=Pooling(modes=modes, origin="a test")
        )
        outputs = Session(g).run(exported_inputs(batch, shape))["sentence_embedding"]
        assert np.abs(outputs - expected).max() < TOLERANCE


@pytest.mark.parametrize("portable", [False, True])
@pytest.mark.parametrize("name", STEPS)
def test_dense_steps_are_those_of_the_library(name: str, portable: bool) -> None:
    draw = np.random.default_rng(3)
    steps = (DenseShape(inputs=24, outputs=7, activation=name), DenseShape(inputs=7, outputs=5, bias=False))
    dense: Any = [
        {"weight": draw.standard_normal((7, 24)).astype("f") * 3, "bias": draw.standard_normal(7).astype("f")},
        {"weight": draw.standard_normal((5, 7)).astype("f")},
    ]
    shape = FAMILIES["bert"].model_shape(FIXED_CONFIGS["bert"], None, 3)
    net = build_perturbed(shape)
    batch = make_batch_for("bert", FIXED_CONFIGS["bert"], (9, 6, 1))
    pooling = Pooling(dense=steps, normalize=True, origin="a test")
    g = build_export_graph(shape, named_arrays(net), portable=portable, pooling=pooling, dense=dense)
    outputs = Session(g).run(exported_inputs(batch, shape))["sentence_embedding"]
    mean = features.pool(run_checked(build_runners(net)[0], batch).last, batch.mask, None, ["mean"])  # type: ignore[arg-type]
    assert np.abs(outputs - features.finish_vectors(mean, pooling, dense, normalize=True)).max() < TOLERANCE


def test_a_text_without_a_word_has_no_nan() -> None:
    shape = FAMILIES["bert"].model_shape(FIXED_CONFIGS["bert"], None, 3)
    pooling = Pooling(modes=("mean", "cls", "weightedmean"), normalize=True, origin="a test")
    g = build_export_graph(shape, named_arrays(build_perturbed(shape)), pooling=pooling)
    inputs = exported_inputs(make_batch_for("bert", FIXED_CONFIGS["bert"], (5, 3)), shape)
    inputs["attention_mask"][1] = 0
    assert np.isfinite(Session(g).run(inputs)["sentence_embedding"]).all()


def test_a_pair_that_makes_sentence_vectors_has_no_decoder(tmp_path: Path) -> None:
    shape = FAMILIES["t5"].model_shape(FIXED_CONFIGS["t5"], None, 3)
    g = build_export_graph(shape, named_arrays(build_perturbed(shape)), pooling=Pooling(origin="a test"))
    assert list(g.inputs) == ["input_ids", "attention_mask"]
    assert list(g.outputs) == ["last_hidden_state", "sentence_embedding"]
    assert not [name for name in g.used_weights if name.startswith("decoder.")]
