"""Which kind of tokenizer a model folder has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from clearhead.errors import TokenizerError
from clearhead.text.files import read_optional_json

# Other class names that mean one of the recipes.
CLASS_ALIASES = {
    "DistilBertTokenizer": "BertTokenizer",
    "ElectraTokenizer": "BertTokenizer",
    "MobileBertTokenizer": "BertTokenizer",
    "SqueezeBertTokenizer": "BertTokenizer",
    "LayoutLMTokenizer": "BertTokenizer",
    "BartTokenizer": "RobertaTokenizer",
    "LongformerTokenizer": "RobertaTokenizer",
    "LEDTokenizer": "RobertaTokenizer",
}

# The kind of tokenizer of a model type, unless its files name another.
MODEL_TYPE_CLASSES = {
    "bert": "BertTokenizer",
    "distilbert": "BertTokenizer",
    "electra": "BertTokenizer",
    "mpnet": "MPNetTokenizer",
    "roberta": "RobertaTokenizer",
    "gpt2": "GPT2Tokenizer",
    "openai-gpt": "OpenAIGPTTokenizer",
    "albert": "AlbertTokenizer",
    "xlm-roberta": "XLMRobertaTokenizer",
    "t5": "T5Tokenizer",
    "mt5": "T5Tokenizer",
    "deberta-v2": "DebertaV2Tokenizer",
    "marian": "MarianTokenizer",
}

BACKEND_CLASS = "TokenizersBackend"  # tokenizer.json as it is
BACKEND_MODEL_TYPES = ("modernbert",)  # whatever class the settings name


def resolve_tokenizer_class(folder: Path, model_type: str, config: dict[str, Any]) -> str:
    """The name of the tokenizer's class: that of the settings if they name one, else that of the model type."""
    named = read_optional_json(folder / "tokenizer_config.json").get("tokenizer_class") or config.get("tokenizer_class")
    if named is not None and not isinstance(named, str):
        raise TokenizerError(f"tokenizer_config.json: tokenizer_class must be a string, not {named!r}")
    if model_type in BACKEND_MODEL_TYPES:
        return BACKEND_CLASS
    kind = (named or MODEL_TYPE_CLASSES.get(model_type, BACKEND_CLASS)).removesuffix("Fast")
    return CLASS_ALIASES.get(kind, kind)
