"""Which kind of tokenizer a model folder has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from clearhead.errors import TokenizerError
from clearhead.text.files import read_optional

# Other class names that mean one of the recipes.
ALIASES = {
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
KINDS = {
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

PLAIN = "TokenizersBackend"  # tokenizer.json as it is
AS_IT_IS = ("modernbert",)  # whatever class the settings name


def kind_of(folder: Path, model_type: str, config: dict[str, Any]) -> str:
    """The name of the tokenizer's class: that of the settings if they name one, else that of the model type."""
    named = read_optional(folder / "tokenizer_config.json").get("tokenizer_class") or config.get("tokenizer_class")
    if named is not None and not isinstance(named, str):
        raise TokenizerError(f"tokenizer_config.json: tokenizer_class must be a string, not {named!r}")
    if model_type in AS_IT_IS:
        return PLAIN
    kind = (named or KINDS.get(model_type, PLAIN)).removesuffix("Fast")
    return ALIASES.get(kind, kind)
