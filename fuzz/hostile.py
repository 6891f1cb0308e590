"""Format-aware hostile mutations: exploding tokenizer pipelines, impossible numbers, odd labels and texts."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable
from typing import Any

from fuzz.piece_files import mutate_pieces, mutate_token_ids

Rng = random.Random
Doc = dict[str, Any]

PATTERNS = (
    "(a+)+$",
    "(a|a)*b",
    "(.*)*",
    "a*b",
    r"\s*x",
    "(?:a?){40}a{40}",
    "(x+x+)+y",
    r"(\w+\s?)*$",
    "a{0,900}a{0,900}b",
    "",
    r"(a)\1",
    "(?=.*x)",
    "((",
    "[",
    ".",
    r"\p{L}+",
    r"\s+(?!\S)|\s+",
    " ?[^\\s]+",
    "(?i:'s|'t)|\\p{N}{1,3}",
    "$",
    "^",
    "|",
    "a+b|a+?",
    "a+b|a|a+",
    r"\p{L}++\d",
    "(?i:[a-z])+1|[a-z]+",
    r"\X[bc]",
    "a+b||a+",
    "[^x]++y",
    r"\s+$",
    "a{1000}" * 50,
    r"(\xa+)+$",
    r"\s++$|\s*[\r\n]|\s+(?!\S)|\s",
    r"\p{N}{1,3}+",
)
LONG_TEXTS = ("", "x", "▁", "ab" * 30, "x" * 999, "y" * 5_000, "é" * 100_000, "\x00", " ")
COUNTS = (0, 1, 2, 7, 100, 255, 256, 257, 1_000, 10**6, 10**9, 2**31, 2**53, 2**63, 2**64, -1, 1.5, None, True, "9")
NUMBERS: tuple[Any, ...] = (
    0,
    -1,
    1,
    2,
    3,
    0.0,
    -0.0,
    1e-45,
    1e-40,
    1e-300,
    0.5,
    1e12,
    3.5e38,
    1e308,
    float("nan"),
    float("inf"),
    float("-inf"),
    2**31,
    2**63,
    10**30,
    True,
    False,
    None,
    "",
    "1",
    "nan",
    [],
    [1],
    {},
    {"a": 1},
)
NAMES = (
    "",
    "a",
    "A",
    "\ud800",
    "x\udfff",
    "\x00",
    "\x1b[2J",
    "\u202egnp.exe",
    "a\nb",
    "▁",
    "x" * 3_000,
    "LABEL_0",
    "é",
    "e\u0301",
)
TEXTS = (
    "!" * 3_000,
    "##" * 1_500,
    "<p class='a'>" * 250,
    "'" * 3_000,
    "a" * 5_000,
    "ab" * 2_000,
    "東京" * 1_000,
    "👩‍👩‍👧‍👦" * 300,
    "e" + "\u0301" * 2_000,
    "\u200b" * 3_000,
    "1" * 3_000,
    " " * 5_000,
    "\n" * 5_000,
    "a " * 2_000,
    "[MASK]" * 500,
    "<mask> " * 500,
    "x\u0323\u0301" * 900,
    "ﷺ" * 900,
    "\x01\x02" * 900,
    "a" * 30 + "!",
    " " * 3_000 + "x",
    "",
)


def make_step(rng: Rng, depth: int = 0) -> Doc:
    """Draw a normalizer, a pre-tokenizer or a decoder, valid or not."""
    text = rng.choice(LONG_TEXTS)
    literal = rng.choice(("a", " ", "", "e", "the", "\ud800"))
    pattern = rng.choice(({"Regex": rng.choice(PATTERNS)}, {"String": literal}))
    kind = rng.choice(KINDS)
    if kind == "Sequence" and depth < 3:
        repeats = rng.choice((1, 1, 1, 3, 1 if depth else 40))
        steps = [make_step(rng, depth + 1) for _ in range(rng.choice((0, 1, 2, 4)))] * repeats
        key = rng.choice(("normalizers", "pretokenizers", "decoders"))
        return {"type": kind, key: steps}
    component: Doc = {
        "type": kind,
        "pattern": pattern,
        "content": text,
        "prepend": text,
        "replacement": text[:1] or " ",
    }
    component |= {"behavior": rng.choice(BEHAVIORS), "invert": rng.random() < 0.3, "length": rng.choice(COUNTS)}
    component |= {"add_prefix_space": rng.random() < 0.5, "trim_offsets": True, "use_regex": rng.random() < 0.7}
    component |= {"prepend_scheme": rng.choice(("always", "first", "never")), "split": rng.random() < 0.5}
    component |= {"strip_left": True, "strip_right": True, "individual_digits": rng.random() < 0.5, "delimiter": "a"}
    component |= {"clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True}
    component |= {
        "prefix": text,
        "suffix": text,
        "start": rng.choice(COUNTS),
        "stop": rng.choice(COUNTS),
        "cleanup": True,
    }
    component |= {"pad_token": "<pad>", "word_delimiter_token": "|"}
    if kind == "Precompiled":
        component["precompiled_charsmap"] = base64.b64encode(_make_charsmap(rng)).decode()
    return component


KINDS = (
    "Replace",
    "Replace",
    "Prepend",
    "Sequence",
    "Sequence",
    "Split",
    "Split",
    "Split",
    "ByteLevel",
    "Metaspace",
    "NFKD",
    "NFC",
    "Lowercase",
    "Strip",
    "StripAccents",
    "Precompiled",
    "BertNormalizer",
    "Whitespace",
    "WhitespaceSplit",
    "Digits",
    "Punctuation",
    "FixedLength",
    "UnicodeScripts",
    "CharDelimiterSplit",
    "BertPreTokenizer",
    "Fuse",
    "CTC",
    "ByteFallback",
    "WordPiece",
    "BPEDecoder",
    "Nmt",
    "Surprise",
)
BEHAVIORS = ("Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous")


EXPANSIONS = (("\u2032", "\u2057", "NFKD"), ("\u0644", "\ufdfa", "NFKC"), ("i", "\u0130", "Lowercase"))


def make_expansion(rng: Rng) -> Doc:
    """Draw a normalizer that repeatedly inserts characters that Unicode normalization expands."""

    def put_in(pattern: str, content: str) -> Doc:
        return {"type": "Replace", "pattern": {"String": pattern}, "content": content}

    character, expansion, normalization = rng.choice(EXPANSIONS)
    steps: list[Doc] = [{"type": normalization}, put_in(character, expansion)] * rng.choice((1, 2, 5, 31))
    return {"type": "Sequence", "normalizers": [put_in("a", expansion), *steps, {"type": normalization}]}


def _make_charsmap(rng: Rng) -> bytes:
    """Draw a charsmap with one rule for a letter, whose replacement is short, long or missing."""
    letter, content = rng.choice((0x61, 0x20, 0x65)), rng.choice((b"b", b"xy" * 15, b"z" * 1_000, b"z" * 60_000, b""))
    units = [0] * 512
    units[0] = 1 << 10
    units[1 ^ letter] = letter | 1 << 8 | (256 << 10 & 0x7FFFFFFF)
    units[(1 ^ letter ^ 256) % 512] = 0x80000000 | rng.choice((0, 0, 7, 10**6))
    trie = b"".join(unit.to_bytes(4, "little") for unit in units)
    return len(trie).to_bytes(4, "little") + trie + content + rng.choice((b"\0", b""))


def make_template(rng: Rng) -> Doc:
    """Draw a post-processor that repeats the text or adds many special tokens."""
    sequence: Doc = {"Sequence": {"id": rng.choice("AB"), "type_id": rng.choice((0, 1, 2**31))}}
    special = {"SpecialToken": {"id": "[X]", "type_id": 0}}
    count = rng.choice((0, 1, 2, 50, 2_000))
    items = rng.choice(
        ([special] * count + [sequence], [sequence] * max(count, 1), [special, sequence, special] * max(count // 3, 1))
    )
    ids = [rng.choice((0, 1, 5, 2**31))] * rng.choice((0, 1, 3, 5_000))
    special_tokens = {"[X]": {"id": "[X]", "ids": ids, "tokens": ["[X]"] * rng.choice((len(ids), 1))}}
    processor: Doc = {"type": "TemplateProcessing", "single": items, "pair": items, "special_tokens": special_tokens}
    if rng.random() < 0.3:
        return {"type": "Sequence", "processors": [processor] * rng.choice((1, 3, 100))}
    return processor


def make_padding(rng: Rng) -> Doc:
    """Draw padding to any length."""
    length, multiple = rng.choice(COUNTS), rng.choice(COUNTS)
    strategy = rng.choice(("BatchLongest", {"Fixed": length}))
    fields: Doc = {"strategy": strategy, "direction": rng.choice(("Left", "Right")), "pad_to_multiple_of": multiple}
    return fields | {"pad_id": rng.choice((0, 2**31)), "pad_type_id": 0, "pad_token": rng.choice(NAMES)}


def mutate_pipeline(data: bytes, rng: Rng) -> bytes:
    """Replace parts of a tokenizer.json by ones that expand the text, are slow, or are invalid."""
    document = json.loads(data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        kind = rng.randrange(9)
        if kind == 0 and rng.random() < 0.3:
            document["normalizer"] = make_expansion(rng)
        elif kind < 3:
            document[rng.choice(("normalizer", "pre_tokenizer"))] = make_step(rng)
        elif kind == 3:
            document["decoder"] = make_step(rng)
        elif kind == 4:
            document["post_processor"] = make_template(rng)
        elif kind == 5:
            document["padding"] = make_padding(rng)
        elif kind == 6:
            truncation = {"max_length": rng.choice(COUNTS), "stride": rng.choice(COUNTS), "direction": "Right"}
            document["truncation"] = truncation | {"strategy": rng.choice(("LongestFirst", "OnlyFirst", "OnlySecond"))}
        elif kind == 7:
            flags = {name: rng.random() < 0.5 for name in ("lstrip", "rstrip", "single_word", "normalized", "special")}
            count = rng.choice((1, 1, 30, 3_000))
            content = rng.choice((*NAMES, "a", " "))
            first_id = len(document["model"]["vocab"])
            document["added_tokens"] = document.get("added_tokens", []) + [
                flags | {"id": first_id + index, "content": f"{content}{index or ''}"} for index in range(count)
            ]
        else:
            names = ("max_input_chars_per_word", "unk_token", "continuing_subword_prefix", "dropout", "unk_id")
            name = rng.choice((*names, "end_of_word_suffix", "byte_fallback", "ignore_merges"))
            document["model"][name] = rng.choice((*COUNTS, *LONG_TEXTS, 0.5, "?" * 60))
    return json.dumps(document).encode()


def mutate_vocabulary(data: bytes, rng: Rng) -> bytes:
    """Insert invalid ids, scores and entries into the vocabulary of a tokenizer.json."""
    document = json.loads(data)
    vocab = document["model"]["vocab"]
    for _ in range(rng.choice((1, 1, 3))):
        entry = rng.choice((*NAMES, *LONG_TEXTS, "z" * 9_000, "z" * 1_000_000))
        if isinstance(vocab, list):
            vocab.insert(rng.randrange(len(vocab) + 1), [entry, rng.choice(NUMBERS)])
        else:
            vocab[rng.choice((entry, rng.choice(list(vocab))))] = rng.choice((*COUNTS, 2**31 - 1, 2**32, len(vocab)))
    return json.dumps(document).encode()


def mutate_added_tokens(data: bytes, rng: Rng) -> bytes:
    """Add long, numerous or normalized tokens to a tokenizer_config.json."""
    config = json.loads(data)
    for _ in range(rng.choice((1, 1, 3))):
        flags = {name: rng.random() < 0.5 for name in ("lstrip", "rstrip", "single_word", "normalized", "special")}
        content = rng.choice((*NAMES, *LONG_TEXTS, "x" * 3_000_000))
        token: Doc = flags | {"content": content}
        kind = rng.randrange(3)
        if kind == 0:
            first_id = rng.choice((0, 30, 400, 2**31, 2**40))
            count = rng.choice((1, 1, 30, 3_000))
            config["added_tokens_decoder"] = {
                str(first_id + index): token | {"content": f"{content[:9_000]}{index or ''}"} for index in range(count)
            }
        elif kind == 1:
            config["extra_special_tokens"] = [rng.choice((token, content))]
        else:
            config[rng.choice(("unk_token", "cls_token", "sep_token", "pad_token", "eos_token"))] = rng.choice(
                (token, content)
            )
    return json.dumps(config).encode()


def mutate_numbers(data: bytes, rng: Rng) -> bytes:
    """Set keys of a config.json to impossible numbers."""
    from clearhead.families import FAMILIES

    config = json.loads(data)
    family = FAMILIES.get(str(config.get("model_type")))
    keys = sorted({*config, *(family.config_keys if family is not None else ())})
    for _ in range(rng.choice((1, 1, 2))):
        config[rng.choice(keys)] = rng.choice(NUMBERS)
    return json.dumps(config).encode()


def mutate_labels(data: bytes, rng: Rng) -> bytes:
    """Write unprintable or duplicate labels to a config.json or a passport."""
    document = json.loads(data)
    names = [rng.choice(NAMES) for _ in range(rng.choice((1, 2, 3, 300)))]
    if "format" in document:  # a passport
        document["labels"] = names
        training_record: Doc = {"task": rng.choice(("classify", "tag", "span", "\ud800")), "labels": names}
        training_record |= {"columns": {"text": rng.choice(NAMES), "label": rng.choice(NAMES)}, "kind": "classes"}
        document["trained"] = training_record | {
            "temperature": rng.choice((1.0, 0.0, float("nan"))),
            "command": rng.choice(NAMES),
        }
    else:
        document["id2label"] = {str(index): name for index, name in enumerate(names)}
        document["label2id"] = {name: index for index, name in enumerate(names)}
    return json.dumps(document).encode()


Mutation = Callable[[bytes, Rng], bytes]


def hostile_mutations(name: str) -> list[tuple[str, Mutation]]:
    """List the hostile mutations for a file name."""
    if name == "tokenizer.json":
        return [("pipeline", mutate_pipeline), ("pipeline", mutate_pipeline), ("vocabulary", mutate_vocabulary)]
    if name == "tokenizer_config.json":
        return [("added tokens", mutate_added_tokens)]
    if name.endswith((".spm", ".model")):
        return [("pieces", mutate_pieces)]
    if name == "vocab.json":
        return [("ids", mutate_token_ids)]
    if name == "config.json":
        return [("numbers", mutate_numbers), ("numbers", mutate_numbers), ("labels", mutate_labels)]
    return [("labels", mutate_labels)] if name == "clearhead.json" else []
