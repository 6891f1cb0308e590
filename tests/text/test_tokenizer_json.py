"""Folders as found on the hub: tokenizer.json with various settings files."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Pipeline

from clearhead.errors import TokenizerError
from clearhead.text import Tokenizer, load_tokenizer
from clearhead.text.sentencepiece.model_file import parse_model
from tests.text.tokenizer_folders import (
    LEGACY_WRITERS,
    SENTENCES,
    TEXTS,
    find_published_files,
    train_byte_level_bpe,
    train_sentencepiece,
    train_wordpiece,
    write_json,
    write_xlm_roberta,
)

LoadFamily = Callable[[str, str], tuple[Tokenizer, Any]]
LoadReference = Callable[[Path], Any]


def check_same_encodings(ours: Tokenizer, theirs: Any) -> None:
    texts = list(TEXTS)
    for encoding, expected in zip(ours.encode_batch(texts), theirs(texts).encodings, strict=True):
        assert encoding.ids == expected.ids
        assert encoding.offsets == expected.offsets
        assert encoding.segments == expected.type_ids
    pairs = theirs(texts, texts[::-1]).encodings
    for encoding, expected in zip(ours.encode_batch(list(zip(texts, texts[::-1], strict=True))), pairs, strict=True):
        assert encoding.ids == expected.ids
    assert ours.vocab == theirs.get_vocab()


def make_modernbert_pipeline(folder: Path) -> Pipeline:
    """Make a pipeline like ModernBERT's: byte-level BPE with a template and a [MASK] token with lstrip."""
    folder.mkdir(exist_ok=True)
    vocab, merges = train_byte_level_bpe(("[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"))
    pipeline = Pipeline(models.BPE(vocab=vocab, merges=[(a, b) for a, b in (m.split(" ") for m in merges)]))
    pipeline.normalizer = normalizers.NFC()
    pipeline.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    pipeline.add_special_tokens([AddedToken("[MASK]", lstrip=True, special=True), "[CLS]", "[SEP]", "[PAD]", "[UNK]"])
    pipeline.add_tokens([AddedToken("|||IP|||"), AddedToken("   ", normalized=True)])
    boundary_tokens = [("[CLS]", vocab["[CLS]"]), ("[SEP]", vocab["[SEP]"])]
    pair = "[CLS]:0 $A:0 [SEP]:0 $B:0 [SEP]:0"
    pipeline.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair=pair, special_tokens=boundary_tokens
    )
    write_json(folder / "config.json", {"model_type": "modernbert"})
    special_tokens = {"cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]", "mask_token": "[MASK]"}
    write_json(
        folder / "tokenizer_config.json",
        special_tokens | {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 8192, "unk_token": "[UNK]"},
    )
    return pipeline


def test_tokenizer_json_without_a_recipe(tmp_path: Path, load_reference: LoadReference) -> None:
    make_modernbert_pipeline(tmp_path).save(str(tmp_path / "tokenizer.json"))
    ours = load_tokenizer(tmp_path, "modernbert", {}).source
    check_same_encodings(ours, load_reference(tmp_path))
    assert ours.max_length == 8192
    ours.save(tmp_path / "saved")
    write_json(tmp_path / "saved" / "config.json", {"model_type": "modernbert"})
    check_same_encodings(
        load_tokenizer(tmp_path / "saved", "modernbert", {}).source, load_reference(tmp_path / "saved")
    )
    assert load_tokenizer(tmp_path / "saved", "modernbert", {}).source.golden() == ours.golden()


def test_truncation_and_padding_of_the_file_are_disabled(tmp_path: Path) -> None:
    pipeline = make_modernbert_pipeline(tmp_path)
    pipeline.enable_truncation(max_length=4)
    pipeline.enable_padding(length=64, pad_token="[PAD]", pad_id=3)
    pipeline.save(str(tmp_path / "tokenizer.json"))
    ours = load_tokenizer(tmp_path, "modernbert", {}).source
    encoding = ours.encode(SENTENCES[0])
    assert len(encoding) > 8
    assert ours.pad_id not in encoding.ids
    assert encoding.truncated == 0
    for name in ("bert_cased", "roberta", "t5"):  # also in files from which only the vocabulary is read
        folder = tmp_path / name
        model_type = LEGACY_WRITERS[name](folder / "legacy")
        load_tokenizer(folder / "legacy", model_type, {}).source.save(folder)
        data = json.loads((folder / "tokenizer.json").read_text("utf-8"))
        data["truncation"] = {"max_length": 4, "stride": 0, "strategy": "LongestFirst", "direction": "Left"}
        data["padding"] = {"strategy": {"Fixed": 64}, "direction": "Right", "pad_to_multiple_of": None}
        data["padding"] |= {"pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"}
        write_json(folder / "tokenizer.json", data)
        ours = load_tokenizer(folder, model_type, {}).source
        complete = ours.encode(SENTENCES[0])
        assert 8 < len(complete) < 64
        truncated = ours.encode(SENTENCES[0], max_length=6)
        special_count = sum(complete.special)
        first_ordinary_index = complete.special.index(False)
        assert [i for i, s in zip(truncated.ids, truncated.special, strict=True) if not s] == [
            i for i, s in zip(complete.ids, complete.special, strict=True) if not s
        ][-(6 - special_count) :], "the file truncates on the left"
        assert first_ordinary_index in (0, 1)


def test_tokenizer_class_of_another_family(tmp_path: Path, load_reference: LoadReference) -> None:
    write_xlm_roberta(tmp_path)
    write_json(tmp_path / "config.json", {"model_type": "bert"})
    write_json(tmp_path / "tokenizer_config.json", {"tokenizer_class": "XLMRobertaTokenizerFast"})
    check_same_encodings(load_tokenizer(tmp_path, "bert", {"model_type": "bert"}).source, load_reference(tmp_path))


def test_tokenizer_class_in_config_json(tmp_path: Path, load_reference: LoadReference) -> None:
    write_xlm_roberta(tmp_path)
    config = {"model_type": "bert", "tokenizer_class": "XLMRobertaTokenizer"}
    write_json(tmp_path / "config.json", config)
    check_same_encodings(load_tokenizer(tmp_path, "bert", config).source, load_reference(tmp_path))


@pytest.mark.parametrize("name", ["bert_cased", "roberta", "albert", "xlm_roberta", "t5", "deberta", "mpnet", "gpt2"])
def test_added_tokens_in_the_settings(
    tmp_path: Path, load_family: LoadFamily, load_reference: LoadReference, name: str
) -> None:
    """Files of `transformers` 4: tokenizer_config.json has an added_tokens_decoder with flags."""
    theirs = load_family(name, "legacy")[1]
    theirs.save_pretrained(tmp_path)
    added_tokens_decoder = {str(i): t.__getstate__() for i, t in theirs.added_tokens_decoder.items()}
    for flags in added_tokens_decoder.values():
        if "mask" in flags["content"].lower():
            flags["lstrip"] = True
    added_tokens_decoder[str(len(theirs))] = {
        "content": "New Word",
        "normalized": True,
        "special": False,
        "single_word": True,
    }
    added_tokens_decoder[str(len(theirs) + 1)] = {
        "content": "[SPECIAL]",
        "normalized": False,
        "special": True,
        "rstrip": True,
    }
    path = tmp_path / "tokenizer_config.json"
    settings = json.loads(path.read_text("utf-8"))
    settings |= {"added_tokens_decoder": added_tokens_decoder, "additional_special_tokens": ["[SPECIAL]"]}
    settings["extra_special_tokens"] = {}
    write_json(path, settings)
    model_type = LEGACY_WRITERS[name](tmp_path / "again")
    write_json(tmp_path / "config.json", {"model_type": model_type})
    ours, theirs = load_tokenizer(tmp_path, model_type, {}).source, load_reference(tmp_path)
    check_same_encodings(ours, theirs)
    text = "a New Word, no New Words [SPECIAL]  b <mask> c [MASK] d"
    assert ours.encode(text).ids == theirs(text)["input_ids"]
    assert ours.decode(ours.encode(text).ids) == theirs.decode(theirs(text)["input_ids"], skip_special_tokens=True)


def test_special_tokens_as_ordinary_text(tmp_path: Path, load_reference: LoadReference) -> None:
    model_type = LEGACY_WRITERS["bert_cased"](tmp_path)
    path = tmp_path / "tokenizer_config.json"
    write_json(path, json.loads(path.read_text()) | {"split_special_tokens": True, "image_token": "<image>"})
    ours, theirs = load_tokenizer(tmp_path, model_type, {}).source, load_reference(tmp_path)
    check_same_encodings(ours, theirs)
    assert ours.encode("[MASK]").ids != [ours.cls_id, ours.mask_id, ours.sep_id]
    assert ours.token_id("<image>") == theirs.convert_tokens_to_ids("<image>")


def test_openai_file_names(tmp_path: Path, load_family: LoadFamily) -> None:
    encoder, merges = find_published_files("gpt2/encoder.json", "gpt2/vocab.bpe")
    (tmp_path / "encoder.json").write_bytes(encoder.read_bytes())
    (tmp_path / "vocab.bpe").write_bytes(merges.read_bytes())
    ours = load_tokenizer(tmp_path, "gpt2", {}).source
    theirs = load_family("gpt2_real", "legacy")[1]
    for text in TEXTS[:17]:
        assert [ours.bos_id, *ours.encode(text).ids] == theirs(text)[
            "input_ids"
        ]  # the reference folder sets add_bos_token


def test_conflicting_files_are_noted(tmp_path: Path, load_reference: LoadReference) -> None:
    """`transformers` 5 lowercases text if a cased tokenizer.json has no settings; Clearhead also does, with a note."""
    vocab = train_wordpiece(("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"))
    pipeline = Pipeline(models.WordPiece(vocab, unk_token="[UNK]"))
    pipeline.normalizer = normalizers.BertNormalizer(lowercase=False)
    pipeline.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    pipeline.save(str(tmp_path / "tokenizer.json"))
    write_json(tmp_path / "config.json", {"model_type": "bert"})
    ours = load_tokenizer(tmp_path, "bert", {}).source
    check_same_encodings(ours, load_reference(tmp_path))
    assert len(ours.notes) == 1
    assert "'The'" in ours.notes[0]
    assert "'the'" in ours.notes[0]
    write_json(tmp_path / "tokenizer_config.json", {"do_lower_case": False})
    assert load_tokenizer(tmp_path, "bert", {}).source.notes == ()


@pytest.mark.parametrize("name", LEGACY_WRITERS)
def test_consistent_files_have_no_notes(load_family: LoadFamily, name: str) -> None:
    for origin in ("legacy", "theirs", "ours"):
        assert load_family(name, origin)[0].notes == ()


def test_mask_token_absorbs_the_preceding_space(load_family: LoadFamily) -> None:
    ours, _ = load_family("roberta_prefixed", "legacy")
    assert ours.encode("a <mask>").tokens == ["<s>", "Ġa", " <mask>", "</s>"]
    # `transformers` 5 ignores this for legacy files without settings: the space is a separate token.
    without_settings, theirs = load_family("roberta", "legacy")
    assert without_settings.encode("a <mask>").ids == theirs("a <mask>")["input_ids"]
    assert without_settings.encode("a <mask>").tokens == ["<s>", "a", "Ġ", "<mask>", "</s>"]


def test_empty_second_text(load_family: LoadFamily) -> None:
    ours, theirs = load_family("bert_cased", "legacy")
    assert ours.encode("one", "").ids == theirs(["one"], [""])["input_ids"][0]
    assert ours.encode("one", "").ids == [*ours.encode("one").ids, ours.sep_id]


def test_mixed_batches_keep_their_order(load_family: LoadFamily) -> None:
    ours, _ = load_family("bert_cased", "legacy")
    inputs: list[Any] = ["a text", ["some", "words"], ("a", "pair"), (["two"], ["lists"]), "", []]
    encodings = ours.encode_batch(inputs)
    assert encodings == [ours.encode(*item) if isinstance(item, tuple) else ours.encode(item) for item in inputs]
    assert ours.encode_batch([]) == []
    assert ours.encode_batch(iter(["a", "b"])) == [ours.encode("a"), ours.encode("b")]
    assert [e.truncated for e in ours.encode_batch(["a", "a b c d"], max_length=4)] == [0, 2]


def test_model_files_match_protobuf() -> None:
    from sentencepiece import sentencepiece_model_pb2 as pb

    for options in ({}, {"model_type": "bpe", "byte_fallback": True, "vocab_size": 600}, {"add_dummy_prefix": False}):
        options |= {"user_defined_symbols": "<a>,<b>", "control_symbols": "<c>", "pad_id": 3}
        data = train_sentencepiece(SENTENCES, **options)
        proto = pb.ModelProto.FromString(data)
        ours = parse_model(data, "x.model")
        assert [(p.text, p.score, p.kind) for p in ours.pieces] == [(p.piece, p.score, p.type) for p in proto.pieces]
        assert ours.model_type == proto.trainer_spec.model_type
        assert ours.unk_id == proto.trainer_spec.unk_id
        assert ours.byte_fallback == proto.trainer_spec.byte_fallback
        assert ours.charsmap == proto.normalizer_spec.precompiled_charsmap
        assert ours.add_dummy_prefix == proto.normalizer_spec.add_dummy_prefix
        assert ours.remove_extra_whitespaces == proto.normalizer_spec.remove_extra_whitespaces
        assert ours.escape_whitespaces == proto.normalizer_spec.escape_whitespaces
    assert parse_model(data + b"\x50\x07\xf9\x01" + b"12345678", "x.model").pieces == ours.pieces  # unknown fields


def test_repr_and_properties(load_family: LoadFamily) -> None:
    ours, _ = load_family("bert_cased", "legacy")
    assert repr(ours) == "Tokenizer(WordPiece, 402 tokens, unk=[UNK] sep=[SEP] pad=[PAD] cls=[CLS] mask=[MASK])"
    assert ours.special_tokens_map["mask_token"] == "[MASK]"
    assert ours.max_length == 48
    assert ours.bos_id is None


def test_saving_errors(load_family: LoadFamily, tmp_path: Path) -> None:
    ours, _ = load_family("bert_cased", "legacy")
    (tmp_path / "file").write_text("x")
    with pytest.raises(TokenizerError, match="cannot be saved"):
        ours.save(tmp_path / "file" / "below")
    ours.save(tmp_path / "new" / "folder")
    assert sorted(p.name for p in (tmp_path / "new" / "folder").iterdir()) == [
        "special_tokens_map.json",
        "tokenizer.json",
        "tokenizer_config.json",
    ]


def test_import_does_not_load_heavy_libraries() -> None:
    heavy = ("torch", "transformers", "sentencepiece", "google.protobuf")
    code = f"import sys, clearhead.text; print([m for m in {heavy} if m in sys.modules])"
    completed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert completed.stdout.strip() == "[]"


def test_tokenizer_is_thread_safe(load_family: LoadFamily) -> None:
    from concurrent.futures import ThreadPoolExecutor

    ours, _ = load_family("bert_cased", "legacy")
    expected = [ours.encode(text, max_length=9) for text in TEXTS]
    with ThreadPoolExecutor(8) as pool:
        for max_length in (9, 9, 9):
            assert list(pool.map(lambda text: ours.encode(text, max_length=max_length), TEXTS)) == expected  # noqa: B023
