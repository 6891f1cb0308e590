"""Write small tokenizer folders, with vocabularies that are trained on the fly or, if available, published."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

WEIGHTS = Path(os.environ.get("CLEARHEAD_WEIGHTS", Path(__file__).parents[3] / "shared" / "weights")) / "tokenizers"

SENTENCES = (
    "The old lighthouse keeper wrote a letter to his daughter every evening.",
    "She doesn't answer, but the keeper keeps writing; it's 27 letters so far!",
    "Rain fell on the harbour, and the fishermen mended their nets in silence.",
    "A model reads words as numbers, and numbers as a place among other words.",
    "How many tokens are there in this sentence, and which of them are special?",
    "Where two roads meet, a traveller must choose (or toss a coin).",
    "Le vieux gardien écrivait une lettre à sa fille chaque soir; déjà vingt-sept!",
    "Der alte Wärter schrieb täglich Briefe an seine Tochter, größer als Straßen.",
    "El faro está lejos, mañana volveré con el niño y la señora.",
    "Старый смотритель маяка писал письма своей дочери каждый вечер.",
    "灯台守は毎晩、娘に手紙を書いた。東京は晴れです。",
    "老灯塔看守人每天晚上给女儿写信。北京欢迎你。",
    "등대지기는 매일 저녁 딸에게 편지를 썼다.",
    "כתב מכתב לבתו בכל ערב",
    "Version 3.14 costs $2,718.28 -- that's 1,000% more than x_1 + y^2!",
    "naïve café résumé coöperate façade jalapeño Ångström",
)

TEXTS = (
    "",
    " ",
    "   \t\n  ",
    "Hello world",
    " leading and trailing ",
    "two  spaces   three\ttabs\t\nlines\r\nand\u00a0hard\u2003spaces\u3000wide",
    "The old lighthouse keeper doesn't write 3.14 letters -- it's (late)!",
    "café naïve Straße ÉCOLE İstanbul",
    "cafe\u0301 nai\u0308ve e\u0323\u0302 A\u030a",
    "東京は晴れ。北京欢迎你，한국어 텍스트 ㌀ ﬁ ﬀ ½ Ⅳ ²",
    "👩‍👩‍👧‍👦 family 🏳️‍🌈 flag 🇫🇷 👍🏽",
    "zero\u200bwidth\u200c\u200d\ufeff joiner\u00ad soft",
    "שלום \u202bעולם\u202c \u200eمرحبا بالعالم",
    "control \x00 \x01 \x07 \x1b \x7f \x85 chars",
    "\ufffd replacement \U0001f600 \U000e0001 private \ue000",
    "supercalifragilisticexpialidocious" * 9,
    "x" * 300,
    "[CLS] [SEP] [MASK] [PAD] [UNK] <s> </s> <mask> <pad> <unk> <|endoftext|> <extra_id_0> >>fr<<",
    "a[MASK]b  [MASK]  c<mask>d <mask> e</s>f <extra_id_1>g",
    "a.b,c;d:e!f?g'h\"i``j''k-l_m/n\\o|p@q#r$s%t^u&v*w(x)y[z]",
    "ÅNGSTRÖM ǅ ΣΊΣΥΦΟΣ ẞ ŉ",
    "letters letters letters. The The the THE",
    "▁already ▁marked ##pieces Ġbytes </w> <0x41>",
)

WORDS: tuple[list[str], ...] = (
    ["The", "old", "lighthouse", "keeper"],
    ["naïve", "café", "[MASK]", "don't", "東京は", "x" * 120],
    ["  padded ", "two words", "", "end"],
    [],
)


def write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")


def find_published_files(*names: str) -> list[Path]:
    """Return the paths of published vocabulary files; skip the test if one is missing."""
    paths = [WEIGHTS / name for name in names]
    for path in paths:
        if not path.is_file():
            pytest.skip(f"published vocabulary {path.parent.name}/{path.name} not found; set CLEARHEAD_WEIGHTS")
    return paths


def train_wordpiece(special_tokens: tuple[str, ...], *, lowercase: bool = True) -> dict[str, int]:
    """Train a WordPiece vocabulary on a few sentences."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.train_from_iterator(
        SENTENCES, trainers.WordPieceTrainer(vocab_size=400, special_tokens=list(special_tokens), show_progress=False)
    )
    return dict(sorted(tokenizer.get_vocab().items(), key=lambda item: item[1]))


def train_byte_level_bpe(special_tokens: tuple[str, ...]) -> tuple[dict[str, int], list[str]]:
    """Train a byte-level BPE model on a few sentences; return the vocabulary and the merges."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=500,
        special_tokens=list(special_tokens),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(SENTENCES, trainer)
    return _get_vocabulary_and_merges(tokenizer)


def train_word_end_bpe() -> tuple[dict[str, int], list[str]]:
    """Train a BPE model with </w> at the end of words, as in the first GPT; return the vocabulary and the merges."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.BPEDecoder(suffix="</w>")
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=["<unk>"], end_of_word_suffix="</w>", show_progress=False
    )
    tokenizer.train_from_iterator(SENTENCES, trainer)
    return _get_vocabulary_and_merges(tokenizer)


def _get_vocabulary_and_merges(tokenizer: Tokenizer) -> tuple[dict[str, int], list[str]]:
    model = json.loads(tokenizer.to_str())["model"]
    return model["vocab"], [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]]


def train_sentencepiece(sentences: tuple[str, ...] = SENTENCES, **options: Any) -> bytes:
    """Train a SentencePiece model on a few sentences."""
    settings: dict[str, Any] = {
        "vocab_size": 320,
        "hard_vocab_limit": False,
        "model_type": "unigram",
        "minloglevel": 2,
        "character_coverage": 0.98,
    }
    buffer = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences), model_writer=buffer, **(settings | options)
    )
    return buffer.getvalue()


def _write_config(folder: Path, model_type: str, **settings: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "config.json", {"model_type": model_type, **settings})


def write_bert_real(folder: Path) -> str:
    _write_config(folder, "bert")
    (folder / "vocab.txt").write_bytes(find_published_files("bert-base-uncased/vocab.txt")[0].read_bytes())
    return "bert"


def write_bert_cased(folder: Path) -> str:
    _write_config(folder, "bert")
    special_tokens = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    (folder / "vocab.txt").write_text(
        "\n".join(train_wordpiece(special_tokens, lowercase=False)) + "\n", encoding="utf-8"
    )
    write_json(
        folder / "tokenizer_config.json",
        {"do_lower_case": False, "tokenize_chinese_chars": False, "strip_accents": True, "model_max_length": 48},
    )
    write_json(folder / "special_tokens_map.json", {"mask_token": {"content": "[MASK]", "lstrip": True}})
    write_json(folder / "added_tokens.json", {"lighthouse keeper": 400, "[NEW]": 401})
    return "bert"


def write_distilbert(folder: Path) -> str:
    _write_config(folder, "distilbert")
    special_tokens = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    (folder / "vocab.txt").write_text("\n".join(train_wordpiece(special_tokens)) + "\n", encoding="utf-8")
    write_json(folder / "tokenizer_config.json", {"tokenizer_class": "DistilBertTokenizer", "strip_accents": False})
    return "distilbert"


def write_electra(folder: Path) -> str:
    _write_config(folder, "electra")
    special_tokens = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    (folder / "vocab.txt").write_text("\r\n".join(train_wordpiece(special_tokens)) + "\r\n", encoding="utf-8")
    write_json(
        folder / "tokenizer_config.json",
        {"do_lower_case": True, "additional_special_tokens": ["[E1]", "[E2]"], "model_max_length": 1e30},
    )
    return "electra"


def write_mpnet(folder: Path) -> str:
    _write_config(folder, "mpnet")
    special_tokens = ("<s>", "<pad>", "</s>", "[UNK]", "<mask>")
    (folder / "vocab.txt").write_text("\n".join(train_wordpiece(special_tokens)) + "\n", encoding="utf-8")
    return "mpnet"


def write_roberta(folder: Path) -> str:
    _write_config(folder, "roberta")
    vocab, merges = train_byte_level_bpe(("<s>", "<pad>", "</s>", "<unk>", "<mask>"))
    write_json(folder / "vocab.json", vocab)
    (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges) + "\n", encoding="utf-8")
    return "roberta"


def write_roberta_prefixed(folder: Path) -> str:
    write_roberta(folder)
    mask_token = {"content": "<mask>", "lstrip": True, "rstrip": False, "normalized": False, "__type": "AddedToken"}
    write_json(
        folder / "tokenizer_config.json",
        {"add_prefix_space": True, "trim_offsets": False, "mask_token": mask_token, "truncation_side": "left"},
    )
    return "roberta"


def write_gpt2(folder: Path) -> str:
    _write_config(folder, "gpt2")
    vocab, merges = train_byte_level_bpe(("<|endoftext|>",))
    write_json(folder / "vocab.json", vocab)
    (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges) + "\n", encoding="utf-8")
    return "gpt2"


def write_gpt2_real(folder: Path) -> str:
    _write_config(folder, "gpt2")
    names = ("vocab.json", "merges.txt")
    for published_file, name in zip(find_published_files("gpt2/encoder.json", "gpt2/vocab.bpe"), names, strict=True):
        (folder / name).write_bytes(published_file.read_bytes())
    write_json(folder / "tokenizer_config.json", {"add_bos_token": True, "pad_token": "<pad>"})
    return "gpt2"


def write_openai_gpt(folder: Path) -> str:
    _write_config(folder, "openai-gpt")
    vocab, merges = train_word_end_bpe()
    write_json(folder / "vocab.json", vocab)
    (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges) + "\n", encoding="utf-8")
    return "openai-gpt"


def write_albert_real(folder: Path) -> str:
    _write_config(folder, "albert")
    (folder / "spiece.model").write_bytes(find_published_files("albert/spiece.model")[0].read_bytes())
    return "albert"


def write_albert(folder: Path) -> str:
    _write_config(folder, "albert")
    data = train_sentencepiece(
        pad_id=0, unk_id=1, bos_id=-1, eos_id=-1, control_symbols="[CLS],[SEP],[MASK]", user_defined_symbols="(,)"
    )
    (folder / "spiece.model").write_bytes(data)
    write_json(folder / "tokenizer_config.json", {"do_lower_case": False, "keep_accents": True})
    return "albert"


def write_xlm_roberta(folder: Path) -> str:
    _write_config(folder, "xlm-roberta")
    (folder / "sentencepiece.bpe.model").write_bytes(train_sentencepiece())
    return "xlm-roberta"


def write_t5(folder: Path) -> str:
    _write_config(folder, "t5")
    (folder / "spiece.model").write_bytes(train_sentencepiece(pad_id=0, eos_id=1, unk_id=2, bos_id=-1))
    write_json(folder / "tokenizer_config.json", {"extra_ids": 10, "model_max_length": 512})
    return "t5"


def write_t5_bpe(folder: Path) -> str:
    _write_config(folder, "t5")
    ids: dict[str, Any] = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}
    data = train_sentencepiece(model_type="bpe", byte_fallback=True, vocab_size=600, **ids)
    (folder / "spiece.model").write_bytes(data)
    return "t5"


def write_deberta(folder: Path) -> str:
    _write_config(folder, "deberta-v2")
    (folder / "spm.model").write_bytes(_train_deberta_pieces())
    return "deberta-v2"


def write_deberta_split(folder: Path) -> str:
    write_deberta(folder)
    write_json(folder / "tokenizer_config.json", {"do_lower_case": True, "split_by_punct": True})
    write_json(folder / "added_tokens.json", {"[MASK]": 2000})
    return "deberta-v2"


def _train_deberta_pieces() -> bytes:
    ids: dict[str, Any] = {"pad_id": 0, "bos_id": 1, "eos_id": 2, "unk_id": 3}
    return train_sentencepiece(pad_piece="[PAD]", bos_piece="[CLS]", eos_piece="[SEP]", unk_piece="[UNK]", **ids)


LEGACY_WRITERS: dict[str, Callable[[Path], str]] = {
    writer.__name__.removeprefix("write_"): writer
    for writer in (
        write_bert_real,
        write_bert_cased,
        write_distilbert,
        write_electra,
        write_mpnet,
        write_roberta,
        write_roberta_prefixed,
        write_gpt2,
        write_gpt2_real,
        write_openai_gpt,
        write_albert_real,
        write_albert,
        write_xlm_roberta,
        write_t5,
        write_t5_bpe,
        write_deberta,
        write_deberta_split,
    )
}


def write_marian(folder: Path, *, has_separate_vocabs: bool = False, **options: Any) -> str:
    """Write a translation folder with two SentencePiece models and one or two vocabularies."""
    _write_config(folder, "marian")
    source_model = train_sentencepiece(SENTENCES[:10], **({"vocab_size": 200} | options))
    target_model = train_sentencepiece(SENTENCES[6:], **({"vocab_size": 200} | options))
    (folder / "source.spm").write_bytes(source_model)
    (folder / "target.spm").write_bytes(target_model)
    vocabularies = [_list_marian_tokens(source_model), _list_marian_tokens(target_model)]
    if has_separate_vocabs:
        for name, pieces in zip(("vocab.json", "target_vocab.json"), vocabularies, strict=True):
            write_json(folder / name, {piece: token_id for token_id, piece in enumerate([*pieces, "<pad>"])})
    else:
        shared_vocabulary = dict.fromkeys([*vocabularies[0], *vocabularies[1], ">>fr<<", ">>deu<<", "<pad>"])
        write_json(folder / "vocab.json", {piece: token_id for token_id, piece in enumerate(shared_vocabulary)})
    write_json(
        folder / "tokenizer_config.json",
        {"source_lang": "en", "target_lang": "fr", "model_max_length": 512, "separate_vocabs": has_separate_vocabs},
    )
    return "marian"


def _list_marian_tokens(model_bytes: bytes) -> list[str]:
    model = sentencepiece.SentencePieceProcessor(model_proto=model_bytes)
    pieces = [model.id_to_piece(index) for index in range(model.get_piece_size())]
    # As in published folders, some pieces are missing in the vocabulary and become unknown tokens.
    return ["</s>", "<unk>", *(piece for index, piece in enumerate(pieces[3:]) if index % 17)]
