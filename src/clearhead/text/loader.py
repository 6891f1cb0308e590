"""Load the tokenizer of a model folder: find its files, select a recipe and build the pipeline."""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, models
from tokenizers import Tokenizer as Pipeline

from clearhead.errors import TokenizerError
from clearhead.text.files import parse_json_object, read_bytes, read_text, wrap_library_errors
from clearhead.text.limits.pipeline_limits import (
    bound_patterns,
    check_charsmap,
    check_pipeline,
    check_recipe_sections,
    measure_normalizer_growth,
)
from clearhead.text.limits.vocabulary_limits import check_added_tokens, check_normalized_tokens, check_special_token
from clearhead.text.pipeline import RustPipeline, add_tokens, build_default_template
from clearhead.text.recipes import RECIPES, RecipeInputs, SpecialTokens, TokenizerRecipe, Vocabulary
from clearhead.text.sentencepiece.marian import load_marian
from clearhead.text.sentencepiece.model_file import CONTROL, MAX_MODEL_BYTES, USER_DEFINED, parse_model
from clearhead.text.settings import (
    SPECIAL_TOKEN_KEYS,
    Token,
    TokenizerSettings,
    check_vocabulary,
    parse_token,
    read_settings,
    resolve_max_length,
    resolve_truncation_side,
    select_portable_options,
)
from clearhead.text.settings_conflict import describe_conflict
from clearhead.text.tokenizer import Tokenizer
from clearhead.text.tokenizer_class import resolve_tokenizer_class


@dataclass(frozen=True, kw_only=True)
class TokenizerPair:
    """The tokenizer of a model's input and, for some translation models, another for its output."""

    source: Tokenizer
    target: Tokenizer | None = None


RECIPE_GROWTH_FACTOR = 8.0  # upper bound for the steps that a recipe adds
TARGET_FOLDER = "target"  # subfolder of the target vocabulary, if each language has its own


def load_tokenizer(folder: Path, model_type: str, config: dict[str, Any]) -> TokenizerPair:
    """Load the tokenizer of a model folder; `config` is its parsed config.json."""
    folder = Path(folder)
    pair = _load_pair(folder, model_type, config)
    if not config.get("target_vocab_size") or not (folder / TARGET_FOLDER / "tokenizer.json").is_file():
        return pair
    return TokenizerPair(source=pair.source, target=_load_pair(folder / TARGET_FOLDER, model_type, config).source)


def _load_pair(folder: Path, model_type: str, config: dict[str, Any]) -> TokenizerPair:
    class_name = resolve_tokenizer_class(folder, model_type, config)
    if class_name == "MarianTokenizer":
        source, target = load_marian(folder)
        return TokenizerPair(source=source, target=target)
    recipe = RECIPES.get(class_name)
    if not (folder / "tokenizer.json").is_file():
        if recipe is None:
            raise TokenizerError(
                f"{folder.name}: tokenizer.json not found, required for a {class_name} of model type {model_type!r}."
            )
        return TokenizerPair(source=_load_legacy(folder, recipe))
    text = read_text(folder / "tokenizer.json")
    data = parse_json_object(text, "tokenizer.json")
    settings = read_settings(folder, data)
    with wrap_library_errors("tokenizer.json cannot be used"):
        if recipe is None:
            return TokenizerPair(source=_load_without_recipe(text, settings, data))
        check_recipe_sections(data)
        return TokenizerPair(source=_build_tokenizer(recipe, _read_json_vocabulary(data, recipe), settings, data))


def _load_legacy(folder: Path, recipe: TokenizerRecipe) -> Tokenizer:
    file_names = next(
        (file_set for file_set in recipe.files if all((folder / name).is_file() for name in file_set)), None
    )
    if file_names is None and (folder / "vocab.txt").is_file():  # such as an ALBERT with a WordPiece vocabulary
        recipe, file_names = RECIPES["BertTokenizer"], ("vocab.txt",)
    if file_names is None:
        expected_files = " or ".join(["tokenizer.json", *(" + ".join(file_set) for file_set in recipe.files)])
        raise TokenizerError(f"{folder.name}: no vocabulary found for a {recipe.name}; expected {expected_files}.")
    settings = read_settings(folder, None)
    with wrap_library_errors(f"{' + '.join(file_names)} cannot be used"):
        if recipe.model == "Unigram":
            vocabulary = _read_sentencepiece_vocabulary(folder / file_names[0])
            # stored as an option, because tokenizer.json has no field for it
            settings.options["unk_id"] = vocabulary.unk_id
            if recipe.order_pieces is not None:
                inputs = RecipeInputs(
                    vocabulary=vocabulary, settings=settings, special_tokens=_resolve_special_tokens(recipe, settings)
                )
                vocabulary = replace(vocabulary, scores=recipe.order_pieces(inputs))
        elif recipe.model == "BPE":
            for name in file_names:
                read_text(folder / name)  # check size and encoding before the library reads the file
            ids, merges = models.BPE.read_file(*(str(folder / name) for name in file_names))
            vocabulary = Vocabulary(ids=check_vocabulary(ids, file_names[0]), merges=merges)
        else:
            read_text(folder / file_names[0])
            vocabulary = Vocabulary(
                ids=check_vocabulary(models.WordPiece.read_file(str(folder / file_names[0])), file_names[0])
            )
        return _build_tokenizer(recipe, vocabulary, settings, {})


def _read_sentencepiece_vocabulary(path: Path) -> Vocabulary:
    model = parse_model(read_bytes(path, limit=MAX_MODEL_BYTES), path.name)
    added_tokens: list[Token] = [
        AddedToken(piece.text, normalized=False, special=piece.kind == CONTROL)
        for piece in model.pieces
        if piece.kind in (CONTROL, USER_DEFINED)
    ]
    return Vocabulary(
        scores=[(piece.text, piece.score) for piece in model.pieces],
        charsmap=model.charsmap or None,
        unk_id=model.unk_id,
        added_tokens=added_tokens,
    )


def _read_json_vocabulary(data: dict[str, Any], recipe: TokenizerRecipe) -> Vocabulary:
    """Read the vocabulary, merges, charsmap and post-processor of a tokenizer.json, which recipes use."""
    model = data.get("model")
    if not isinstance(model, dict):
        raise TokenizerError("tokenizer.json: model must be an object.")
    model_type, vocab = model.get("type"), model.get("vocab")
    if model_type not in (None, recipe.model):  # very old files have no model type
        raise TokenizerError(
            f"tokenizer.json contains a {model_type} model, but {recipe.name} requires {recipe.model}; if the file is "
            'correct, set "tokenizer_class": "PreTrainedTokenizerFast" in tokenizer_config.json.'
        )
    post_processor = _load_post_processor(data)
    if recipe.model == "Unigram":
        if not isinstance(vocab, list) or not all(isinstance(entry, list) and len(entry) == 2 for entry in vocab):
            raise TokenizerError(
                "tokenizer.json: the vocabulary of a Unigram model must be a list of [piece, score] pairs."
            )
        scores = [(piece, score) for piece, score in vocab]
        return Vocabulary(scores=scores, charsmap=_decode_charsmap(data), post_processor=post_processor)
    if isinstance(vocab, list):  # old format: the position is the id
        vocab = {entry[0] if isinstance(entry, list) and entry else entry: index for index, entry in enumerate(vocab)}
    if not isinstance(vocab, dict):
        raise TokenizerError("tokenizer.json: the vocabulary must map tokens to ids.")
    ids, merges = check_vocabulary(vocab, "tokenizer.json"), _parse_merges(model.get("merges") or [])
    return Vocabulary(ids=ids, merges=merges, post_processor=post_processor)


def _parse_merges(rows: object) -> list[tuple[str, str]]:
    merges = []
    for row in rows if isinstance(rows, list) else [rows]:
        merge = row.split(" ") if isinstance(row, str) else row
        if not isinstance(merge, list) or len(merge) != 2 or not all(isinstance(symbol, str) for symbol in merge):
            raise TokenizerError(f"tokenizer.json: merges must be a list of pairs, got the entry {str(row)[:80]!r}.")
        merges.append((merge[0], merge[1]))
    return merges


def _load_post_processor(data: dict[str, Any]) -> Any:
    # The library parses a post-processor only within a tokenizer. One with an empty vocabulary is fast to build.
    model = {"type": "WordLevel", "vocab": {}, "unk_token": "?"}
    minimal_tokenizer: dict[str, Any] = {"version": data.get("version", "1.0"), "added_tokens": [], "model": model}
    minimal_tokenizer["post_processor"] = data.get("post_processor")
    return Pipeline.from_str(json.dumps(minimal_tokenizer)).post_processor


def _decode_charsmap(data: dict[str, Any]) -> bytes | None:
    steps = data.get("normalizer") or []
    if isinstance(steps, dict):
        steps = steps.get("normalizers") if steps.get("type") == "Sequence" else [steps]
    if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        raise TokenizerError("tokenizer.json: normalizer must be an object or a sequence of objects.")
    for step in steps:
        if step.get("type") == "Precompiled" and isinstance(step.get("precompiled_charsmap"), str):
            try:
                return base64.b64decode(step["precompiled_charsmap"], validate=True)
            except binascii.Error as error:
                raise TokenizerError(f"tokenizer.json: precompiled_charsmap is not base64: {error}.") from error
    return None


def _resolve_special_tokens(recipe: TokenizerRecipe | None, settings: TokenizerSettings) -> SpecialTokens:
    """Return the named special tokens in their fixed order; tokens of the settings override those of the recipe."""
    defaults = recipe.special_tokens if recipe is not None else {}
    special_tokens: SpecialTokens = {}
    for key in SPECIAL_TOKEN_KEYS:
        token = settings.special_tokens.get(key, defaults.get(key))
        if recipe is not None and key in recipe.lstrip_tokens and isinstance(token, str):
            token = AddedToken(token, lstrip=True)
        if token is not None:
            check_special_token(key, str(token))
        special_tokens[key] = token
    return special_tokens


def _build_tokenizer(
    recipe: TokenizerRecipe, vocabulary: Vocabulary, settings: TokenizerSettings, data: dict[str, Any]
) -> Tokenizer:
    """Build a tokenizer from a recipe and a vocabulary."""
    inputs = RecipeInputs(
        vocabulary=vocabulary, settings=settings, special_tokens=_resolve_special_tokens(recipe, settings)
    )
    additional_tokens = settings.additional_tokens if vocabulary.added_tokens is None else vocabulary.added_tokens
    if recipe.extend_special_tokens is not None:
        additional_tokens = recipe.extend_special_tokens(additional_tokens, settings)
    extra_tokens = settings.extra_tokens if settings.extra_tokens is not None else additional_tokens
    pipeline = recipe.build_pipeline(inputs)
    if vocabulary.post_processor is not None:
        pipeline.post_processor = vocabulary.post_processor
    charsmap = vocabulary.charsmap
    growth = RECIPE_GROWTH_FACTOR * (1.0 if charsmap is None else check_charsmap(charsmap, "the tokenizer"))
    _check_tokens(inputs, extra_tokens or [], growth)
    return _finish_tokenizer(pipeline, recipe, inputs, extra_tokens or [], data, growth)


def _load_without_recipe(text: str, settings: TokenizerSettings, data: dict[str, Any]) -> Tokenizer:
    """Load a tokenizer.json without a recipe."""
    has_bounded_patterns = bound_patterns(data)
    growth = check_pipeline(data)
    pipeline = Pipeline.from_str(json.dumps(data) if has_bounded_patterns else text)
    special_tokens = _resolve_special_tokens(None, settings)
    if pipeline.padding is not None and "pad_token" not in settings.special_tokens:
        special_tokens["pad_token"] = parse_token(pipeline.padding["pad_token"], "tokenizer.json: pad_token")
    extra_tokens = settings.extra_tokens if settings.extra_tokens is not None else settings.additional_tokens
    inputs = RecipeInputs(vocabulary=Vocabulary(), settings=settings, special_tokens=special_tokens)
    _check_tokens(inputs, extra_tokens or [], measure_normalizer_growth(data))
    return _finish_tokenizer(pipeline, None, inputs, extra_tokens or [], data, growth)


def _check_tokens(inputs: RecipeInputs, extra_tokens: list[Token], growth: float) -> None:
    """Reject added and special tokens of the settings that take too long to search for."""
    settings = inputs.settings
    tokens = [
        *settings.added_tokens.values(),
        *inputs.special_tokens.values(),
        *settings.model_specific_tokens.values(),
        *extra_tokens,
    ]
    contents = (
        (str(token), isinstance(token, AddedToken) and token.normalized) for token in tokens if token is not None
    )
    check_added_tokens(contents, growth, "tokenizer_config.json")


def _finish_tokenizer(
    pipeline: Pipeline,
    recipe: TokenizerRecipe | None,
    inputs: RecipeInputs,
    extra_tokens: list[Token],
    data: dict[str, Any],
    growth: float,
) -> Tokenizer:
    """Add the special tokens, then the post-processor that inserts them."""
    settings, special_tokens = inputs.settings, inputs.special_tokens
    pipeline.no_truncation()  # before the first encode: the file may request padding to a billion tokens
    pipeline.no_padding()
    add_tokens(pipeline, settings, special_tokens, extra_tokens)
    check_normalized_tokens(pipeline)
    has_bos_eos_options = "add_bos_token" in settings.options or "add_eos_token" in settings.options
    if has_bos_eos_options or pipeline.post_processor is None:
        pipeline.post_processor = build_default_template(pipeline, settings, special_tokens)
    if recipe is not None and recipe.build_post_processor is not None:
        pipeline.post_processor = recipe.build_post_processor(pipeline, inputs)
    pipeline.encode_special_tokens = settings.get_flag("split_special_tokens", False)
    _check_post_processor(pipeline)
    note = describe_conflict(data, pipeline) if recipe is not None else None
    return Tokenizer(
        RustPipeline(pipeline, clean_up=settings.get_flag("clean_up_tokenization_spaces", False), growth=growth),
        special_tokens={key: None if token is None else str(token) for key, token in special_tokens.items()},
        config=_make_config(recipe, settings, special_tokens, extra_tokens),
        max_length=resolve_max_length(settings.options),
        truncation_side=resolve_truncation_side(settings.options, data),
        notes=() if note is None else (note,),
    )


def _make_config(
    recipe: TokenizerRecipe | None,
    settings: TokenizerSettings,
    special_tokens: SpecialTokens,
    extra_tokens: list[Token],
) -> dict[str, Any]:
    """Return the contents of tokenizer_config.json that restore the same tokenizer."""
    saved_options = {
        key: value
        for key, value in select_portable_options(settings.options).items()
        if key not in ("add_bos_token", "add_eos_token")
    }
    token_settings = {
        key: value
        for key, value in special_tokens.items()
        if value is not None or (recipe is not None and key in recipe.special_tokens)
    }
    token_contents = {
        key: None if value is None else str(value)
        for key, value in (token_settings | settings.model_specific_tokens).items()
    }
    class_name = recipe.name if recipe is not None else "PreTrainedTokenizerFast"
    config = saved_options | token_contents | {"tokenizer_class": class_name}
    return config | {"extra_special_tokens": [str(token) for token in extra_tokens]} if extra_tokens else config


def _check_post_processor(pipeline: Pipeline) -> None:
    """Raise a TokenizerError if the post-processor inserts ids that do not exist."""
    for encoding in (pipeline.encode(""), pipeline.encode("", "")):
        if unknown_ids := [token_id for token_id in encoding.ids if pipeline.id_to_token(token_id) is None]:
            raise TokenizerError(f"The post-processor inserts ids that are not in the vocabulary: {unknown_ids[:8]}.")
        if len(encoding.ids) != len(encoding.tokens):
            raise TokenizerError("The post-processor inserts different numbers of ids and tokens.")
