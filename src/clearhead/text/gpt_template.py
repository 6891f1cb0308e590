"""The marks around the texts of a causal model: <start> text <extract>, and <start> text <delimiter> text <extract>.

These are the input transformations of the OpenAI Transformer (Radford et al. 2018): a model that was trained to go on
with one text reads every task as one text. The tokens are new ones of the vocabulary, and the template that puts them
in lies in tokenizer.json, so that `transformers` puts them in as well.
"""

from __future__ import annotations

from tokenizers import AddedToken, processors
from tokenizers import Tokenizer as Pipeline

from clearhead.errors import InputError
from clearhead.files import scratch_folder
from clearhead.text.files import wrap_library_errors, write_atomic, write_json
from clearhead.text.loader import load_tokenizer
from clearhead.text.tokenizer import Tokenizer

START, DELIMITER, EXTRACT = TEMPLATE_TOKENS = ("<|start|>", "<|delimiter|>", "<|extract|>")


def has_gpt_template(tokenizer: Tokenizer) -> bool:
    """Whether a text ends with a token of its own, and two texts are parted by one, as [SEP] does both."""
    alone, pair = tokenizer.encode("a").special, tokenizer.encode("a", "b").sides
    if not {0, 1} <= set(pair) or not alone[-1] or pair[-1] is not None:
        return False
    return None in pair[pair.index(0) : pair.index(1)]


def add_gpt_template(tokenizer: Tokenizer) -> Tokenizer:
    """The same tokenizer with the marks around every text; one that has such marks already is left as it is."""
    if has_gpt_template(tokenizer):
        return tokenizer
    found = tokenizer.files().get("tokenizer.json")
    if found is None:
        raise InputError("This tokenizer has no tokenizer.json, to which marks around a text could be added.")
    with wrap_library_errors("the marks around a text cannot be added"):
        pipeline = Pipeline.from_str(found.decode())
        pipeline.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in TEMPLATE_TOKENS])
        template = processors.TemplateProcessing(
            single=f"{START} $A {EXTRACT}",
            pair=f"{START} $A {DELIMITER} $B:1 {EXTRACT}:1",
            special_tokens=[(token, pipeline.token_to_id(token)) for token in TEMPLATE_TOKENS],
        )
        before = pipeline.post_processor  # one of bytes tidies offsets, and stays
        tidies = isinstance(before, processors.ByteLevel)
        pipeline.post_processor = processors.Sequence([before, template]) if tidies else template
    named = tokenizer.special_tokens_map
    pad = next((named[key] for key in ("pad_token", "eos_token", "bos_token", "unk_token") if key in named), START)
    config = tokenizer.config | {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": pad}
    others = [token for token in config.get("extra_special_tokens", ()) if token not in TEMPLATE_TOKENS]
    config["extra_special_tokens"] = [*others, *TEMPLATE_TOKENS]
    with scratch_folder() as place:
        write_atomic(place / "tokenizer.json", pipeline.to_str().encode())
        write_json(place / "tokenizer_config.json", config)
        return load_tokenizer(place, "", {}).source
