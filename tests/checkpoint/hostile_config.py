"""Defects of config.json, the passport and the tokenizer files."""

from __future__ import annotations

from typing import Any

from clearhead.errors import CheckpointError, ClearheadError, ConfigError, TokenizerError, UnsafeError
from tests.checkpoint.hostile_folders import (
    Damage,
    HostileCase,
    apply_all,
    delete,
    edit_header,
    edit_json,
    make_sparse,
    overwrite,
    set_config,
    set_keys,
)

NAN, INF = float("nan"), float("inf")


def make_case(
    name: str, damage: Damage, *words: str, error: type[ClearheadError] = ConfigError, **options: Any
) -> HostileCase:
    """Return a case; most raise a ConfigError that names config.json."""
    return HostileCase(name=name, damage=damage, error=error, words=words or ("config.json",), **options)


def remove_keys(*names: str) -> Damage:
    """Remove keys from config.json."""
    return edit_json("config.json", lambda content: {key: content[key] for key in content if key not in names})


def nest_lists(depth: int) -> Any:
    """Return nested lists of this depth."""
    nested: Any = 0
    for _ in range(depth):
        nested = [nested]
    return nested


def remove_head(entries: dict[str, Any]) -> None:
    """Remove the classifier from the weights."""
    for name in ("classifier.weight", "classifier.bias"):
        del entries[name]


def remove_prefixes(entries: dict[str, Any]) -> None:
    """Remove the family prefix from all names."""
    for name in list(entries):
        entries[name.removeprefix("bert.")] = entries.pop(name)


FILE_CASES = (
    make_case("config missing", delete("config.json"), "config.json", error=CheckpointError),
    make_case("config empty", overwrite("config.json", b"")),
    make_case("config is a list", overwrite("config.json", b"[1, 2]"), "config.json", "list"),
    make_case("config is a string", overwrite("config.json", b'"bert"'), "config.json", "str"),
    make_case("config not UTF-8", overwrite("config.json", b'{"model_type": "\xff\xfe"}'), "config.json", "UTF-8"),
    make_case("config cut off", overwrite("config.json", b'{"model_type": "bert", "hidden')),
    make_case("config very deep", overwrite("config.json", b"[" * 200_000), "config.json", "nested", error=UnsafeError),
    make_case("config of 100 levels", set_config(extra=nest_lists(100)), "config.json", "nested", error=UnsafeError),
    make_case("config large", make_sparse("config.json", 40 << 20), "config.json", "bytes", error=UnsafeError),
    make_case("config of 1 TB", make_sparse("config.json", 1 << 40), "config.json", "bytes", error=UnsafeError),
    make_case("config with 5000 digits", overwrite("config.json", b'{"hidden_size": ' + b"9" * 5000 + b"}")),
)

# invalid values of every key that determines memory
INVALID_SIZES: dict[str, tuple[Any, ...]] = {
    "hidden_size": (10**9, 0, -16, 16.0, 1.5, True, "16", None, [16], NAN, INF, 10**400),
    "num_hidden_layers": (10**9, 0, -1, True, "2", 1e300),
    "vocab_size": (10**12, 0, -1, None, 10**400),
    "num_attention_heads": (10**9, 0, -2, 2.0),
    "intermediate_size": (10**12, 0, {}),
    "max_position_embeddings": (10**12, 0, "long"),
    "type_vocab_size": (10**9, -1, 2.5),
}
SIZE_CASES = tuple(
    make_case(f"{key} {value!r:.16}", set_config(**{key: value}), "config.json", key)
    for key, values in INVALID_SIZES.items()
    for value in values
)

VALUE_CASES = (
    make_case("eps NaN", set_config(layer_norm_eps=NAN), "config.json", "layer_norm_eps"),
    make_case("eps infinite", set_config(layer_norm_eps=INF), "config.json", "layer_norm_eps"),
    make_case("eps beyond any float", set_config(layer_norm_eps=10**400), "config.json", "layer_norm_eps"),
    make_case("dropout above one", set_config(hidden_dropout_prob=1.5), "config.json", "hidden_dropout_prob"),
    make_case("heads that do not divide", set_config(num_attention_heads=3), "config.json", "hidden_size", "multiple"),
    make_case("an activation that is code", set_config(hidden_act="__import__('os')"), "config.json", "hidden_act"),
    make_case("an activation of 5000 characters", set_config(hidden_act="x" * 5000), "config.json", "hidden_act"),
    make_case(
        "relative positions",
        set_config(position_embedding_type="relative_key"),
        "config.json",
        "position_embedding_type",
    ),
    make_case("padding beyond all ids", set_config(pad_token_id=10**12), "config.json", "pad_token_id"),
    make_case("a decoder", set_config(is_decoder=True), "config.json", "decoder"),
    make_case("cross attention", set_config(add_cross_attention=True), "config.json", "decoder"),
    make_case(
        "many wrong keys", set_config(hidden_size=0, vocab_size=-1, num_hidden_layers="x"), "hidden_size", "vocab_size"
    ),
    make_case("model_type null", set_config(model_type=None), "config.json", "model_type"),
    make_case(
        "no model_type and nothing to infer it from",
        apply_all(remove_keys("model_type", "architectures"), edit_header(remove_prefixes)),
        "model_type",
    ),
    make_case("unknown model_type", set_config(model_type="llama"), "config.json", "llama"),
    make_case("model_type a list", set_config(model_type=["bert"]), "config.json", "model_type"),
    make_case("model_type of 5000 characters", set_config(model_type="b" * 5000), "config.json", "model_type"),
    make_case(
        "model_type with control characters", set_config(model_type="\x1b[2J\nbert"), "config.json", "model_type"
    ),
    make_case("unknown architecture", set_config(architectures=["BertForCrime"]), "config.json", "BertForCrime"),
    make_case("labels with a gap", set_config(id2label={"0": "a", "2": "b"}), "config.json", "id2label"),
    make_case("labels a list", set_config(id2label=["a", "b"]), "config.json", "id2label"),
    make_case("no labels", set_config(id2label={}), "config.json", "id2label"),
    make_case(
        "a billion labels",
        apply_all(remove_keys("id2label"), set_config(num_labels=10**9)),
        "config.json",
        "num_labels",
    ),
    make_case(
        "labels below zero", apply_all(remove_keys("id2label"), set_config(num_labels=-1)), "config.json", "num_labels"
    ),
    make_case(
        "a new head larger than the model",
        apply_all(remove_keys("id2label"), set_config(num_labels=1 << 20), edit_header(remove_head)),
        "config.json",
        "head",
        error=UnsafeError,
    ),
    make_case("scaled rotary positions", set_config(model_type="modernbert", rope_scaling={"type": "yarn"}), "rotary"),
    make_case(
        "a rotary base beyond any float", set_config(model_type="modernbert", global_rope_theta=10**400), "rotary"
    ),
    make_case(
        "a million ALBERT blocks",
        set_config(model_type="albert", num_hidden_layers=1024, inner_group_num=1024),
        "inner",
    ),
    make_case("unknown DeBERTa terms", set_config(model_type="deberta-v2", pos_att_type=["c2c" * 900]), "pos_att_type"),
    make_case("one DeBERTa bucket", set_config(model_type="deberta-v2", position_buckets=1), "position_buckets"),
    make_case(
        "T5 with a feed-forward list", set_config(model_type="t5", feed_forward_proj=["relu"]), "feed_forward_proj"
    ),
)

PASSPORT_CASES = (
    make_case("passport a list", overwrite("clearhead.json", b"[]"), "clearhead.json"),
    make_case("passport of wrong types", set_keys("clearhead.json", format="one"), "clearhead.json", "format"),
    make_case(
        "passport of a newer version", set_keys("clearhead.json", format=99), "clearhead.json", error=CheckpointError
    ),
    make_case(
        "passport with texts for ids", set_keys("clearhead.json", golden={"a": ["b"]}), "clearhead.json", "golden"
    ),
    make_case("tokenizer gone", delete("tokenizer.json"), "tokenizer", error=CheckpointError),
    make_case(
        "golden ids changed",
        edit_json("clearhead.json", lambda value: value["golden"].update({text: [7] for text in value["golden"]})),
        "tokenizer changed",
        error=TokenizerError,
    ),
    *(
        make_case(
            f"pruned {name}",
            set_keys("clearhead.json", pruned=pruned),
            "clearhead.json",
            "pruned",
            error=CheckpointError,
        )
        for name, pruned in {
            "head out of range": {"encoder": {"0": [99]}},
            "head below zero": {"encoder": {"0": [-1]}},
            "block out of range": {"encoder": {"10000000000": [0]}},
            "block that is not a number": {"encoder": {"first": [0]}},
            "all heads": {"encoder": {"0": [0, 1]}},
            "part unknown": {"x" * 3000: {"0": [0]}},
            "decoder that does not exist": {"decoder": {"0": [0]}},
        }.items()
    ),
)


def make_tokenizer_case(name: str, damage: Damage, *words: str, **options: Any) -> HostileCase:
    """Return a case that raises a TokenizerError."""
    return make_case(name, damage, *words, error=TokenizerError, **options)


def give_two_ids(settings: dict[str, Any]) -> None:
    """Give one token of the template two ids."""
    settings["post_processor"]["special_tokens"]["[CLS]"]["ids"] = [2, 2]


SPLIT = {"type": "Split", "pattern": {"Regex": "(("}, "behavior": "Isolated", "invert": False}
FAST_TOKENIZER = set_keys("tokenizer_config.json", tokenizer_class="PreTrainedTokenizerFast")
TOKENIZER_CASES = (
    make_tokenizer_case("tokenizer not JSON", overwrite("tokenizer.json", b"{"), "tokenizer.json"),
    make_tokenizer_case("tokenizer deep", overwrite("tokenizer.json", b'{"a":' * 100_000), "tokenizer.json", "nested"),
    make_tokenizer_case(
        "tokenizer of another kind", set_keys("tokenizer.json", model={"type": "BPE"}), "tokenizer.json", "BPE"
    ),
    make_tokenizer_case(
        "tokenizer with a broken pattern",
        apply_all(FAST_TOKENIZER, set_keys("tokenizer.json", pre_tokenizer=SPLIT)),
        "tokenizer.json",
    ),
    make_tokenizer_case(
        "two tokens with one id",
        edit_json("tokenizer.json", lambda v: v["model"]["vocab"].update(cat=5)),
        "tokenizer.json",
    ),
    make_tokenizer_case(
        "an id beyond all ids",
        edit_json("tokenizer.json", lambda v: v["model"]["vocab"].update(cat=1 << 40)),
        "tokenizer.json",
    ),
    make_tokenizer_case(
        "a class of many names", set_keys("tokenizer_config.json", tokenizer_class=["Bert"] * 999), "tokenizer_class"
    ),
    make_tokenizer_case(
        "more ids than tokens",
        apply_all(FAST_TOKENIZER, edit_json("tokenizer.json", give_two_ids)),
        "post-processor",
        "ids",
    ),
    make_tokenizer_case("settings a list", overwrite("tokenizer_config.json", b"[]"), "tokenizer_config.json"),
    make_tokenizer_case(
        "vocab.txt not UTF-8", overwrite("vocab.txt", b"[PAD]\n\xff\xfe\n"), "vocab.txt", seed="legacy"
    ),
    make_tokenizer_case("tokenizer of 1 TB", make_sparse("tokenizer.json", 1 << 40), "tokenizer.json", "larger"),
)
CASES = (*FILE_CASES, *SIZE_CASES, *VALUE_CASES, *PASSPORT_CASES, *TOKENIZER_CASES)
