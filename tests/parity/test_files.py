"""Variants of model files: shards, half precision, former names, other prefixes, stored ties and leftovers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import clearhead
from clearhead.errors import ConfigError, TensorError
from clearhead.families import FAMILIES
from tests.family_configs import BASE_CLASSES, CLASSES, CONFIGS, FIXED_CONFIGS, make_batch_for
from tests.parity_models import (
    TokenBatch,
    assert_equal,
    compute_reference_outputs,
    import_transformers,
    load_in_transformers,
    make_reference,
)

LENGTHS = (11, 7, 3)
HEAD_CLASSES = {family: next(iter(FAMILIES[family].architectures)) for family in CONFIGS}
every_family = pytest.mark.parametrize("family", CONFIGS)


def make_reference_pair(family: str, title: str, **changes: Any) -> tuple[Any, TokenBatch]:
    config = FIXED_CONFIGS[family] | changes
    return make_reference(title, config), make_batch_for(family, config, LENGTHS)


def rewrite_tensors(folder: Path, change: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]) -> Path:
    """Replace the tensors in a folder's file."""
    path = folder / "model.safetensors"
    tensors = {name: tensor.clone() for name, tensor in load_file(path).items()}
    save_file({n: t.contiguous().clone() for n, t in change(tensors).items()}, path, metadata={"format": "pt"})
    return folder


def update_config(folder: Path, **changes: Any) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return folder


@every_family
def test_shards_of_theirs(family: str, tmp_path: Path) -> None:
    theirs, batch = make_reference_pair(family, HEAD_CLASSES[family])
    theirs.save_pretrained(tmp_path, max_shard_size="9KB")
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 3
    assert_equal(
        compute_reference_outputs(theirs, batch), clearhead.load(tmp_path, "core").run(**batch.to_clearhead()), batch
    )


@every_family
def test_shards_of_ours(family: str, tmp_path: Path) -> None:
    theirs, batch = make_reference_pair(family, HEAD_CLASSES[family])
    theirs.save_pretrained(tmp_path / "whole")
    model = clearhead.load(tmp_path / "whole", "core")
    model.save(tmp_path / "shards", shard_bytes=9000)
    assert len(list((tmp_path / "shards").glob("model-*.safetensors"))) > 3
    expected = compute_reference_outputs(theirs, batch)
    back = compute_reference_outputs(load_in_transformers(tmp_path / "shards", HEAD_CLASSES[family]), batch)
    for name, values in expected.items():
        np.testing.assert_allclose(back[name], values, rtol=0, atol=1e-6, err_msg=name)
    assert_equal(expected, clearhead.load(tmp_path / "shards", "core").run(**batch.to_clearhead()), batch)
    # a later save in one file leaves no shard of the earlier one behind
    model.save(tmp_path / "shards")
    assert [path.name for path in (tmp_path / "shards").glob("model*")] == ["model.safetensors"]


@pytest.mark.thin(4)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@every_family
def test_other_precisions_are_read_as_float32(family: str, dtype: torch.dtype, tmp_path: Path) -> None:
    theirs, batch = make_reference_pair(family, HEAD_CLASSES[family])
    theirs.to(dtype).save_pretrained(tmp_path)
    model = clearhead.load(tmp_path, "core")
    assert {parameter.dtype for parameter in model.module.parameters()} == {torch.float32}
    float32_model = (
        getattr(import_transformers(), HEAD_CLASSES[family]).from_pretrained(tmp_path, dtype=torch.float32).eval()
    )
    assert_equal(compute_reference_outputs(float32_model, batch), model.run(**batch.to_clearhead()), batch)
    model.save(tmp_path / "again")
    assert {tensor.dtype for tensor in load_file(tmp_path / "again" / "model.safetensors").values()} == {torch.float32}


@pytest.mark.parametrize("title", ["BertModel", "BertForMaskedLM", "BertForPreTraining"])
def test_gamma_and_beta(title: str, tmp_path: Path) -> None:
    theirs, batch = make_reference_pair("bert", title)
    theirs.save_pretrained(tmp_path)

    def use_former_names(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        renamed = {}
        for name, tensor in tensors.items():
            name = name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
            renamed[name] = tensor
        assert sum(name.endswith(".gamma") for name in renamed) >= 7
        return renamed

    rewrite_tensors(tmp_path, use_former_names)
    assert_equal(
        compute_reference_outputs(theirs, batch), clearhead.load(tmp_path, "core").run(**batch.to_clearhead()), batch
    )


PREFIXED_FAMILIES = [family for family in CONFIGS if FAMILIES[family].prefix]


@pytest.mark.parametrize("family", PREFIXED_FAMILIES)
def test_a_bare_model_with_the_prefix_of_its_head(family: str, tmp_path: Path) -> None:
    theirs, batch = make_reference_pair(family, BASE_CLASSES[family])
    theirs.save_pretrained(tmp_path)
    prefix = FAMILIES[family].prefix
    rewrite_tensors(tmp_path, lambda tensors: {prefix + name: tensor for name, tensor in tensors.items()})
    assert_equal(
        compute_reference_outputs(theirs, batch), clearhead.load(tmp_path, "core").run(**batch.to_clearhead()), batch
    )


@pytest.mark.parametrize("family", PREFIXED_FAMILIES)
def test_a_head_above_a_backbone_without_prefix(family: str, tmp_path: Path) -> None:
    theirs, batch = make_reference_pair(family, HEAD_CLASSES[family])
    theirs.save_pretrained(tmp_path)
    prefix = FAMILIES[family].prefix
    rewrite_tensors(tmp_path, lambda tensors: {name.removeprefix(prefix): tensor for name, tensor in tensors.items()})
    assert_equal(
        compute_reference_outputs(theirs, batch), clearhead.load(tmp_path, "core").run(**batch.to_clearhead()), batch
    )


@pytest.mark.parametrize("family", PREFIXED_FAMILIES)
def test_tensors_of_another_head_are_skipped_with_a_note(family: str, tmp_path: Path) -> None:
    """A file with a pre-training head loads as a bare encoder, and a note names the unused tensors."""
    headed, batch = make_reference_pair(family, HEAD_CLASSES[family])
    expected = compute_reference_outputs(headed, batch)
    headed.save_pretrained(tmp_path)
    model = clearhead.load(tmp_path, "core", head=None)
    assert model.head is None
    hidden_states = {name: values for name, values in expected.items() if "hidden" in name}
    assert_equal(hidden_states, model.run(**batch.to_clearhead()), batch)
    head_tensors = [n for n in load_file(tmp_path / "model.safetensors") if not n.startswith(FAMILIES[family].prefix)]
    assert not head_tensors or any("not used" in note for note in model.notes)


def test_a_new_head_on_a_trained_encoder(tmp_path: Path) -> None:
    theirs, batch = make_reference_pair("bert", "BertForPreTraining")
    theirs.save_pretrained(tmp_path)
    model = clearhead.load(tmp_path, "core", head="classify", labels=("no", "perhaps", "yes"), seed=3)
    output = model.run(**batch.to_clearhead())
    assert output.logits is not None
    assert output.logits.shape == (3, 3)
    assert any("head is newly initialized" in note for note in model.notes)
    # the pooler below it is the trained one
    with torch.no_grad():
        pooled = theirs.bert(**batch.to_transformers()).pooler_output.numpy()
    assert output.pooled is not None
    np.testing.assert_allclose(output.pooled, pooled, atol=1e-5)
    same_seed = clearhead.load(tmp_path, "core", head="classify", labels=("no", "perhaps", "yes"), seed=3)
    np.testing.assert_array_equal(same_seed.run(**batch.to_clearhead()).logits, output.logits)
    other_seed = clearhead.load(tmp_path, "core", head="classify", labels=("no", "perhaps", "yes"), seed=4)
    assert np.abs(other_seed.run(**batch.to_clearhead()).logits - output.logits).max() > 1e-4


def test_an_unneeded_pooler_is_skipped(tmp_path: Path) -> None:
    theirs, batch = make_reference_pair("bert", "BertForMaskedLM")
    theirs.save_pretrained(tmp_path)
    extra = {"bert.pooler.dense.weight": torch.ones(24, 24), "bert.pooler.dense.bias": torch.ones(24)}
    rewrite_tensors(tmp_path, lambda tensors: tensors | extra)
    assert_equal(
        compute_reference_outputs(theirs, batch), clearhead.load(tmp_path, "core").run(**batch.to_clearhead()), batch
    )


def test_an_unknown_tensor_is_refused(tmp_path: Path) -> None:
    theirs, _ = make_reference_pair("bert", "BertForMaskedLM")
    theirs.save_pretrained(tmp_path)
    rewrite_tensors(tmp_path, lambda tensors: tensors | {"bert.encoder.adapter.weight": torch.ones(2)})
    with pytest.raises(TensorError, match=r"bert\.encoder\.adapter\.weight unknown"):
        clearhead.load(tmp_path, "core")


@pytest.mark.parametrize(
    ("family", "second", "first"),
    [
        ("bert", "cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"),
        ("roberta", "lm_head.decoder.weight", "roberta.embeddings.word_embeddings.weight"),
        ("distilbert", "vocab_projector.weight", "distilbert.embeddings.word_embeddings.weight"),
        ("electra", "generator_lm_head.weight", "electra.embeddings.word_embeddings.weight"),
        ("albert", "predictions.decoder.weight", "albert.embeddings.word_embeddings.weight"),
        ("mpnet", "lm_head.decoder.weight", "mpnet.embeddings.word_embeddings.weight"),
        ("deberta-v2", "cls.predictions.decoder.weight", "deberta.embeddings.word_embeddings.weight"),
        ("modernbert", "decoder.weight", "model.embeddings.tok_embeddings.weight"),
        ("openai-gpt", "lm_head.weight", "transformer.tokens_embed.weight"),
        ("gpt2", "lm_head.weight", "transformer.wte.weight"),
        ("t5", "lm_head.weight", "shared.weight"),
        ("marian", "lm_head.weight", "model.shared.weight"),
    ],
)
class TestTies:
    """Output matrix tied to the token embedding: not stored, stored twice, only under the second name, other values."""

    def save_reference(self, family: str, folder: Path) -> tuple[Any, TokenBatch, Path]:
        theirs, batch = make_reference_pair(family, HEAD_CLASSES[family])
        theirs.save_pretrained(folder)
        return theirs, batch, folder

    def test_not_stored(self, family: str, second: str, first: str, tmp_path: Path) -> None:
        theirs, batch, folder = self.save_reference(family, tmp_path)
        names = load_file(folder / "model.safetensors").keys()
        assert first in names
        assert second not in names
        model = clearhead.load(folder, "core")
        output_weight = model.module.get_parameter("head.out.weight")
        assert output_weight is model.module.get_parameter("stack.embed.token.weight")
        assert_equal(compute_reference_outputs(theirs, batch), model.run(**batch.to_clearhead()), batch)

    def test_stored_twice(self, family: str, second: str, first: str, tmp_path: Path) -> None:
        theirs, batch, folder = self.save_reference(family, tmp_path)
        rewrite_tensors(folder, lambda tensors: tensors | {second: tensors[first].clone()})
        model = clearhead.load(folder, "core")
        assert model.shape.head is not None
        assert model.shape.head.tied
        assert_equal(compute_reference_outputs(theirs, batch), model.run(**batch.to_clearhead()), batch)

    def test_stored_under_the_second_name_only(self, family: str, second: str, first: str, tmp_path: Path) -> None:
        theirs, batch, folder = self.save_reference(family, tmp_path)
        rewrite_tensors(folder, lambda tensors: {second if n == first else n: tensor for n, tensor in tensors.items()})
        assert_equal(
            compute_reference_outputs(theirs, batch), clearhead.load(folder, "core").run(**batch.to_clearhead()), batch
        )
        if family == "t5":  # an untied file (v1.1) must contain the token embedding
            update_config(folder, tie_word_embeddings=False)
            with pytest.raises(TensorError, match=r"shared\.weight missing"):
                clearhead.load(folder, "core")

    def test_stored_with_other_values(self, family: str, second: str, first: str, tmp_path: Path) -> None:
        """The file takes precedence: the output matrix is separate, also after a round trip."""
        _, batch, folder = self.save_reference(family, tmp_path)
        rewrite_tensors(folder, lambda tensors: tensors | {second: tensors[first].flip(0) * 2})
        model = clearhead.load(folder, "core")
        assert model.shape.head is not None
        assert not model.shape.head.tied
        expected = model.run(**batch.to_clearhead()).logits
        model.save(tmp_path / "again")
        back = compute_reference_outputs(load_in_transformers(tmp_path / "again", HEAD_CLASSES[family]), batch)[
            "logits"
        ]
        mask = batch.mask if batch.target_mask is None else batch.target_mask
        np.testing.assert_allclose(back[mask], expected[mask], rtol=0, atol=1e-5)  # type: ignore[index]


@every_family
def test_saving_to_the_folder_it_was_loaded_from(family: str, tmp_path: Path) -> None:
    """The file is memory-mapped: training must not change it, and overwriting it must not change the loaded model."""
    theirs, batch = make_reference_pair(family, HEAD_CLASSES[family])
    theirs.save_pretrained(tmp_path)
    before = (tmp_path / "model.safetensors").read_bytes()
    model = clearhead.load(tmp_path, "core")
    with torch.no_grad():
        for parameter in model.module.parameters():
            parameter.mul_(1.5)
    assert (tmp_path / "model.safetensors").read_bytes() == before
    expected = model.run(**batch.to_clearhead()).logits
    model.save(tmp_path)
    np.testing.assert_array_equal(model.run(**batch.to_clearhead()).logits, expected)
    np.testing.assert_array_equal(clearhead.load(tmp_path, "core").run(**batch.to_clearhead()).logits, expected)
    model.save(tmp_path, shard_bytes=9000)
    np.testing.assert_array_equal(clearhead.load(tmp_path, "core").run(**batch.to_clearhead()).logits, expected)


def test_t5_v1_1_has_a_separate_output_matrix(tmp_path: Path) -> None:
    """As in T5 v1.1 files: tie_word_embeddings is false, and lm_head is stored."""
    reference, batch = make_reference_pair("t5", "T5ForConditionalGeneration", feed_forward_proj="gated-gelu")
    reference.save_pretrained(tmp_path)
    rewrite_tensors(tmp_path, lambda tensors: tensors | {"lm_head.weight": tensors["shared.weight"].flip(0) * 0.3})
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    del config["scale_decoder_outputs"]  # a key of newer files
    path.write_text(json.dumps(config | {"tie_word_embeddings": False}))
    model = clearhead.load(tmp_path, "core")
    assert model.shape.head is not None
    assert (model.shape.head.tied, model.shape.head.scale) == (False, 1.0)
    theirs = load_in_transformers(tmp_path, "T5ForConditionalGeneration")
    assert not torch.equal(theirs.lm_head.weight, theirs.shared.weight)
    assert_equal(compute_reference_outputs(theirs, batch), model.run(**batch.to_clearhead()), batch)
    model.save(tmp_path / "again")
    back = load_in_transformers(tmp_path / "again", "T5ForConditionalGeneration")
    assert_equal(compute_reference_outputs(back, batch), model.run(**batch.to_clearhead()), batch)


@pytest.mark.parametrize("family", ["t5", "marian"])
def test_stored_embeddings_of_encoder_and_decoder(family: str, tmp_path: Path) -> None:
    theirs, batch = make_reference_pair(family, HEAD_CLASSES[family])
    theirs.save_pretrained(tmp_path)
    prefix = FAMILIES[family].prefix
    shared = f"{prefix}shared.weight"
    sides = [f"{prefix}encoder.embed_tokens.weight", f"{prefix}decoder.embed_tokens.weight"]
    rewrite_tensors(tmp_path, lambda tensors: tensors | {side: tensors[shared].clone() for side in sides})
    assert_equal(
        compute_reference_outputs(theirs, batch), clearhead.load(tmp_path, "core").run(**batch.to_clearhead()), batch
    )
    rewrite_tensors(tmp_path, lambda tensors: tensors | {sides[1]: tensors[shared] + 1})
    with pytest.raises(TensorError, match="are two names of one tensor"):
        clearhead.load(tmp_path, "core")


def test_leftovers_of_old_files(tmp_path: Path) -> None:
    """Causal masks, position ids and computed tables were once saved with the weights."""
    leftovers = {
        "gpt2": {f"transformer.h.{n}.attn.bias": torch.ones(1, 1, 40, 40).tril() for n in range(3)},
        "bert": {"bert.embeddings.position_ids": torch.arange(512)[None]},
        "roberta": {"roberta.embeddings.position_ids": torch.arange(512)[None]},
        "deberta-v2": {"deberta.embeddings.position_embeddings.weight": torch.zeros(512, 24)},
    }
    for family, extra in leftovers.items():
        theirs, batch = make_reference_pair(family, HEAD_CLASSES[family])
        folder = tmp_path / family
        theirs.save_pretrained(folder)
        rewrite_tensors(folder, lambda tensors, extra=extra: tensors | extra)  # type: ignore[misc]
        model = clearhead.load(folder, "core")
        assert not model.notes
        assert_equal(compute_reference_outputs(theirs, batch), model.run(**batch.to_clearhead()), batch)


def test_position_tables_that_marian_stores(tmp_path: Path) -> None:
    """Position tables are computed: stored ones must be equal, and the bare class writes them."""
    theirs, batch = make_reference_pair("marian", HEAD_CLASSES["marian"])
    theirs.save_pretrained(tmp_path)
    sides = {f"model.{side}.embed_positions.weight": side for side in ("encoder", "decoder")}
    tables = {name: getattr(theirs.model, side).embed_positions.weight.detach().clone() for name, side in sides.items()}
    rewrite_tensors(tmp_path, lambda tensors: tensors | tables)
    model = clearhead.load(tmp_path, "core")
    assert not model.notes
    assert_equal(compute_reference_outputs(theirs, batch), model.run(**batch.to_clearhead()), batch)
    rewrite_tensors(tmp_path, lambda tensors: tensors | {name: table + 0.1 for name, table in tables.items()})
    with pytest.raises(TensorError, match="differs from the sinusoidal position table"):
        clearhead.load(tmp_path, "core")
    bare, _ = make_reference_pair("marian", BASE_CLASSES["marian"])
    bare.save_pretrained(tmp_path / "bare")
    clearhead.load(tmp_path / "bare", "core").save(tmp_path / "again")
    _, report = type(bare).from_pretrained(tmp_path / "again", output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]


@pytest.mark.parametrize("head", ["tag", "choice", "span"])
def test_another_task_gets_another_head(head: str, tmp_path: Path) -> None:
    """Heads of several tasks share a tensor name, but a text classifier must not load as a tagger."""
    clearhead.create("bert", config=SMALL_CONFIG, head="classify", labels=list("abcd")).save(tmp_path)
    model = clearhead.load(tmp_path, "core", head=head)
    assert any("head is newly initialized" in note for note in model.notes)
    assert clearhead.load(tmp_path, "core").notes == ()
    assert clearhead.load(tmp_path, "core", labels=list("abcdef")).shape.head.outputs == 6  # type: ignore[union-attr]


SMALL_CONFIG = {
    "hidden_size": 12,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 8,
    "vocab_size": 30,
}


def test_the_first_files_have_gamma_and_name_no_class(tmp_path: Path) -> None:
    """As Google's BERT was first converted: both pre-training heads, gamma and beta, no architectures."""
    model = clearhead.create("bert", config=SMALL_CONFIG, head="pretrain")
    model.save(tmp_path)
    rewrite_tensors(
        tmp_path,
        lambda tensors: {
            name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
            for name, tensor in tensors.items()
        },
    )
    path = tmp_path / "config.json"
    path.write_text(json.dumps({k: v for k, v in json.loads(path.read_text()).items() if k != "architectures"}))
    again = clearhead.load(tmp_path, "core")
    assert again.head == "pretrain"
    np.testing.assert_array_equal(again.run([[5, 6]]).logits, model.run([[5, 6]]).logits)


def test_a_class_of_another_family_is_refused(tmp_path: Path) -> None:
    clearhead.create("bert", config=SMALL_CONFIG).save(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"architectures": ["GPT2LMHeadModel"]}))
    with pytest.raises(ConfigError, match="GPT2LMHeadModel"):
        clearhead.load(tmp_path, "core")


# ours differ only where null stands for a value that theirs spells out, and in ids that do not affect outputs
DIFFERING_DEFAULTS = {
    ("modernbert", "layer_types"),
    ("modernbert", "rope_parameters"),
    ("gpt2", "bos_token_id"),
    ("gpt2", "eos_token_id"),
    ("t5", "num_decoder_layers"),
    ("t5", "tie_word_embeddings"),
    ("t5", "scale_decoder_outputs"),
    ("marian", "decoder_vocab_size"),
}


@every_family
def test_config_defaults_equal_those_of_transformers(family: str) -> None:
    """config.json may contain only what differs: every default here is the default of transformers."""
    theirs = getattr(import_transformers(), BASE_CLASSES[family]).config_class().to_dict()
    differing = {
        (family, key)
        for key, value in FAMILIES[family].read_config({}).items()
        if key in theirs and theirs[key] != value
    }
    assert differing == {entry for entry in DIFFERING_DEFAULTS if entry[0] == family}


@every_family
def test_a_config_with_only_its_sizes(family: str, tmp_path: Path) -> None:
    """With only the sizes in config.json, the outputs do not change."""
    theirs, batch = make_reference_pair(family, HEAD_CLASSES[family])
    theirs.save_pretrained(tmp_path)
    sizes = FIXED_CONFIGS[family] | {"model_type": family, "architectures": [HEAD_CLASSES[family]]}
    (tmp_path / "config.json").write_text(json.dumps(sizes))
    assert_equal(
        compute_reference_outputs(theirs, batch), clearhead.load(tmp_path, "core").run(**batch.to_clearhead()), batch
    )


# if only the class name distinguishes two heads, the more common one is chosen: texts before choices, tokens last
GUESSED_HEADS = {
    "BertForMultipleChoice": "classify",
    "DistilBertForMultipleChoice": "classify",
    "AlbertForMultipleChoice": "classify",
    "DebertaV2ForMultipleChoice": "classify",
    "ElectraForMultipleChoice": "choice",
    "ModernBertForSequenceClassification": "tag",
    "ModernBertForMultipleChoice": "tag",
    "ModernBertForQuestionAnswering": "tag",
    "OpenAIGPTLMHeadModel": None,
    "GPT2LMHeadModel": None,
    "GPT2DoubleHeadsModel": "choice",
    "T5ForConditionalGeneration": None,
}
# half of a model, which such a config cannot express
INCOMPLETE_CLASSES = ("OpenAIGPTDoubleHeadsModel", "T5EncoderModel")


@pytest.mark.thin(4)
@pytest.mark.parametrize(("family", "title"), CLASSES, ids=[title for _, title in CLASSES])
def test_a_config_that_names_no_class(family: str, title: str, tmp_path: Path) -> None:
    """Early files name no class: the head is inferred from the stored tensors."""
    theirs, _ = make_reference_pair(family, title, num_labels=1 if "Choice" in title else 2)
    theirs.save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    del config["architectures"]
    path.write_text(json.dumps(config))
    if title in INCOMPLETE_CLASSES:
        with pytest.raises(TensorError, match="missing"):
            clearhead.load(tmp_path, "core")
        return
    expected = None if title == BASE_CLASSES[family] else FAMILIES[family].architectures[title]
    assert clearhead.load(tmp_path, "core").head == GUESSED_HEADS.get(title, expected)
