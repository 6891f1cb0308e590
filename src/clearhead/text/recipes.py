"""One recipe for each kind of tokenizer: how a vocabulary and a few settings become a pipeline of normaliser,
pre-tokenizer, model, post-processor and decoder.

`transformers` 5 rebuilds its named tokenizers in this way even when tokenizer.json is there: it takes the vocabulary
and the added tokens from that file and all the rest from tokenizer_config.json. Ids are equal only if we do the same.
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
    """What the vocabulary files hold, whichever files they were."""

    ids: dict[str, int] = field(default_factory=dict)  # WordPiece and BPE
    merges: list[tuple[str, str]] = field(default_factory=list)  # BPE
    scores: list[tuple[str, float]] = field(default_factory=list)  # Unigram: the position is the id
    charsmap: bytes | None = None  # SentencePiece's own table of normalisation
    unk_id: int | None = None  # where a SentencePiece file says its unknown piece is
    added_tokens: list[Token] | None = None  # control and user-defined pieces of a SentencePiece file
    post_processor: Any = None  # taken over from tokenizer.json


@dataclass(frozen=True, kw_only=True)
class RecipeInputs:
    """All that a recipe works with."""

    vocabulary: Vocabulary
    settings: TokenizerSettings
    special_tokens: SpecialTokens

    def require_token(self, name: str) -> str:
        """A special token that the recipe cannot do without, by its short name."""
        token = self.special_tokens.get(f"{name}_token")
        if token is None:
            raise TokenizerError(f"tokenizer_config.json sets {name}_token to null, but this tokenizer needs one")
        return str(token)


@dataclass(frozen=True, kw_only=True)
class TokenizerRecipe:
    """A kind of tokenizer as `transformers` knows it."""

    name: str  # the class name in tokenizer_config.json
    model: str  # WordPiece, BPE or Unigram: what tokenizer.json must hold
    files: tuple[tuple[str, ...], ...]  # legacy vocabulary files, any one of these sets
    special_tokens: dict[str, Token | None]  # the special tokens unless the settings name others
    build_pipeline: Callable[[RecipeInputs], Pipeline]
    build_post_processor: Callable[[Pipeline, RecipeInputs], Any] | None = (
        None  # the post-processor, once all tokens have ids
    )
    order_pieces: Callable[[RecipeInputs], list[tuple[str, float]]] | None = (
        None  # SentencePiece pieces in the order of ids
    )
    extend_special_tokens: Callable[[list[Token] | None, TokenizerSettings], list[Token]] | None = (
        None  # special tokens that no file names
    )
    lstrip_tokens: tuple[str, ...] = ()  # special tokens that take the space before them, if files give no flags


def _wordpiece(given: RecipeInputs) -> Pipeline:
    pipeline = Pipeline(models.WordPiece(given.vocabulary.ids, unk_token=given.require_token("unk")))
    pipeline.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=given.settings.flag("tokenize_chinese_chars", True),
        strip_accents=given.settings.optional_flag("strip_accents"),
        lowercase=given.settings.flag("do_lower_case", True),
    )
    pipeline.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    pipeline.decoder = decoders.WordPiece(prefix=CONTINUATION)
    return pipeline


def _byte_level(given: RecipeInputs) -> Pipeline:
    pipeline = Pipeline(models.BPE(vocab=given.vocabulary.ids, merges=given.vocabulary.merges, fuse_unk=False))
    pipeline.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=given.settings.flag("add_prefix_space", False))
    pipeline.decoder = decoders.ByteLevel()
    return pipeline


def _first_gpt(given: RecipeInputs) -> Pipeline:
    pipeline = Pipeline(
        models.BPE(
            vocab=given.vocabulary.ids,
            merges=given.vocabulary.merges,
            end_of_word_suffix=WORD_END,
            fuse_unk=False,
            unk_token=given.require_token("unk"),
        )
    )
    pipeline.normalizer = normalizers.BertNormalizer(lowercase=True)
    pipeline.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    pipeline.decoder = decoders.BPEDecoder(suffix=WORD_END)
    return pipeline


def _unigram(given: RecipeInputs, unk_id: int, steps: list[Any], before: list[Any], scheme: str) -> Pipeline:
    if not 0 <= unk_id < len(given.vocabulary.scores):
        raise TokenizerError(
            f"the unknown piece should be number {unk_id}, but the vocabulary has {len(given.vocabulary.scores)} pieces"
        )
    check_scores(given.vocabulary.scores, "the vocabulary")
    pipeline = Pipeline(models.Unigram(given.vocabulary.scores, unk_id=unk_id, byte_fallback=False))
    if steps:
        pipeline.normalizer = normalizers.Sequence(steps) if len(steps) > 1 else steps[0]
    mark = pre_tokenizers.Metaspace(replacement=METASPACE, prepend_scheme=scheme)
    pipeline.pre_tokenizer = pre_tokenizers.Sequence([*before, mark])
    pipeline.decoder = decoders.Metaspace(replacement=METASPACE, prepend_scheme=scheme)
    return pipeline


def _charsmap(given: RecipeInputs) -> list[Any]:
    return [normalizers.Precompiled(given.vocabulary.charsmap)] if given.vocabulary.charsmap else []


def _albert(given: RecipeInputs) -> Pipeline:
    steps: list[Any] = [normalizers.Replace("``", '"'), normalizers.Replace("''", '"')]
    if not given.settings.flag("keep_accents", False):
        steps += [normalizers.NFKD(), normalizers.StripAccents()]
    if given.settings.flag("do_lower_case", True):
        steps.append(normalizers.Lowercase())
    scheme = "always" if given.settings.flag("add_prefix_space", True) else "never"
    pipeline = _unigram(given, 1, steps + _charsmap(given), [pre_tokenizers.WhitespaceSplit()], scheme)
    # The template's names are fixed, whatever the tokens are called.
    ids = [(name, _with_id(pipeline, given.require_token(name.strip("[]").lower()))[1]) for name in ("[CLS]", "[SEP]")]
    pipeline.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0", pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1", special_tokens=ids
    )
    return pipeline


def _xlm_roberta(given: RecipeInputs) -> Pipeline:
    scheme = "always" if given.settings.flag("add_prefix_space", True) else "never"
    return _unigram(given, 3, _charsmap(given), [pre_tokenizers.WhitespaceSplit()], scheme)


def _t5(given: RecipeInputs) -> Pipeline:
    return _unigram(given, 2, _charsmap(given), [pre_tokenizers.WhitespaceSplit()], "always")


def _deberta(given: RecipeInputs) -> Pipeline:
    steps: list[Any] = [normalizers.Lowercase()] if given.settings.flag("do_lower_case", False) else []
    steps += [
        normalizers.Replace(Regex(r"\s{2,}|[\n\r\t]"), " "),
        normalizers.NFC(),
        normalizers.Strip(left=False, right=True),
    ]
    before = [pre_tokenizers.Punctuation(behavior="isolated")] if given.settings.flag("split_by_punct", False) else []
    scheme = "always" if given.settings.flag("add_prefix_space", True) else "first"
    unknown = (given.require_token("unk"), 0.0)
    known = unknown in given.vocabulary.scores
    unk_id = given.vocabulary.scores.index(unknown) if known else given.settings.integer("unk_id", 1, maximum=2**31)
    return _unigram(given, unk_id, steps, before, scheme)


def _xlm_roberta_ids(given: RecipeInputs) -> list[tuple[str, float]]:
    # fairseq counted <s>, <pad>, </s>, <unk> first; SentencePiece's own first three pieces are dropped for them.
    first = [(given.require_token(name), 0.0) for name in ("bos", "pad", "eos", "unk")]
    last = [(given.require_token("mask"), 0.0)]
    return first + given.vocabulary.scores[3:] + last


def _t5_ids(given: RecipeInputs) -> list[tuple[str, float]]:
    return given.vocabulary.scores + [(token, 0.0) for token in reversed(_sentinels(given.settings))]


def _t5_extra(tokens: list[Token] | None, settings: TokenizerSettings) -> list[Token]:
    known = [token for token in tokens or [] if "<extra_id_" in str(token)]
    sentinels = _sentinels(settings)
    if known and sentinels and len(known) != len(sentinels):
        raise TokenizerError(
            f"the vocabulary names {len(known)} sentinel tokens, but extra_ids in tokenizer_config.json is "
            f"{len(sentinels)}"
        )
    return [*(tokens or []), *([] if known else sentinels)]


def _sentinels(settings: TokenizerSettings) -> list[str]:
    return [f"<extra_id_{i}>" for i in range(settings.integer("extra_ids", 100, maximum=100_000))]


def _cls_sep(pipeline: Pipeline, given: RecipeInputs) -> Any:
    cls, sep = given.require_token("cls"), given.require_token("sep")
    return processors.TemplateProcessing(
        single=f"{cls}:0 $A:0 {sep}:0",
        pair=f"{cls}:0 $A:0 {sep}:0 $B:1 {sep}:1",
        special_tokens=[_with_id(pipeline, cls), _with_id(pipeline, sep)],
    )


def _roberta(pipeline: Pipeline, given: RecipeInputs) -> Any:
    return processors.RobertaProcessing(
        _with_id(pipeline, given.require_token("sep")),
        _with_id(pipeline, given.require_token("cls")),
        given.settings.flag("trim_offsets", True),
        given.settings.flag("add_prefix_space", False),
    )


def _mpnet(pipeline: Pipeline, given: RecipeInputs) -> Any:
    sep, cls = _with_id(pipeline, given.require_token("sep")), _with_id(pipeline, given.require_token("cls"))
    return processors.RobertaProcessing(sep, cls, trim_offsets=True, add_prefix_space=False)


def _bos_eos(pipeline: Pipeline, given: RecipeInputs) -> Any:
    bos, eos = given.require_token("bos"), given.require_token("eos")
    return processors.TemplateProcessing(
        single=[bos, "$A", eos],
        pair=[bos, "$A", eos, eos, "$B", eos],
        special_tokens=[_with_id(pipeline, bos), _with_id(pipeline, eos)],
    )


def _eos(pipeline: Pipeline, given: RecipeInputs) -> Any:
    return processors.TemplateProcessing(
        single=["$A", "</s>"],
        pair=["$A", "</s>", "$B", "</s>"],
        special_tokens=[("</s>", _with_id(pipeline, given.require_token("eos"))[1])],
    )


def _with_id(pipeline: Pipeline, token: str) -> tuple[str, int]:
    index = pipeline.token_to_id(token)
    if index is None:
        raise TokenizerError(f"the vocabulary lacks the special token {to_printable(token)!r}")
    return token, index


def _named(**tokens: str) -> dict[str, Token | None]:
    return {f"{key}_token": token for key, token in tokens.items()}


_WORDS = (("vocab.txt",),)
_BYTES = (("vocab.json", "merges.txt"), ("encoder.json", "vocab.bpe"))  # the second set is OpenAI's own naming
_ROUND = _named(bos="<s>", eos="</s>", sep="</s>", cls="<s>", unk="<unk>", pad="<pad>", mask="<mask>")
_SQUARE = _named(bos="[CLS]", eos="[SEP]", unk="[UNK]", sep="[SEP]", pad="[PAD]", cls="[CLS]", mask="[MASK]")
_END = "<|endoftext|>"

RECIPES = {
    recipe.name: recipe
    for recipe in (
        TokenizerRecipe(
            name="BertTokenizer",
            model="WordPiece",
            files=_WORDS,
            special_tokens=_named(unk="[UNK]", sep="[SEP]", pad="[PAD]", cls="[CLS]", mask="[MASK]"),
            build_pipeline=_wordpiece,
            build_post_processor=_cls_sep,
        ),
        TokenizerRecipe(
            name="MPNetTokenizer",
            model="WordPiece",
            files=_WORDS,
            special_tokens=_ROUND | _named(unk="[UNK]"),
            build_pipeline=_wordpiece,
            build_post_processor=_mpnet,
            lstrip_tokens=("mask_token",),
        ),
        TokenizerRecipe(
            name="RobertaTokenizer",
            model="BPE",
            files=_BYTES,
            special_tokens=_ROUND,
            build_pipeline=_byte_level,
            build_post_processor=_roberta,
        ),
        TokenizerRecipe(
            name="GPT2Tokenizer",
            model="BPE",
            files=_BYTES,
            special_tokens=_named(unk=_END, bos=_END, eos=_END),
            build_pipeline=_byte_level,
        ),
        TokenizerRecipe(
            name="OpenAIGPTTokenizer",
            model="BPE",
            files=_BYTES[:1],
            special_tokens=_named(unk="<unk>"),
            build_pipeline=_first_gpt,
        ),
        TokenizerRecipe(
            name="AlbertTokenizer",
            model="Unigram",
            files=(("spiece.model",),),
            special_tokens=_SQUARE | _named(unk="<unk>", pad="<pad>"),
            build_pipeline=_albert,
        ),
        TokenizerRecipe(
            name="XLMRobertaTokenizer",
            model="Unigram",
            files=(("sentencepiece.bpe.model",),),
            special_tokens=_ROUND,
            build_pipeline=_xlm_roberta,
            build_post_processor=_bos_eos,
            order_pieces=_xlm_roberta_ids,
        ),
        TokenizerRecipe(
            name="T5Tokenizer",
            model="Unigram",
            files=(("spiece.model",),),
            special_tokens=_named(eos="</s>", unk="<unk>", pad="<pad>"),
            build_pipeline=_t5,
            build_post_processor=_eos,
            order_pieces=_t5_ids,
            extend_special_tokens=_t5_extra,
        ),
        TokenizerRecipe(
            name="DebertaV2Tokenizer",
            model="Unigram",
            files=(("spm.model",),),
            special_tokens=_SQUARE,
            build_pipeline=_deberta,
            build_post_processor=_cls_sep,
        ),
    )
}
