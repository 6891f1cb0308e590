"""Input templates of causal models: <start> text <extract>, and <start> text <delimiter> text <extract>.

These are the input transformations of the OpenAI Transformer (Radford et al. 2018), which present every task to a
language model as a single text. The tokens are added to the vocabulary, and the template is stored in tokenizer.json,
so that `transformers` applies it, too.
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
    """Whether the tokenizer inserts a token after a text and between two texts, as [SEP] does."""
    single, sides = tokenizer.encode("a").special, tokenizer.encode("a", "b").sides
    if not {0, 1} <= set(sides) or not single[-1] or sides[-1] is not None:
        return False
    return None in sides[sides.index(0) : sides.index(1)]


def add_gpt_template(tokenizer: Tokenizer) -> Tokenizer:
    """Return the tokenizer with the template tokens around every text, or unchanged if it has such tokens already."""
    if has_gpt_template(tokenizer):
        return tokenizer
    data = tokenizer.files().get("tokenizer.json")
    if data is None:
        raise InputError("The template tokens cannot be added: this tokenizer has no tokenizer.json.")
    with wrap_library_errors("The template tokens cannot be added"):
        pipeline = Pipeline.from_str(data.decode())
        pipeline.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in TEMPLATE_TOKENS])
        template = processors.TemplateProcessing(
            single=f"{START} $A {EXTRACT}",
            pair=f"{START} $A {DELIMITER} $B:1 {EXTRACT}:1",
            special_tokens=[(token, pipeline.token_to_id(token)) for token in TEMPLATE_TOKENS],
        )
        post_processor = pipeline.post_processor  # a byte-level one adjusts offsets and is kept
        is_byte_level = isinstance(post_processor, processors.ByteLevel)
        pipeline.post_processor = processors.Sequence([post_processor, template]) if is_byte_level else template
    special_tokens = tokenizer.special_tokens_map
    pad = next(
        (special_tokens[key] for key in ("pad_token", "eos_token", "bos_token", "unk_token") if key in special_tokens),
        START,
    )
    config = tokenizer.config | {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": pad}
    extra_tokens = [token for token in config.get("extra_special_tokens", ()) if token not in TEMPLATE_TOKENS]
    config["extra_special_tokens"] = [*extra_tokens, *TEMPLATE_TOKENS]
    with scratch_folder() as folder:
        write_atomic(folder / "tokenizer.json", pipeline.to_str().encode())
        write_json(folder / "tokenizer_config.json", config)
        return load_tokenizer(folder, "", {}).source
