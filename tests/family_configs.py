"""Tiny random configurations of every family, drawn by hypothesis over all options that change the outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from clearhead.families import FAMILIES
from tests.parity_models import TokenBatch, import_transformers, make_token_batch

Config = dict[str, Any]
Draw = Callable[[st.SearchStrategy[Any]], Any]

ACTIVATIONS = ("gelu", "gelu_new", "relu", "silu", "tanh", "quick_gelu", "gelu_pytorch_tanh", "gelu_fast", "mish")
HEADS = ((3, 8), (2, 6), (5, 4), (1, 12), (4, 4), (7, 4))  # number of heads, width per head


def choose(draw: Draw, *values: Any) -> Any:
    """Draw one of the values."""
    return draw(st.sampled_from(values))


def draw_bool(draw: Draw) -> bool:
    """Draw True or False."""
    return bool(draw(st.booleans()))


def bert_like(draw: Draw, **changes: Any) -> Config:
    """Draw the config keys that BERT and its relatives share."""
    heads, width = choose(draw, *HEADS)
    return {
        "vocab_size": choose(draw, 60, 41, 73),
        "hidden_size": heads * width,
        "num_hidden_layers": choose(draw, 3, 1, 2, 4),
        "num_attention_heads": heads,
        "intermediate_size": choose(draw, 20, 7, 33),
        "hidden_act": choose(draw, *ACTIVATIONS),
        "max_position_embeddings": choose(draw, 40, 31),
        "layer_norm_eps": choose(draw, 1e-12, 1e-5, 1e-2),
        "num_labels": choose(draw, 3, 1, 2, 5),
        "tie_word_embeddings": draw_bool(draw),
    } | changes


@st.composite
def bert(draw: Draw) -> Config:
    return bert_like(draw, type_vocab_size=choose(draw, 2, 1, 3))


@st.composite
def roberta(draw: Draw) -> Config:
    return bert_like(draw, type_vocab_size=choose(draw, 1, 2), pad_token_id=choose(draw, 1, 0, 3))


@st.composite
def distilbert(draw: Draw) -> Config:
    shared = bert_like(draw)
    renamed = {
        "dim": "hidden_size",
        "n_layers": "num_hidden_layers",
        "n_heads": "num_attention_heads",
        "hidden_dim": "intermediate_size",
        "activation": "hidden_act",
    }
    same = ("vocab_size", "max_position_embeddings", "num_labels", "tie_word_embeddings")
    return {ours: shared[theirs] for ours, theirs in renamed.items()} | {key: shared[key] for key in same}


@st.composite
def electra(draw: Draw) -> Config:
    shared = bert_like(draw, type_vocab_size=choose(draw, 2, 1))
    return shared | {
        "embedding_size": choose(draw, 8, shared["hidden_size"], 17),
        "summary_use_proj": draw_bool(draw),
        "summary_activation": choose(draw, "gelu", "tanh", "relu"),
    }


@st.composite
def albert(draw: Draw) -> Config:
    layers = choose(draw, 3, 4, 1, 5)
    return bert_like(
        draw,
        num_hidden_layers=layers,
        type_vocab_size=choose(draw, 2, 1),
        embedding_size=choose(draw, 8, 17, 24),
        num_hidden_groups=choose(draw, *range(1, min(layers, 3) + 1)),
        inner_group_num=choose(draw, 1, 2),
    )


@st.composite
def mpnet(draw: Draw) -> Config:
    return bert_like(draw, relative_attention_num_buckets=choose(draw, 32, 40))


@st.composite
def deberta(draw: Draw) -> Config:
    shared = bert_like(
        draw,
        type_vocab_size=choose(draw, 0, 2),
        relative_attention=choose(draw, True, True, False),
        position_biased_input=draw_bool(draw),
        share_att_key=draw_bool(draw),
        norm_rel_ebd=choose(draw, "layer_norm", "none"),
        pos_att_type=choose(draw, ["p2c", "c2p"], ["c2p"], ["p2c"], [], "c2p|p2c"),
        position_buckets=choose(draw, 4, -1, 6),
        max_relative_positions=choose(draw, -1, 9, 30),
        conv_kernel_size=choose(draw, 0, 3, 5),
        conv_act=choose(draw, "tanh", "gelu"),
        pooler_hidden_act=choose(draw, "gelu", "tanh"),
        legacy=draw_bool(draw),
        pad_token_id=0,
    )
    shared["conv_groups"] = choose(draw, 1, shared["num_attention_heads"])
    if shared["legacy"]:  # the legacy head multiplies by the word embeddings
        shared["embedding_size"] = choose(draw, shared["hidden_size"], 8)
    shared["pooler_hidden_size"] = shared["hidden_size"]
    return shared


@st.composite
def modernbert(draw: Draw) -> Config:
    shared = bert_like(draw)
    layers = shared["num_hidden_layers"]
    activation, eps = shared.pop("hidden_act"), shared.pop("layer_norm_eps")
    config = shared | {
        "hidden_activation": activation,
        "norm_eps": max(eps, 1e-5),
        "norm_bias": draw_bool(draw),
        "attention_bias": draw_bool(draw),
        "mlp_bias": draw_bool(draw),
        "classifier_bias": draw_bool(draw),
        "decoder_bias": draw_bool(draw),
        "classifier_pooling": choose(draw, "cls", "mean"),
        "classifier_activation": choose(draw, "gelu", "relu"),
        "local_attention": choose(draw, 4, 2, 6, 128),
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "cls_token_id": 1,
        "sep_token_id": 2,
    }
    if draw_bool(draw):
        config["global_attn_every_n_layers"] = choose(draw, 2, 1, 3)
    else:
        config["layer_types"] = [choose(draw, "sliding_attention", "full_attention") for _ in range(layers)]
    if draw_bool(draw):
        config["rope_parameters"] = {
            "full_attention": {"rope_type": "default", "rope_theta": choose(draw, 160_000.0, 500.0)},
            "sliding_attention": {"rope_type": "default", "rope_theta": choose(draw, 10_000.0, 77.0)},
        }
    return config


def gpt_like(draw: Draw) -> Config:
    """Draw the config keys that both GPTs share."""
    heads, width = choose(draw, *HEADS)
    return {
        "vocab_size": choose(draw, 60, 41),
        "n_positions": choose(draw, 40, 31),
        "n_embd": heads * width,
        "n_layer": choose(draw, 3, 1, 2),
        "n_head": heads,
        "layer_norm_epsilon": choose(draw, 1e-5, 1e-3),
        "tie_word_embeddings": draw_bool(draw),
        "num_labels": choose(draw, 3, 1, 2),
        "pad_token_id": 1,
        "bos_token_id": 0,
        "eos_token_id": 0,
    }


@st.composite
def openai_gpt(draw: Draw) -> Config:
    return gpt_like(draw) | {"afn": choose(draw, "gelu", "relu", "silu")}


@st.composite
def gpt2(draw: Draw) -> Config:
    return gpt_like(draw) | {
        "n_inner": choose(draw, None, 10),
        "activation_function": choose(draw, "gelu_new", *ACTIVATIONS),
        "scale_attn_weights": draw_bool(draw),
        "scale_attn_by_inverse_layer_idx": draw_bool(draw),
        "reorder_and_upcast_attn": draw_bool(draw),
    }


@st.composite
def t5(draw: Draw) -> Config:
    heads, width = choose(draw, *HEADS)
    return {
        "vocab_size": choose(draw, 60, 41),
        "d_model": choose(draw, 24, 17, 20),
        "d_kv": width,
        "num_heads": heads,
        "d_ff": choose(draw, 20, 9),
        "num_layers": choose(draw, 3, 1, 2),
        "num_decoder_layers": choose(draw, None, 1, 2, 4),
        "relative_attention_num_buckets": choose(draw, 32, 8),
        "relative_attention_max_distance": choose(draw, 128, 20),
        "feed_forward_proj": choose(draw, "relu", "gated-gelu", "gated-silu", "gelu_new", "gated-relu"),
        "layer_norm_epsilon": choose(draw, 1e-6, 1e-3),
        "tie_word_embeddings": draw_bool(draw),
        "pad_token_id": 0,
        "decoder_start_token_id": 0,
    }


@st.composite
def marian(draw: Draw) -> Config:
    shared = draw_bool(draw)
    vocab = choose(draw, 60, 41)
    return {
        "vocab_size": vocab,
        "decoder_vocab_size": None if shared else choose(draw, vocab, 62, 33),
        "share_encoder_decoder_embeddings": shared,
        "tie_word_embeddings": draw_bool(draw),
        "d_model": choose(draw, 24, 12, 15, 30),
        "encoder_layers": choose(draw, 3, 1, 2),
        "decoder_layers": choose(draw, 2, 1, 3),
        "encoder_attention_heads": choose(draw, 3, 1),
        "decoder_attention_heads": choose(draw, 1, 3),
        "encoder_ffn_dim": choose(draw, 20, 9),
        "decoder_ffn_dim": choose(draw, 16, 9),
        "activation_function": choose(draw, "swish", "gelu", "relu"),
        "scale_embedding": draw_bool(draw),
        "max_position_embeddings": choose(draw, 40, 31),
        "pad_token_id": 1,
        "decoder_start_token_id": 1,
        "eos_token_id": 0,
        "forced_eos_token_id": None,
    }


CONFIGS: dict[str, Callable[[], st.SearchStrategy[Config]]] = {
    "bert": bert,
    "roberta": roberta,
    "xlm-roberta": roberta,
    "distilbert": distilbert,
    "electra": electra,
    "albert": albert,
    "mpnet": mpnet,
    "deberta-v2": deberta,
    "modernbert": modernbert,
    "openai-gpt": openai_gpt,
    "gpt2": gpt2,
    "t5": t5,
    "marian": marian,
}
BASE_CLASSES = {
    "bert": "BertModel",
    "roberta": "RobertaModel",
    "xlm-roberta": "XLMRobertaModel",
    "distilbert": "DistilBertModel",
    "electra": "ElectraModel",
    "albert": "AlbertModel",
    "mpnet": "MPNetModel",
    "deberta-v2": "DebertaV2Model",
    "modernbert": "ModernBertModel",
    "openai-gpt": "OpenAIGPTModel",
    "gpt2": "GPT2Model",
    "t5": "T5Model",
    "marian": "MarianModel",
}
# class names that transformers does not have: of old files, and our own, whose folders its class with two heads reads
MISSING_CLASSES = ("T5WithLMHeadModel", "GPT2ForMultipleChoice", "OpenAIGPTForMultipleChoice")

SEQ2SEQ_FAMILIES = ("t5", "marian", "transformer")
LEFT_PADDED_FAMILIES = ("openai-gpt", "gpt2", "t5", "marian")
PER_TOKEN_CLASSES = ("ForMaskedLM", "ForTokenClassification", "ForQuestionAnswering")
TWO_LABEL_CLASSES = ("ForQuestionAnswering", "ForPreTraining")  # start and end, correct and wrong order

# every class of transformers that a file can name, with its family
CLASSES = [
    (family, title)
    for family in CONFIGS
    for title in (BASE_CLASSES[family], *FAMILIES[family].architectures)
    if title not in MISSING_CLASSES
]

# one small configuration of each family, for tests that are not about options
BERT_SIZES = {
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "vocab_size": 60,
}
GPT_SIZES = {"n_embd": 24, "n_layer": 3, "n_head": 3, "vocab_size": 60, "n_positions": 40, "pad_token_id": 1}
FIXED_CONFIGS: dict[str, dict[str, Any]] = {
    "bert": BERT_SIZES | {"type_vocab_size": 2},
    "roberta": BERT_SIZES | {"pad_token_id": 1, "type_vocab_size": 1},
    "xlm-roberta": BERT_SIZES | {"pad_token_id": 1, "type_vocab_size": 1},
    "distilbert": {"dim": 24, "n_layers": 3, "n_heads": 3, "hidden_dim": 20, "vocab_size": 60},
    "electra": BERT_SIZES | {"type_vocab_size": 2, "embedding_size": 8},
    "albert": BERT_SIZES | {"type_vocab_size": 2, "embedding_size": 8, "num_hidden_groups": 2},
    "mpnet": BERT_SIZES,
    "deberta-v2": BERT_SIZES
    | {"relative_attention": True, "position_buckets": 4, "pos_att_type": ["p2c", "c2p"], "norm_rel_ebd": "layer_norm"}
    | {"share_att_key": True, "position_biased_input": False, "type_vocab_size": 0, "conv_kernel_size": 3},
    "modernbert": BERT_SIZES
    | {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2}
    | {"local_attention": 4},
    "openai-gpt": GPT_SIZES,
    "gpt2": GPT_SIZES | {"bos_token_id": 0, "eos_token_id": 0},
    "t5": {"d_model": 24, "d_kv": 6, "d_ff": 20, "num_layers": 3, "num_heads": 3, "vocab_size": 60},
    "marian": {"d_model": 24, "encoder_layers": 3, "decoder_layers": 2, "encoder_attention_heads": 3}
    | {"decoder_attention_heads": 2, "encoder_ffn_dim": 20, "decoder_ffn_dim": 16, "vocab_size": 60, "pad_token_id": 1}
    | {"max_position_embeddings": 40, "decoder_start_token_id": 1, "forced_eos_token_id": None, "eos_token_id": 0},
    "transformer": {
        "vocab_size": 60,
        "width": 24,
        "heads": 3,
        "feed_width": 20,
        "encoder_layers": 3,
        "decoder_layers": 2,
    },
}


@dataclass(frozen=True)
class ParityCase:
    """A configuration, a ragged batch, and a seed for the weights."""

    config: Config
    batch: TokenBatch
    seed: int


def make_batch_for(family: str, config: Mapping[str, Any], lengths: tuple[int, ...], **options: Any) -> TokenBatch:
    """Make a batch for a family; encoder-decoders get target ids unless `targets` is set."""
    pads = {"t5": 0, "mpnet": 1, "xlm-roberta": 1, "roberta": 1}
    if family in SEQ2SEQ_FAMILIES:
        options = {"targets": tuple(max(1, length // 2) for length in lengths[::-1])} | options
        options["target_vocab"] = config.get("decoder_vocab_size")
    pad = config.get("pad_token_id")
    return make_token_batch(
        config["vocab_size"],
        lengths,
        pad=pads.get(family, 0) if pad is None else pad,
        segments=config.get("type_vocab_size", 0),
        **options,
    )


@st.composite
def parity_cases(draw: Draw, family: str, title: str) -> ParityCase:
    """Draw a configuration, a padded batch, and a seed for the weights."""
    config = draw(CONFIGS[family]())
    if title.endswith(TWO_LABEL_CLASSES):
        config["num_labels"] = 2
    lengths = tuple(draw(st.lists(st.integers(1, 14), min_size=2, max_size=4)))
    seed = draw(st.integers(0, 1 << 20))
    # left padding only if no head reads the first position, which would be padding
    options: dict[str, Any] = {
        "seed": seed,
        "pad_left": draw_bool(draw) and (family in LEFT_PADDED_FAMILIES or title.endswith(PER_TOKEN_CLASSES)),
    }
    if title == "T5EncoderModel":
        options["targets"] = ()
    return ParityCase(config, make_batch_for(family, config, lengths, **options), seed)


def exists_in_transformers(title: str) -> bool:
    """Whether transformers has this class."""
    return hasattr(import_transformers(), title)
