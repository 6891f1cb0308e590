"""What config.json, the passport and the tokenizer files can say."""

from __future__ import annotations

from typing import Any

from clearhead.errors import CheckpointError, ClearheadError, ConfigError, TokenizerError, UnsafeError
from tests.checkpoint.hostile_folders import Hostile, Spoil, both, config, edit, gone, header, keys, large, raw

NAN, INF = float("nan"), float("inf")


def case(name: str, spoil: Spoil, *words: str, error: type[ClearheadError] = ConfigError, **more: Any) -> Hostile:
    """Most of these are ConfigErrors that name config.json."""
    return Hostile(name=name, spoil=spoil, error=error, words=words or ("config.json",), **more)


def without(*names: str) -> Spoil:
    """Take keys out of config.json."""
    return edit("config.json", lambda value: {key: value[key] for key in value if key not in names})


def nest(depth: int) -> Any:
    """A list in a list in a list."""
    value: Any = 0
    for _ in range(depth):
        value = [value]
    return value


def no_head(entries: dict[str, Any]) -> None:
    """Take the classifier out of the weights."""
    for name in ("classifier.weight", "classifier.bias"):
        del entries[name]


def unprefixed(entries: dict[str, Any]) -> None:
    """Names that do not say which family they are of."""
    for name in list(entries):
        entries[name.removeprefix("bert.")] = entries.pop(name)


FILES = (
    case("config missing", gone("config.json"), "config.json", error=CheckpointError),
    case("config empty", raw("config.json", b"")),
    case("config a list", raw("config.json", b"[1, 2]"), "config.json", "list"),
    case("config a text", raw("config.json", b'"bert"'), "config.json", "str"),
    case("config not UTF-8", raw("config.json", b'{"model_type": "\xff\xfe"}'), "config.json", "UTF-8"),
    case("config cut off", raw("config.json", b'{"model_type": "bert", "hidden')),
    case("config very deep", raw("config.json", b"[" * 200_000), "config.json", "nested", error=UnsafeError),
    case("config rather deep", config(extra=nest(100)), "config.json", "nested", error=UnsafeError),
    case("config large", large("config.json", 40 << 20), "config.json", "bytes", error=UnsafeError),
    case("config vast", large("config.json", 1 << 40), "config.json", "bytes", error=UnsafeError),
    case("config with 5000 digits", raw("config.json", b'{"hidden_size": ' + b"9" * 5000 + b"}")),
)

# Sizes: every key that decides about memory, with every kind of value that is no size.
WRONG: dict[str, tuple[Any, ...]] = {
    "hidden_size": (10**9, 0, -16, 16.0, 1.5, True, "16", None, [16], NAN, INF, 10**400),
    "num_hidden_layers": (10**9, 0, -1, True, "2", 1e300),
    "vocab_size": (10**12, 0, -1, None, 10**400),
    "num_attention_heads": (10**9, 0, -2, 2.0),
    "intermediate_size": (10**12, 0, {}),
    "max_position_embeddings": (10**12, 0, "long"),
    "type_vocab_size": (10**9, -1, 2.5),
}
SIZES = tuple(
    case(f"{key} {value!r:.16}", config(**{key: value}), "config.json", key)
    for key, values in WRONG.items()
    for value in values
)

VALUES = (
    case("eps NaN", config(layer_norm_eps=NAN), "config.json", "layer_norm_eps"),
    case("eps infinite", config(layer_norm_eps=INF), "config.json", "layer_norm_eps"),
    case("eps beyond any float", config(layer_norm_eps=10**400), "config.json", "layer_norm_eps"),
    case("dropout above one", config(hidden_dropout_prob=1.5), "config.json", "hidden_dropout_prob"),
    case("heads that do not divide", config(num_attention_heads=3), "config.json", "hidden_size", "multiple"),
    case("an activation that is code", config(hidden_act="__import__('os')"), "config.json", "hidden_act"),
    case("an activation of 5000 letters", config(hidden_act="x" * 5000), "config.json", "hidden_act"),
    case(
        "relative positions", config(position_embedding_type="relative_key"), "config.json", "position_embedding_type"
    ),
    case("padding beyond all ids", config(pad_token_id=10**12), "config.json", "pad_token_id"),
    case("a decoder", config(is_decoder=True), "config.json", "decoder"),
    case("cross attention", config(add_cross_attention=True), "config.json", "decoder"),
    case("many wrong keys", config(hidden_size=0, vocab_size=-1, num_hidden_layers="x"), "hidden_size", "vocab_size"),
    case("model_type null", config(model_type=None), "config.json", "model_type"),
    case(
        "no model_type and none to tell", both(without("model_type", "architectures"), header(unprefixed)), "model_type"
    ),
    case("unknown model_type", config(model_type="llama"), "config.json", "llama"),
    case("model_type a list", config(model_type=["bert"]), "config.json", "model_type"),
    case("model_type of 5000 letters", config(model_type="b" * 5000), "config.json", "model_type"),
    case("model_type with control letters", config(model_type="\x1b[2J\nbert"), "config.json", "model_type"),
    case("unknown architecture", config(architectures=["BertForCrime"]), "config.json", "BertForCrime"),
    case("labels with a gap", config(id2label={"0": "a", "2": "b"}), "config.json", "id2label"),
    case("labels a list", config(id2label=["a", "b"]), "config.json", "id2label"),
    case("no labels", config(id2label={}), "config.json", "id2label"),
    case("a billion labels", both(without("id2label"), config(num_labels=10**9)), "config.json", "num_labels"),
    case("labels below zero", both(without("id2label"), config(num_labels=-1)), "config.json", "num_labels"),
    case(
        "a new head larger than the model",
        both(without("id2label"), config(num_labels=1 << 20), header(no_head)),
        "config.json",
        "head",
        error=UnsafeError,
    ),
    case("scaled rotary positions", config(model_type="modernbert", rope_scaling={"type": "yarn"}), "rotary"),
    case("a rotary base beyond any float", config(model_type="modernbert", global_rope_theta=10**400), "rotary"),
    case("a million ALBERT blocks", config(model_type="albert", num_hidden_layers=1024, inner_group_num=1024), "inner"),
    case("unknown DeBERTa terms", config(model_type="deberta-v2", pos_att_type=["c2c" * 900]), "pos_att_type"),
    case("one DeBERTa bucket", config(model_type="deberta-v2", position_buckets=1), "position_buckets"),
    case("T5 with a feed-forward list", config(model_type="t5", feed_forward_proj=["relu"]), "feed_forward_proj"),
)

PASSPORT = (
    case("passport a list", raw("clearhead.json", b"[]"), "clearhead.json"),
    case("passport of wrong types", keys("clearhead.json", format="one"), "clearhead.json", "format"),
    case("passport of a newer version", keys("clearhead.json", format=99), "clearhead.json", error=CheckpointError),
    case("passport with texts for ids", keys("clearhead.json", golden={"a": ["b"]}), "clearhead.json", "golden"),
    case("tokenizer gone", gone("tokenizer.json"), "tokenizer", error=CheckpointError),
    case(
        "golden ids changed",
        edit("clearhead.json", lambda value: value["golden"].update({text: [7] for text in value["golden"]})),
        "tokenizer changed",
        error=TokenizerError,
    ),
    *(
        case(f"pruned {name}", keys("clearhead.json", pruned=pruned), "clearhead.json", "pruned", error=CheckpointError)
        for name, pruned in {
            "head out of range": {"encoder": {"0": [99]}},
            "head below zero": {"encoder": {"0": [-1]}},
            "block out of range": {"encoder": {"10000000000": [0]}},
            "block that is no number": {"encoder": {"first": [0]}},
            "all heads": {"encoder": {"0": [0, 1]}},
            "part unknown": {"x" * 3000: {"0": [0]}},
            "decoder that is not there": {"decoder": {"0": [0]}},
        }.items()
    ),
)


def tokenizer(name: str, spoil: Spoil, *words: str, **more: Any) -> Hostile:
    """These are TokenizerErrors."""
    return case(name, spoil, *words, error=TokenizerError, **more)


def two_ids(value: dict[str, Any]) -> None:
    """The template gives one token two ids."""
    value["post_processor"]["special_tokens"]["[CLS]"]["ids"] = [2, 2]


SPLIT = {"type": "Split", "pattern": {"Regex": "(("}, "behavior": "Isolated", "invert": False}
AS_IT_IS = keys("tokenizer_config.json", tokenizer_class="PreTrainedTokenizerFast")
TOKENIZERS = (
    tokenizer("tokenizer not JSON", raw("tokenizer.json", b"{"), "tokenizer.json"),
    tokenizer("tokenizer deep", raw("tokenizer.json", b'{"a":' * 100_000), "tokenizer.json", "nested"),
    tokenizer("tokenizer of another kind", keys("tokenizer.json", model={"type": "BPE"}), "tokenizer.json", "BPE"),
    tokenizer(
        "tokenizer with a broken pattern", both(AS_IT_IS, keys("tokenizer.json", pre_tokenizer=SPLIT)), "tokenizer.json"
    ),
    tokenizer(
        "two tokens with one id", edit("tokenizer.json", lambda v: v["model"]["vocab"].update(cat=5)), "tokenizer.json"
    ),
    tokenizer(
        "an id beyond all ids",
        edit("tokenizer.json", lambda v: v["model"]["vocab"].update(cat=1 << 40)),
        "tokenizer.json",
    ),
    tokenizer(
        "a class of many names", keys("tokenizer_config.json", tokenizer_class=["Bert"] * 999), "tokenizer_class"
    ),
    tokenizer(
        "more ids than tokens",
        both(AS_IT_IS, edit("tokenizer.json", two_ids)),
        "post-processor",
        "ids",
    ),
    tokenizer("settings a list", raw("tokenizer_config.json", b"[]"), "tokenizer_config.json"),
    tokenizer("vocab.txt not UTF-8", raw("vocab.txt", b"[PAD]\n\xff\xfe\n"), "vocab.txt", seed="legacy"),
    tokenizer("tokenizer vast", large("tokenizer.json", 1 << 40), "tokenizer.json", "larger"),
)
CASES = (*FILES, *SIZES, *VALUES, *PASSPORT, *TOKENIZERS)
