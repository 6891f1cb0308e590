"""Valid tiny model folders, one or two per family, as input of the mutations."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

import clearhead
from clearhead.shape import DenseShape, Pooling
from clearhead.text import load_tokenizer

SENTENCES = (
    "the old keeper of the light walks down to the sea at night",
    "a small boat with a red sail waits for the wind and the tide",
    "he reads letters that nobody sent and answers them with care",
    "rain falls on the stones, and the gulls are loud over the bay",
    "in the morning the children come to count the ships and shells",
)
BERT = {
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 12,
    "max_position_embeddings": 64,
}
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
ROBERTA_SPECIAL = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
# a small normalization table: lowercase for a few letters, one ligature and one deletion
NORMALIZATION_RULES = "41\t61\n42\t62\n43\t63\n66 69\tfb01\nad\t\n"


def write_wordpiece(folder: Path, special: tuple[str, ...] = SPECIAL) -> None:
    """Write a vocab.txt for WordPiece: letters, their continuations and whole words."""
    letters = "abcdefghijklmnopqrstuvwxyz,."
    whole_words = sorted({word.strip(",") for sentence in SENTENCES for word in sentence.split()})
    tokens = dict.fromkeys([*special, *letters, *(f"##{letter}" for letter in letters), *whole_words])
    (folder / "vocab.txt").write_text("\n".join(tokens) + "\n", encoding="utf-8")


def write_mpnet_wordpiece(folder: Path) -> None:
    """Write a vocab.txt with the special tokens of MPNet."""
    write_wordpiece(folder, ("<s>", "<pad>", "</s>", "[UNK]", "<mask>"))


def write_bpe(folder: Path, special: tuple[str, ...] = ROBERTA_SPECIAL) -> None:
    """Write vocab.json and merges.txt for byte-level BPE."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=300, special_tokens=list(special), initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(SENTENCES, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]]
    (folder / "vocab.json").write_text(json.dumps(model["vocab"]), encoding="utf-8")
    (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges) + "\n", encoding="utf-8")


def write_gpt_bpe(folder: Path) -> None:
    """Write byte-level BPE with the special token of GPT-2."""
    write_bpe(folder, ("<|endoftext|>",))


def write_sentencepiece(folder: Path, name: str, **options: Any) -> bytes:
    """Write a SentencePiece model with a small normalization table."""
    rules = folder / "rules.tsv"
    rules.write_text(NORMALIZATION_RULES, encoding="utf-8")
    buffer = io.BytesIO()
    settings: dict[str, Any] = {
        "vocab_size": 70,
        "hard_vocab_limit": False,
        "model_type": "unigram",
        "minloglevel": 2,
    } | options
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES), model_writer=buffer, normalization_rule_tsv=str(rules), **settings
    )
    rules.unlink()
    (folder / name).write_bytes(buffer.getvalue())
    return buffer.getvalue()


def write_albert_pieces(folder: Path) -> None:
    """Write a SentencePiece model with the control tokens of ALBERT."""
    write_sentencepiece(
        folder, "spiece.model", pad_id=0, unk_id=1, bos_id=-1, eos_id=-1, control_symbols="[CLS],[SEP],[MASK]"
    )


def write_t5_pieces(folder: Path) -> None:
    """Write a SentencePiece model with the special ids of T5."""
    write_sentencepiece(folder, "spiece.model", pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    (folder / "tokenizer_config.json").write_text('{"extra_ids": 4, "model_max_length": 64}', encoding="utf-8")


def write_deberta_pieces(folder: Path) -> None:
    """Write a SentencePiece model with the special tokens of DeBERTa."""
    special_pieces = {"pad_piece": "[PAD]", "bos_piece": "[CLS]", "eos_piece": "[SEP]", "unk_piece": "[UNK]"}
    write_sentencepiece(folder, "spm.model", pad_id=0, bos_id=1, eos_id=2, unk_id=3, **special_pieces)


def write_xlm_pieces(folder: Path) -> None:
    """Write a SentencePiece model with the file name of XLM-R."""
    write_sentencepiece(folder, "sentencepiece.bpe.model")


def write_marian_pieces(folder: Path) -> None:
    """Write two SentencePiece models, the second of type BPE, and their common vocabulary."""
    vocabulary: dict[str, None] = {"</s>": None, "<unk>": None}
    for name, kind in (("source.spm", "unigram"), ("target.spm", "bpe")):
        model = sentencepiece.SentencePieceProcessor(model_proto=write_sentencepiece(folder, name, model_type=kind))
        vocabulary |= {model.id_to_piece(i): None for i in range(3, model.get_piece_size())}
    ids = {piece: token_id for token_id, piece in enumerate([*vocabulary, "<pad>"])}
    (folder / "vocab.json").write_text(json.dumps(ids, ensure_ascii=False), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text('{"source_lang": "en", "target_lang": "fr"}', encoding="utf-8")


DEBERTA = {
    "relative_attention": True,
    "pos_att_type": ["p2c", "c2p"],
    "position_buckets": 4,
    "conv_kernel_size": 3,
    "norm_rel_ebd": "layer_norm",
    "position_biased_input": False,
    "max_relative_positions": 16,
    "share_att_key": True,
}
GPT = {"n_embd": 8, "n_layer": 2, "n_head": 2, "n_positions": 64}
T5 = {"d_model": 8, "d_kv": 4, "d_ff": 12, "num_layers": 2, "num_heads": 2}
MARIAN = {
    "d_model": 8,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 12,
    "decoder_ffn_dim": 12,
    "pad_token_id": 1,
    "decoder_start_token_id": 1,
}

VocabularyWriter = Callable[[Path], None]
# name -> family, head, config, writer of the vocabulary
SEEDS: dict[str, tuple[str, str | None, dict[str, Any], VocabularyWriter]] = {
    "bert": ("bert", "classify", BERT, write_wordpiece),
    "bert-pretrain": ("bert", "pretrain", BERT, write_wordpiece),
    "distilbert": ("distilbert", "tag", {"dim": 8, "n_layers": 1, "n_heads": 2, "hidden_dim": 12}, write_wordpiece),
    "electra": ("electra", "replaced", BERT | {"embedding_size": 6}, write_wordpiece),
    "mpnet": ("mpnet", "masked", BERT | {"pad_token_id": 1}, write_mpnet_wordpiece),
    "roberta": ("roberta", "masked", BERT | {"pad_token_id": 1, "type_vocab_size": 1}, write_bpe),
    "xlm-roberta": ("xlm-roberta", None, BERT | {"pad_token_id": 1}, write_xlm_pieces),
    "albert": ("albert", "masked", BERT | {"embedding_size": 6}, write_albert_pieces),
    "deberta": ("deberta-v2", "masked", BERT | DEBERTA, write_deberta_pieces),
    "modernbert": ("modernbert", "masked", BERT | {"local_attention": 4, "pad_token_id": 0}, write_wordpiece),
    "gpt2": ("gpt2", "causal", GPT, write_gpt_bpe),
    "t5": ("t5", "seq2seq", T5, write_t5_pieces),
    "marian": ("marian", "seq2seq", MARIAN, write_marian_pieces),
}
LEGACY = ("bert", "roberta", "gpt2", "albert", "t5", "deberta", "xlm-roberta")  # also without tokenizer.json


def make_seeds(base: Path) -> list[str]:
    """Write all seeds below `base`; returns their names in a fixed order."""
    names = []
    for name, (family, head, config, vocabulary) in SEEDS.items():
        legacy = base / f"{name}-legacy"
        legacy.mkdir(parents=True)
        vocabulary(legacy)
        kind = "bert" if family == "modernbert" else family
        tokenizers = load_tokenizer(legacy, kind, {})
        model = clearhead.create(family, config=config, head=head, tokenizer=tokenizers.source, device="cpu")
        model.target_tokenizer = tokenizers.target
        folder = model.save(base / name)
        names.append(name)
        if name in LEGACY:
            for file in ("config.json", "model.safetensors"):
                (legacy / file).write_bytes((folder / file).read_bytes())
            names.append(legacy.name)
        if name != "bert":  # bert keeps its passport, whose golden ids reject most tokenizer changes
            (folder / "clearhead.json").unlink()
    names.append(_make_sentence_folder(base, "sentences"))
    names.append(_make_shards(base, "shards"))
    return names


def _make_sentence_folder(base: Path, name: str) -> str:
    """Write a sentence-transformers folder with a dense layer and a prompt."""
    tokenizer = load_tokenizer(base / "bert-legacy", "bert", {}).source
    model = clearhead.create("bert", config=BERT, tokenizer=tokenizer, device="cpu")
    model.pooling = Pooling(
        modes=("mean", "cls"),
        dense=(DenseShape(inputs=16, outputs=5),),
        normalize=True,
        prompts=(("query", "the "),),
        default_prompt="query",
        max_length=32,
        origin="modules.json",
    )
    rng = np.random.default_rng(0)
    model.dense = (
        {
            "weight": rng.standard_normal((5, 16), np.float32),
            "bias": rng.standard_normal(5, np.float32),
        },
    )
    (model.save(base / name) / "clearhead.json").unlink()
    return name


def _make_shards(base: Path, name: str) -> str:
    """Write the same weights as several shards with an index."""
    model = clearhead.load(base / "bert", device="cpu")
    (model.save(base / name, shard_bytes=1500) / "clearhead.json").unlink()
    return name
