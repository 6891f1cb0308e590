"""Tokenizer recipes: build normalizer, pre-tokenizer, model, post-processor and decoder from vocabulary and settings.

`transformers` 5 rebuilds its named tokenizers in this way even if tokenizer.json exists: it reads the vocabulary and
the added tokens from that file and everything else from tokenizer_config.json. Equal ids require
the same procedure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Pipeline

from clearhead.errors import TokenizerError
from clearhead.files import to_printable
from clearhead.text.limits.vocabulary_limits import check_scores
from clearhead.text.settings import Token, TokenizerSettings
from clearhead.text.subwords import CONTINUATION, METASPACE, WORD_END

SpecialTokens = dict[str, Token | None]


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """Contents of the vocabulary files, independent of their format."""

    ids: dict[str, int] = field(default_factory=dict)  # WordPiece and BPE
    merges: list[tuple[str, str]] = field(default_factory=list)  # BPE
    scores: list[tuple[str, float]] = field(default_factory=list)  # Unigram: the position is the id
    charsmap: bytes | None = None  # SentencePiece's normalization table
    unk_id: int | None = None  # id of the unknown piece in a SentencePiece file
    added_tokens: list[Token] | None = None  # control and user-defined pieces of a SentencePiece file
    post_processor: Any = None  # from tokenizer.json


@dataclass(frozen=True, kw_only=True)
class RecipeInputs:
    """Inputs of a recipe."""

    vocabulary: Vocabulary
    settings: TokenizerSettings
    special_tokens: SpecialTokens

    def require_token(self, name: str) -> str:
        """Return a required special token by its short name, such as "unk"."""
        token = self.special_tokens.get(f"{name}_token")
        if token is None:
            raise TokenizerError(f"tokenizer_config.json: {name}_token must not be null for this tokenizer.")
        return str(token)


@dataclass(frozen=True, kw_only=True)
class TokenizerRecipe:
    """How to build one tokenizer class of `transformers`."""

    name: str  # the class name in tokenizer_config.json
    model: str  # model type in tokenizer.json: WordPiece, BPE or Unigram
    files: tuple[tuple[str, ...], ...]  # alternative sets of legacy vocabulary files
    special_tokens: dict[str, Token | None]  # defaults, unless the settings define others
    build_pipeline: Callable[[RecipeInputs], Pipeline]
    build_post_processor: Callable[[Pipeline, RecipeInputs], Any] | None = None  # called when all tokens have ids
    order_pieces: Callable[[RecipeInputs], list[tuple[str, float]]] | None = None  # returns pieces in the order of ids
    # adds special tokens that no file defines
    extend_special_tokens: Callable[[list[Token] | None, TokenizerSettings], list[Token]] | None = None
    lstrip_tokens: tuple[str, ...] = ()  # special tokens that absorb the space before them, unless files define flags


def _build_wordpiece(inputs: RecipeInputs) -> Pipeline:
    pipeline = Pipeline(models.WordPiece(inputs.vocabulary.ids, unk_token=inputs.require_token("unk")))
    pipeline.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=inputs.settings.get_flag("tokenize_chinese_chars", True),
        strip_accents=inputs.settings.get_optional_flag("strip_accents"),
        lowercase=inputs.settings.get_flag("do_lower_case", True),
    )
    pipeline.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    pipeline.decoder = decoders.WordPiece(prefix=CONTINUATION)
    return pipeline


def _build_byte_level(inputs: RecipeInputs) -> Pipeline:
    pipeline = Pipeline(models.BPE(vocab=inputs.vocabulary.ids, merges=inputs.vocabulary.merges, fuse_unk=False))
    pipeline.pre_tokenizer = pre_tokenizers.ByteLevel(
        add_prefix_space=inputs.settings.get_flag("add_prefix_space", False)
    )
    pipeline.decoder = decoders.ByteLevel()
    return pipeline


def _build_openai_gpt(inputs: RecipeInputs) -> Pipeline:
    pipeline = Pipeline(
        models.BPE(
            vocab=inputs.vocabulary.ids,
            merges=inputs.vocabulary.merges,
            end_of_word_suffix=WORD_END,
            fuse_unk=False,
            unk_token=inputs.require_token("unk"),
        )
    )
    pipeline.normalizer = normalizers.BertNormalizer(lowercase=True)
    pipeline.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    pipeline.decoder = decoders.BPEDecoder(suffix=WORD_END)
    return pipeline


def _build_unigram(
    inputs: RecipeInputs, unk_id: int, normalizer_steps: list[Any], pre_tokenizer_steps: list[Any], prepend_scheme: str
) -> Pipeline:
    if not 0 <= unk_id < len(inputs.vocabulary.scores):
        raise TokenizerError(
            f"The id of the unknown piece is {unk_id}, but the vocabulary has {len(inputs.vocabulary.scores)} pieces."
        )
    check_scores(inputs.vocabulary.scores, "the vocabulary")
    pipeline = Pipeline(models.Unigram(inputs.vocabulary.scores, unk_id=unk_id, byte_fallback=False))
    if normalizer_steps:
        is_sequence = len(normalizer_steps) > 1
        pipeline.normalizer = normalizers.Sequence(normalizer_steps) if is_sequence else normalizer_steps[0]
    metaspace = pre_tokenizers.Metaspace(replacement=METASPACE, prepend_scheme=prepend_scheme)
    pipeline.pre_tokenizer = pre_tokenizers.Sequence([*pre_tokenizer_steps, metaspace])
    pipeline.decoder = decoders.Metaspace(replacement=METASPACE, prepend_scheme=prepend_scheme)
    return pipeline


def _make_charsmap_steps(inputs: RecipeInputs) -> list[Any]:
    return [normalizers.Precompiled(inputs.vocabulary.charsmap)] if inputs.vocabulary.charsmap else []


def _build_albert(inputs: RecipeInputs) -> Pipeline:
    normalizer_steps: list[Any] = [normalizers.Replace("``", '"'), normalizers.Replace("''", '"')]
    if not inputs.settings.get_flag("keep_accents", False):
        normalizer_steps += [normalizers.NFKD(), normalizers.StripAccents()]
    if inputs.settings.get_flag("do_lower_case", True):
        normalizer_steps.append(normalizers.Lowercase())
    prepend_scheme = "always" if inputs.settings.get_flag("add_prefix_space", True) else "never"
    normalizer_steps += _make_charsmap_steps(inputs)
    pipeline = _build_unigram(inputs, 1, normalizer_steps, [pre_tokenizers.WhitespaceSplit()], prepend_scheme)
    # The template always uses these names, even if the tokens have others.
    tokens_by_name = {"[CLS]": inputs.require_token("cls"), "[SEP]": inputs.require_token("sep")}
    template_tokens = [(name, _get_token_with_id(pipeline, token)[1]) for name, token in tokens_by_name.items()]
    pipeline.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0", pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1", special_tokens=template_tokens
    )
    return pipeline


def _build_xlm_roberta(inputs: RecipeInputs) -> Pipeline:
    prepend_scheme = "always" if inputs.settings.get_flag("add_prefix_space", True) else "never"
    return _build_unigram(inputs, 3, _make_charsmap_steps(inputs), [pre_tokenizers.WhitespaceSplit()], prepend_scheme)


def _build_t5(inputs: RecipeInputs) -> Pipeline:
    return _build_unigram(inputs, 2, _make_charsmap_steps(inputs), [pre_tokenizers.WhitespaceSplit()], "always")


def _build_deberta(inputs: RecipeInputs) -> Pipeline:
    normalizer_steps: list[Any] = [normalizers.Lowercase()] if inputs.settings.get_flag("do_lower_case", False) else []
    collapse_whitespace = normalizers.Replace(Regex(r"\s{2,}|[\n\r\t]"), " ")
    normalizer_steps += [collapse_whitespace, normalizers.NFC(), normalizers.Strip(left=False, right=True)]
    split_punctuation = inputs.settings.get_flag("split_by_punct", False)
    pre_tokenizer_steps = [pre_tokenizers.Punctuation(behavior="isolated")] if split_punctuation else []
    prepend_scheme = "always" if inputs.settings.get_flag("add_prefix_space", True) else "first"
    unknown_piece = (inputs.require_token("unk"), 0.0)
    if unknown_piece in inputs.vocabulary.scores:
        unk_id = inputs.vocabulary.scores.index(unknown_piece)
    else:
        unk_id = inputs.settings.get_integer("unk_id", 1, maximum=2**31)
    return _build_unigram(inputs, unk_id, normalizer_steps, pre_tokenizer_steps, prepend_scheme)


def _order_xlm_roberta_pieces(inputs: RecipeInputs) -> list[tuple[str, float]]:
    # fairseq's <s>, <pad>, </s> and <unk> replace the first three SentencePiece pieces.
    leading = [(inputs.require_token(name), 0.0) for name in ("bos", "pad", "eos", "unk")]
    trailing = [(inputs.require_token("mask"), 0.0)]
    return leading + inputs.vocabulary.scores[3:] + trailing


def _order_t5_pieces(inputs: RecipeInputs) -> list[tuple[str, float]]:
    return inputs.vocabulary.scores + [(token, 0.0) for token in reversed(_make_sentinels(inputs.settings))]


def _add_t5_sentinels(tokens: list[Token] | None, settings: TokenizerSettings) -> list[Token]:
    existing_sentinels = [token for token in tokens or [] if "<extra_id_" in str(token)]
    sentinels = _make_sentinels(settings)
    if existing_sentinels and sentinels and len(existing_sentinels) != len(sentinels):
        raise TokenizerError(
            f"The vocabulary has {len(existing_sentinels)} sentinel tokens, but extra_ids in tokenizer_config.json is "
            f"{len(sentinels)}."
        )
    return [*(tokens or []), *([] if existing_sentinels else sentinels)]


def _make_sentinels(settings: TokenizerSettings) -> list[str]:
    return [f"<extra_id_{i}>" for i in range(settings.get_integer("extra_ids", 100, maximum=100_000))]


def _make_cls_sep_template(pipeline: Pipeline, inputs: RecipeInputs) -> Any:
    cls, sep = inputs.require_token("cls"), inputs.require_token("sep")
    return processors.TemplateProcessing(
        single=f"{cls}:0 $A:0 {sep}:0",
        pair=f"{cls}:0 $A:0 {sep}:0 $B:1 {sep}:1",
        special_tokens=[_get_token_with_id(pipeline, cls), _get_token_with_id(pipeline, sep)],
    )


def _make_roberta_processor(pipeline: Pipeline, inputs: RecipeInputs) -> Any:
    return processors.RobertaProcessing(
        _get_token_with_id(pipeline, inputs.require_token("sep")),
        _get_token_with_id(pipeline, inputs.require_token("cls")),
        inputs.settings.get_flag("trim_offsets", True),
        inputs.settings.get_flag("add_prefix_space", False),
    )


def _make_mpnet_processor(pipeline: Pipeline, inputs: RecipeInputs) -> Any:
    sep, cls = (_get_token_with_id(pipeline, inputs.require_token(name)) for name in ("sep", "cls"))
    return processors.RobertaProcessing(sep, cls, trim_offsets=True, add_prefix_space=False)


def _make_bos_eos_template(pipeline: Pipeline, inputs: RecipeInputs) -> Any:
    bos, eos = inputs.require_token("bos"), inputs.require_token("eos")
    return processors.TemplateProcessing(
        single=[bos, "$A", eos],
        pair=[bos, "$A", eos, eos, "$B", eos],
        special_tokens=[_get_token_with_id(pipeline, bos), _get_token_with_id(pipeline, eos)],
    )


def _make_eos_template(pipeline: Pipeline, inputs: RecipeInputs) -> Any:
    return processors.TemplateProcessing(
        single=["$A", "</s>"],
        pair=["$A", "</s>", "$B", "</s>"],
        special_tokens=[("</s>", _get_token_with_id(pipeline, inputs.require_token("eos"))[1])],
    )


def _get_token_with_id(pipeline: Pipeline, token: str) -> tuple[str, int]:
    token_id = pipeline.token_to_id(token)
    if token_id is None:
        raise TokenizerError(f"The special token {to_printable(token)!r} is not in the vocabulary.")
    return token, token_id


def _make_special_tokens(**tokens: str) -> dict[str, Token | None]:
    return {f"{key}_token": token for key, token in tokens.items()}


_WORDPIECE_FILES = (("vocab.txt",),)
# the second set has OpenAI's original file names
_BPE_FILES = (("vocab.json", "merges.txt"), ("encoder.json", "vocab.bpe"))
_ANGLE_TOKENS = _make_special_tokens(
    bos="<s>", eos="</s>", sep="</s>", cls="<s>", unk="<unk>", pad="<pad>", mask="<mask>"
)
_BRACKET_TOKENS = _make_special_tokens(
    bos="[CLS]", eos="[SEP]", unk="[UNK]", sep="[SEP]", pad="[PAD]", cls="[CLS]", mask="[MASK]"
)
_END_OF_TEXT = "<|endoftext|>"

RECIPES = {
    recipe.name: recipe
    for recipe in (
        TokenizerRecipe(
            name="BertTokenizer",
            model="WordPiece",
            files=_WORDPIECE_FILES,
            special_tokens=_make_special_tokens(unk="[UNK]", sep="[SEP]", pad="[PAD]", cls="[CLS]", mask="[MASK]"),
            build_pipeline=_build_wordpiece,
            build_post_processor=_make_cls_sep_template,
        ),
        TokenizerRecipe(
            name="MPNetTokenizer",
            model="WordPiece",
            files=_WORDPIECE_FILES,
            special_tokens=_ANGLE_TOKENS | _make_special_tokens(unk="[UNK]"),
            build_pipeline=_build_wordpiece,
            build_post_processor=_make_mpnet_processor,
            lstrip_tokens=("mask_token",),
        ),
        TokenizerRecipe(
            name="RobertaTokenizer",
            model="BPE",
            files=_BPE_FILES,
            special_tokens=_ANGLE_TOKENS,
            build_pipeline=_build_byte_level,
            build_post_processor=_make_roberta_processor,
        ),
        TokenizerRecipe(
            name="GPT2Tokenizer",
            model="BPE",
            files=_BPE_FILES,
            special_tokens=_make_special_tokens(unk=_END_OF_TEXT, bos=_END_OF_TEXT, eos=_END_OF_TEXT),
            build_pipeline=_build_byte_level,
        ),
        TokenizerRecipe(
            name="OpenAIGPTTokenizer",
            model="BPE",
            files=_BPE_FILES[:1],
            special_tokens=_make_special_tokens(unk="<unk>"),
            build_pipeline=_build_openai_gpt,
        ),
        TokenizerRecipe(
            name="AlbertTokenizer",
            model="Unigram",
            files=(("spiece.model",),),
            special_tokens=_BRACKET_TOKENS | _make_special_tokens(unk="<unk>", pad="<pad>"),
            build_pipeline=_build_albert,
        ),
        TokenizerRecipe(
            name="XLMRobertaTokenizer",
            model="Unigram",
            files=(("sentencepiece.bpe.model",),),
            special_tokens=_ANGLE_TOKENS,
            build_pipeline=_build_xlm_roberta,
            build_post_processor=_make_bos_eos_template,
            order_pieces=_order_xlm_roberta_pieces,
        ),
        TokenizerRecipe(
            name="T5Tokenizer",
            model="Unigram",
            files=(("spiece.model",),),
            special_tokens=_make_special_tokens(eos="</s>", unk="<unk>", pad="<pad>"),
            build_pipeline=_build_t5,
            build_post_processor=_make_eos_template,
            order_pieces=_order_t5_pieces,
            extend_special_tokens=_add_t5_sentinels,
        ),
        TokenizerRecipe(
            name="DebertaV2Tokenizer",
            model="Unigram",
            files=(("spm.model",),),
            special_tokens=_BRACKET_TOKENS,
            build_pipeline=_build_deberta,
            build_post_processor=_make_cls_sep_template,
        ),
    )
}
