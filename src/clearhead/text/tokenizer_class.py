"""Resolve the tokenizer class of a model folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from clearhead.errors import TokenizerError
from clearhead.text.files import read_optional_json

# Class names of `transformers` that share a recipe with another class.
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

# Default tokenizer class of each model type, for folders that do not name one.
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

BACKEND_CLASS = "TokenizersBackend"  # tokenizer.json is used unchanged
BACKEND_MODEL_TYPES = ("modernbert",)  # even if the settings name another class


def resolve_tokenizer_class(folder: Path, model_type: str, config: dict[str, Any]) -> str:
    """Return the tokenizer class that the settings name, else the default class of the model type."""
    class_name = read_optional_json(folder / "tokenizer_config.json").get("tokenizer_class") or config.get(
        "tokenizer_class"
    )
    if class_name is not None and not isinstance(class_name, str):
        raise TokenizerError(f"tokenizer_config.json: tokenizer_class must be a string, got {class_name!r}.")
    if model_type in BACKEND_MODEL_TYPES:
        return BACKEND_CLASS
    name = (class_name or MODEL_TYPE_CLASSES.get(model_type, BACKEND_CLASS)).removesuffix("Fast")
    return CLASS_ALIASES.get(name, name)
