"""The same model in other files: shards, half precision, old names, other prefixes, stored ties and leftovers."""

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
HEADED = {family: next(iter(FAMILIES[family].architectures)) for family in CONFIGS}
every_family = pytest.mark.parametrize("family", CONFIGS)


def pair(family: str, title: str, **changes: Any) -> tuple[Any, TokenBatch]:
    config = FIXED_CONFIGS[family] | changes
    return make_reference(title, config), make_batch_for(family, config, LENGTHS)


def rewritten(folder: Path, change: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]) -> Path:
    """The folder with other tensors in its file."""
    path = folder / "model.safetensors"
    tensors = {name: tensor.clone() for name, tensor in load_file(path).items()}
    save_file({n: t.contiguous().clone() for n, t in change(tensors).items()}, path, metadata={"format": "pt"})
    return folder


def reconfigured(folder: Path, **changes: Any) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return folder


@every_family
def test_shards_of_theirs(family: str, tmp_path: Path) -> None:
    theirs, given = pair(family, HEADED[family])
    theirs.save_pretrained(tmp_path, max_shard_size="9KB")
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 3
    assert_equal(
        compute_reference_outputs(theirs, given), clearhead.load(tmp_path, "core").run(**given.to_clearhead()), given
    )


@every_family
def test_shards_of_ours(family: str, tmp_path: Path) -> None:
    theirs, given = pair(family, HEADED[family])
    theirs.save_pretrained(tmp_path / "whole")
    model = clearhead.load(tmp_path / "whole", "core")
    model.save(tmp_path / "shards", shard_bytes=9000)
    assert len(list((tmp_path / "shards").glob("model-*.safetensors"))) > 3
    expected = compute_reference_outputs(theirs, given)
    back = compute_reference_outputs(load_in_transformers(tmp_path / "shards", HEADED[family]), given)
    for name, values in expected.items():
        np.testing.assert_allclose(back[name], values, rtol=0, atol=1e-6, err_msg=name)
    assert_equal(expected, clearhead.load(tmp_path / "shards", "core").run(**given.to_clearhead()), given)
    # a later save in one file leaves no shard of the earlier one behind
    model.save(tmp_path / "shards")
    assert [path.name for path in (tmp_path / "shards").glob("model*")] == ["model.safetensors"]


@pytest.mark.thin(4)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@every_family
def test_other_precisions_are_read_as_float32(family: str, dtype: torch.dtype, tmp_path: Path) -> None:
    theirs, given = pair(family, HEADED[family])
    theirs.to(dtype).save_pretrained(tmp_path)
    model = clearhead.load(tmp_path, "core")
    assert {parameter.dtype for parameter in model.module.parameters()} == {torch.float32}
    wide = getattr(import_transformers(), HEADED[family]).from_pretrained(tmp_path, dtype=torch.float32).eval()
    assert_equal(compute_reference_outputs(wide, given), model.run(**given.to_clearhead()), given)
    model.save(tmp_path / "again")
    assert {tensor.dtype for tensor in load_file(tmp_path / "again" / "model.safetensors").values()} == {torch.float32}


@pytest.mark.parametrize("title", ["BertModel", "BertForMaskedLM", "BertForPreTraining"])
def test_gamma_and_beta(title: str, tmp_path: Path) -> None:
    theirs, given = pair("bert", title)
    theirs.save_pretrained(tmp_path)

    def old(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        made = {}
        for name, tensor in tensors.items():
            name = name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
            made[name] = tensor
        assert sum(name.endswith(".gamma") for name in made) >= 7
        return made

    rewritten(tmp_path, old)
    assert_equal(
        compute_reference_outputs(theirs, given), clearhead.load(tmp_path, "core").run(**given.to_clearhead()), given
    )


PREFIXED = [family for family in CONFIGS if FAMILIES[family].prefix]


@pytest.mark.parametrize("family", PREFIXED)
def test_a_bare_model_with_the_prefix_of_its_head(family: str, tmp_path: Path) -> None:
    theirs, given = pair(family, BASE_CLASSES[family])
    theirs.save_pretrained(tmp_path)
    prefix = FAMILIES[family].prefix
    rewritten(tmp_path, lambda tensors: {prefix + name: tensor for name, tensor in tensors.items()})
    assert_equal(
        compute_reference_outputs(theirs, given), clearhead.load(tmp_path, "core").run(**given.to_clearhead()), given
    )


@pytest.mark.parametrize("family", PREFIXED)
def test_a_head_above_a_backbone_without_prefix(family: str, tmp_path: Path) -> None:
    theirs, given = pair(family, HEADED[family])
    theirs.save_pretrained(tmp_path)
    prefix = FAMILIES[family].prefix
    rewritten(tmp_path, lambda tensors: {name.removeprefix(prefix): tensor for name, tensor in tensors.items()})
    assert_equal(
        compute_reference_outputs(theirs, given), clearhead.load(tmp_path, "core").run(**given.to_clearhead()), given
    )


@pytest.mark.parametrize("family", PREFIXED)
def test_tensors_of_another_head_are_named_and_left(family: str, tmp_path: Path) -> None:
    """A file with its pre-training head gives the encoder alone, and says what it did not use."""
    headed, given = pair(family, HEADED[family])
    expected = compute_reference_outputs(headed, given)
    headed.save_pretrained(tmp_path)
    model = clearhead.load(tmp_path, "core", head=None)
    assert model.head is None
    same = {name: values for name, values in expected.items() if "hidden" in name}
    assert_equal(same, model.run(**given.to_clearhead()), given)
    own = [n for n in load_file(tmp_path / "model.safetensors") if not n.startswith(FAMILIES[family].prefix)]
    assert not own or any("not used" in note for note in model.notes)


def test_a_new_head_on_a_trained_encoder(tmp_path: Path) -> None:
    theirs, given = pair("bert", "BertForPreTraining")
    theirs.save_pretrained(tmp_path)
    model = clearhead.load(tmp_path, "core", head="classify", labels=("no", "perhaps", "yes"), seed=3)
    out = model.run(**given.to_clearhead())
    assert out.logits is not None
    assert out.logits.shape == (3, 3)
    assert any("head is newly initialized" in note for note in model.notes)
    # the pooler below it is the trained one
    with torch.no_grad():
        pooled = theirs.bert(**given.to_transformers()).pooler_output.numpy()
    assert out.pooled is not None
    np.testing.assert_allclose(out.pooled, pooled, atol=1e-5)
    again = clearhead.load(tmp_path, "core", head="classify", labels=("no", "perhaps", "yes"), seed=3)
    np.testing.assert_array_equal(again.run(**given.to_clearhead()).logits, out.logits)
    other = clearhead.load(tmp_path, "core", head="classify", labels=("no", "perhaps", "yes"), seed=4)
    assert np.abs(other.run(**given.to_clearhead()).logits - out.logits).max() > 1e-4


def test_a_pooler_in_a_file_without_use_for_it(tmp_path: Path) -> None:
    theirs, given = pair("bert", "BertForMaskedLM")
    theirs.save_pretrained(tmp_path)
    extra = {"bert.pooler.dense.weight": torch.ones(24, 24), "bert.pooler.dense.bias": torch.ones(24)}
    rewritten(tmp_path, lambda tensors: tensors | extra)
    assert_equal(
        compute_reference_outputs(theirs, given), clearhead.load(tmp_path, "core").run(**given.to_clearhead()), given
    )


def test_a_tensor_of_no_head_is_refused(tmp_path: Path) -> None:
    theirs, _ = pair("bert", "BertForMaskedLM")
    theirs.save_pretrained(tmp_path)
    rewritten(tmp_path, lambda tensors: tensors | {"bert.encoder.adapter.weight": torch.ones(2)})
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
    """The output matrix that is the word table: not stored, stored twice, only as the second, with other values."""

    def folder(self, family: str, place: Path) -> tuple[Any, TokenBatch, Path]:
        theirs, given = pair(family, HEADED[family])
        theirs.save_pretrained(place)
        return theirs, given, place

    def test_not_stored(self, family: str, second: str, first: str, tmp_path: Path) -> None:
        theirs, given, folder = self.folder(family, tmp_path)
        names = load_file(folder / "model.safetensors").keys()
        assert first in names
        assert second not in names
        model = clearhead.load(folder, "core")
        top = model.module.get_parameter("head.out.weight")
        assert top is model.module.get_parameter("stack.embed.token.weight")
        assert_equal(compute_reference_outputs(theirs, given), model.run(**given.to_clearhead()), given)

    def test_stored_twice(self, family: str, second: str, first: str, tmp_path: Path) -> None:
        theirs, given, folder = self.folder(family, tmp_path)
        rewritten(folder, lambda tensors: tensors | {second: tensors[first].clone()})
        model = clearhead.load(folder, "core")
        assert model.shape.head is not None
        assert model.shape.head.tied
        assert_equal(compute_reference_outputs(theirs, given), model.run(**given.to_clearhead()), given)

    def test_stored_under_the_second_name_only(self, family: str, second: str, first: str, tmp_path: Path) -> None:
        theirs, given, folder = self.folder(family, tmp_path)
        rewritten(folder, lambda tensors: {second if n == first else n: tensor for n, tensor in tensors.items()})
        assert_equal(
            compute_reference_outputs(theirs, given), clearhead.load(folder, "core").run(**given.to_clearhead()), given
        )
        if family == "t5":  # v1.1 has an output matrix of its own, and without its word table it is broken
            reconfigured(folder, tie_word_embeddings=False)
            with pytest.raises(TensorError, match=r"shared\.weight missing"):
                clearhead.load(folder, "core")

    def test_stored_with_other_values(self, family: str, second: str, first: str, tmp_path: Path) -> None:
        """The file is believed: the output has a matrix of its own, here and after the way back."""
        _, given, folder = self.folder(family, tmp_path)
        rewritten(folder, lambda tensors: tensors | {second: tensors[first].flip(0) * 2})
        model = clearhead.load(folder, "core")
        assert model.shape.head is not None
        assert not model.shape.head.tied
        expected = model.run(**given.to_clearhead()).logits
        model.save(tmp_path / "again")
        back = compute_reference_outputs(load_in_transformers(tmp_path / "again", HEADED[family]), given)["logits"]
        mask = given.mask if given.target_mask is None else given.target_mask
        np.testing.assert_allclose(back[mask], expected[mask], rtol=0, atol=1e-5)  # type: ignore[index]


@every_family
def test_saved_where_it_was_read(family: str, tmp_path: Path) -> None:
    """The file is mapped, not copied: writing over it, or training, must not reach into what is mapped."""
    theirs, given = pair(family, HEADED[family])
    theirs.save_pretrained(tmp_path)
    before = (tmp_path / "model.safetensors").read_bytes()
    model = clearhead.load(tmp_path, "core")
    with torch.no_grad():
        for parameter in model.module.parameters():
            parameter.mul_(1.5)
    assert (tmp_path / "model.safetensors").read_bytes() == before
    expected = model.run(**given.to_clearhead()).logits
    model.save(tmp_path)
    np.testing.assert_array_equal(model.run(**given.to_clearhead()).logits, expected)
    np.testing.assert_array_equal(clearhead.load(tmp_path, "core").run(**given.to_clearhead()).logits, expected)
    model.save(tmp_path, shard_bytes=9000)
    np.testing.assert_array_equal(clearhead.load(tmp_path, "core").run(**given.to_clearhead()).logits, expected)


def test_t5_v1_1_has_an_output_matrix_of_its_own(tmp_path: Path) -> None:
    """As its files are: tie_word_embeddings false, lm_head stored. transformers ties only what it makes itself."""
    made, given = pair("t5", "T5ForConditionalGeneration", feed_forward_proj="gated-gelu")
    made.save_pretrained(tmp_path)
    rewritten(tmp_path, lambda tensors: tensors | {"lm_head.weight": tensors["shared.weight"].flip(0) * 0.3})
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    del config["scale_decoder_outputs"]  # a key of newer files
    path.write_text(json.dumps(config | {"tie_word_embeddings": False}))
    model = clearhead.load(tmp_path, "core")
    assert model.shape.head is not None
    assert (model.shape.head.tied, model.shape.head.scale) == (False, 1.0)
    theirs = load_in_transformers(tmp_path, "T5ForConditionalGeneration")
    assert not torch.equal(theirs.lm_head.weight, theirs.shared.weight)
    assert_equal(compute_reference_outputs(theirs, given), model.run(**given.to_clearhead()), given)
    model.save(tmp_path / "again")
    back = load_in_transformers(tmp_path / "again", "T5ForConditionalGeneration")
    assert_equal(compute_reference_outputs(back, given), model.run(**given.to_clearhead()), given)


@pytest.mark.parametrize("family", ["t5", "marian"])
def test_word_tables_of_both_sides_stored(family: str, tmp_path: Path) -> None:
    theirs, given = pair(family, HEADED[family])
    theirs.save_pretrained(tmp_path)
    prefix = FAMILIES[family].prefix
    shared = f"{prefix}shared.weight"
    sides = [f"{prefix}encoder.embed_tokens.weight", f"{prefix}decoder.embed_tokens.weight"]
    rewritten(tmp_path, lambda tensors: tensors | {side: tensors[shared].clone() for side in sides})
    assert_equal(
        compute_reference_outputs(theirs, given), clearhead.load(tmp_path, "core").run(**given.to_clearhead()), given
    )
    rewritten(tmp_path, lambda tensors: tensors | {sides[1]: tensors[shared] + 1})
    with pytest.raises(TensorError, match="are two names of one tensor"):
        clearhead.load(tmp_path, "core")


def test_leftovers_of_old_files(tmp_path: Path) -> None:
    """Triangles, position numbers and computed tables were once saved with the weights."""
    old = {
        "gpt2": {f"transformer.h.{n}.attn.bias": torch.ones(1, 1, 40, 40).tril() for n in range(3)},
        "bert": {"bert.embeddings.position_ids": torch.arange(512)[None]},
        "roberta": {"roberta.embeddings.position_ids": torch.arange(512)[None]},
        "deberta-v2": {"deberta.embeddings.position_embeddings.weight": torch.zeros(512, 24)},
    }
    for family, extra in old.items():
        theirs, given = pair(family, HEADED[family])
        folder = tmp_path / family
        theirs.save_pretrained(folder)
        rewritten(folder, lambda tensors, extra=extra: tensors | extra)  # type: ignore[misc]
        model = clearhead.load(folder, "core")
        assert not model.notes
        assert_equal(compute_reference_outputs(theirs, given), model.run(**given.to_clearhead()), given)


def test_position_tables_that_marian_stores(tmp_path: Path) -> None:
    """They are computed: equal ones are read over, others are refused, and the bare class writes them."""
    theirs, given = pair("marian", HEADED["marian"])
    theirs.save_pretrained(tmp_path)
    sides = {f"model.{side}.embed_positions.weight": side for side in ("encoder", "decoder")}
    tables = {name: getattr(theirs.model, side).embed_positions.weight.detach().clone() for name, side in sides.items()}
    rewritten(tmp_path, lambda tensors: tensors | tables)
    model = clearhead.load(tmp_path, "core")
    assert not model.notes
    assert_equal(compute_reference_outputs(theirs, given), model.run(**given.to_clearhead()), given)
    rewritten(tmp_path, lambda tensors: tensors | {name: table + 0.1 for name, table in tables.items()})
    with pytest.raises(TensorError, match="differs from the sinusoidal position table"):
        clearhead.load(tmp_path, "core")
    bare, _ = pair("marian", BASE_CLASSES["marian"])
    bare.save_pretrained(tmp_path / "bare")
    clearhead.load(tmp_path / "bare", "core").save(tmp_path / "again")
    _, report = type(bare).from_pretrained(tmp_path / "again", output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]


@pytest.mark.parametrize("head", ["tag", "choice", "span"])
def test_another_task_gets_another_head(head: str, tmp_path: Path) -> None:
    """Heads of several tasks have one name in a file; a classifier of texts is no tagger."""
    clearhead.create("bert", config=OTHER, head="classify", labels=list("abcd")).save(tmp_path)
    model = clearhead.load(tmp_path, "core", head=head)
    assert any("head is newly initialized" in note for note in model.notes)
    assert clearhead.load(tmp_path, "core").notes == ()
    assert clearhead.load(tmp_path, "core", labels=list("abcdef")).shape.head.outputs == 6  # type: ignore[union-attr]


OTHER = {"hidden_size": 12, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8, "vocab_size": 30}


def test_the_first_files_say_gamma_and_name_no_class(tmp_path: Path) -> None:
    """As Google's BERT was first converted: both pre-training heads, gamma and beta, no architectures."""
    model = clearhead.create("bert", config=OTHER, head="pretrain")
    model.save(tmp_path)
    rewritten(
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
    clearhead.create("bert", config=OTHER).save(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"architectures": ["GPT2LMHeadModel"]}))
    with pytest.raises(ConfigError, match="GPT2LMHeadModel"):
        clearhead.load(tmp_path, "core")


# ours differ only where null stands for what theirs spells out, and in ids that do not change a number
SPELLED = {
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
def test_what_a_config_leaves_out(family: str) -> None:
    """config.json may name only what differs: every default here is the default of transformers."""
    theirs = getattr(import_transformers(), BASE_CLASSES[family]).config_class().to_dict()
    other = {
        (family, key)
        for key, value in FAMILIES[family].read_config({}).items()
        if key in theirs and theirs[key] != value
    }
    assert other == {known for known in SPELLED if known[0] == family}


@every_family
def test_a_config_with_only_its_sizes(family: str, tmp_path: Path) -> None:
    """The same with a model in between: all but the sizes left out of config.json, the outputs do not change."""
    theirs, given = pair(family, HEADED[family])
    theirs.save_pretrained(tmp_path)
    small = FIXED_CONFIGS[family] | {"model_type": family, "architectures": [HEADED[family]]}
    (tmp_path / "config.json").write_text(json.dumps(small))
    assert_equal(
        compute_reference_outputs(theirs, given), clearhead.load(tmp_path, "core").run(**given.to_clearhead()), given
    )


# where nothing but the class name tells two heads apart, the likelier one is taken: texts before choices, words last
GUESSED = {
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
REFUSED = ("OpenAIGPTDoubleHeadsModel", "T5EncoderModel")  # half of a model, which the silent config does not admit


@pytest.mark.thin(4)
@pytest.mark.parametrize(("family", "title"), CLASSES, ids=[title for _, title in CLASSES])
def test_a_config_that_names_no_class(family: str, title: str, tmp_path: Path) -> None:
    """As in the first files: the head is the one whose tensors are there."""
    theirs, _ = pair(family, title, num_labels=1 if "Choice" in title else 2)
    theirs.save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    del config["architectures"]
    path.write_text(json.dumps(config))
    if title in REFUSED:
        with pytest.raises(TensorError, match="missing"):
            clearhead.load(tmp_path, "core")
        return
    expected = None if title == BASE_CLASSES[family] else FAMILIES[family].architectures[title]
    assert clearhead.load(tmp_path, "core").head == GUESSED.get(title, expected)
