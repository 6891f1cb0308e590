"""From a model folder to its tokenizer: find the files, choose the recipe, build the pipeline."""

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
    check_recipe_parts,
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
    select_savable,
)
from clearhead.text.settings_conflict import describe_conflict
from clearhead.text.tokenizer import Tokenizer
from clearhead.text.tokenizer_class import resolve_tokenizer_class


@dataclass(frozen=True, kw_only=True)
class TokenizerPair:
    """The tokenizer of a model's input and, for translation models that have one, of its output."""

    source: Tokenizer
    target: Tokenizer | None = None


RECIPE_GROWTH_FACTOR = 8.0  # of the steps that a recipe sets itself, on paper
TARGET_FOLDER = "target"  # the folder of a second vocabulary, where the two languages have one each


def load_tokenizer(folder: Path, model_type: str, config: dict[str, Any]) -> TokenizerPair:
    """Read the tokenizer of a model folder; `config` is its parsed config.json."""
    folder = Path(folder)
    pair = _load(folder, model_type, config)
    if not config.get("target_vocab_size") or not (folder / TARGET_FOLDER / "tokenizer.json").is_file():
        return pair
    return TokenizerPair(source=pair.source, target=_load(folder / TARGET_FOLDER, model_type, config).source)


def _load(folder: Path, model_type: str, config: dict[str, Any]) -> TokenizerPair:
    kind = resolve_tokenizer_class(folder, model_type, config)
    if kind == "MarianTokenizer":
        source, target = load_marian(folder)
        return TokenizerPair(source=source, target=target)
    recipe = RECIPES.get(kind)
    if not (folder / "tokenizer.json").is_file():
        if recipe is None:
            raise TokenizerError(f"{folder.name}: found no tokenizer.json, which a {kind} of type {model_type!r} needs")
        return TokenizerPair(source=_from_legacy(folder, recipe))
    text = read_text(folder / "tokenizer.json")
    data = parse_json_object(text, "tokenizer.json")
    settings = read_settings(folder, data)
    with wrap_library_errors("tokenizer.json cannot be used"):
        if recipe is None:
            return TokenizerPair(source=_as_it_is(text, settings, data))
        check_recipe_parts(data)
        return TokenizerPair(source=_assemble(recipe, _from_tokenizer_json(data, recipe), settings, data))


def _from_legacy(folder: Path, recipe: TokenizerRecipe) -> Tokenizer:
    found = next((names for names in recipe.files if all((folder / n).is_file() for n in names)), None)
    if found is None and (folder / "vocab.txt").is_file():  # an ALBERT, say, that was trained on WordPiece
        recipe, found = RECIPES["BertTokenizer"], ("vocab.txt",)
    if found is None:
        looked = " or ".join(["tokenizer.json", *(" + ".join(names) for names in recipe.files)])
        raise TokenizerError(f"{folder.name}: found no vocabulary for a {recipe.name}; looked for {looked}")
    settings = read_settings(folder, None)
    with wrap_library_errors(f"{' + '.join(found)} cannot be used"):
        if recipe.model == "Unigram":
            vocabulary = _from_pieces(folder / found[0])
            settings.options["unk_id"] = vocabulary.unk_id  # tokenizer.json has no other place to keep it
            if recipe.order_pieces is not None:
                given = RecipeInputs(
                    vocabulary=vocabulary, settings=settings, special_tokens=_specials(recipe, settings)
                )
                vocabulary = replace(vocabulary, scores=recipe.order_pieces(given))
        elif recipe.model == "BPE":
            for name in found:
                read_text(folder / name)  # size and encoding first, with our own words
            ids, merges = models.BPE.read_file(*(str(folder / name) for name in found))
            vocabulary = Vocabulary(ids=check_vocabulary(ids, found[0]), merges=merges)
        else:
            read_text(folder / found[0])
            vocabulary = Vocabulary(ids=check_vocabulary(models.WordPiece.read_file(str(folder / found[0])), found[0]))
        return _assemble(recipe, vocabulary, settings, {})


def _from_pieces(path: Path) -> Vocabulary:
    model = parse_model(read_bytes(path, limit=MAX_MODEL_BYTES), path.name)
    added: list[Token] = [
        AddedToken(piece.text, normalized=False, special=piece.kind == CONTROL)
        for piece in model.pieces
        if piece.kind in (CONTROL, USER_DEFINED)
    ]
    return Vocabulary(
        scores=[(piece.text, piece.score) for piece in model.pieces],
        charsmap=model.charsmap or None,
        unk_id=model.unk_id,
        added_tokens=added,
    )


def _from_tokenizer_json(data: dict[str, Any], recipe: TokenizerRecipe) -> Vocabulary:
    """The parts of tokenizer.json that a recipe takes over: vocabulary, merges, table of normalisation, template."""
    model = data.get("model")
    if not isinstance(model, dict):
        raise TokenizerError("tokenizer.json: model must be an object")
    kind, vocab = model.get("type"), model.get("vocab")
    if kind not in (None, recipe.model):  # very old files do not say
        raise TokenizerError(
            f"tokenizer.json holds a {kind} model, but a {recipe.name} is a {recipe.model}; if the file is right, "
            'write "tokenizer_class": "PreTrainedTokenizerFast" into tokenizer_config.json'
        )
    post_processor = _post_processor(data)
    if recipe.model == "Unigram":
        if not isinstance(vocab, list) or not all(isinstance(v, list) and len(v) == 2 for v in vocab):
            raise TokenizerError("tokenizer.json: the vocabulary of a Unigram model must be a list of piece and score")
        scores = [(piece, score) for piece, score in vocab]
        return Vocabulary(scores=scores, charsmap=_charsmap(data), post_processor=post_processor)
    if isinstance(vocab, list):  # an old form: the position is the id
        vocab = {v[0] if isinstance(v, list) and v else v: i for i, v in enumerate(vocab)}
    if not isinstance(vocab, dict):
        raise TokenizerError("tokenizer.json: the vocabulary must be an object of token and id")
    ids, merges = check_vocabulary(vocab, "tokenizer.json"), _merges(model.get("merges") or [])
    return Vocabulary(ids=ids, merges=merges, post_processor=post_processor)


def _merges(rows: object) -> list[tuple[str, str]]:
    pairs = []
    for row in rows if isinstance(rows, list) else [rows]:
        pair = row.split(" ") if isinstance(row, str) else row
        if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(p, str) for p in pair):
            raise TokenizerError(f"tokenizer.json: merges must be a list of pairs, but one is {str(row)[:80]!r}")
        pairs.append((pair[0], pair[1]))
    return pairs


def _post_processor(data: dict[str, Any]) -> Any:
    # The library reads it only as part of a whole tokenizer: give it one without a vocabulary, which is quick.
    model = {"type": "WordLevel", "vocab": {}, "unk_token": "?"}
    part: dict[str, Any] = {"version": data.get("version", "1.0"), "added_tokens": [], "model": model}
    return Pipeline.from_str(json.dumps(part | {"post_processor": data.get("post_processor")})).post_processor


def _charsmap(data: dict[str, Any]) -> bytes | None:
    steps = data.get("normalizer") or []
    if isinstance(steps, dict):
        steps = steps.get("normalizers") if steps.get("type") == "Sequence" else [steps]
    if not isinstance(steps, list) or not all(isinstance(s, dict) for s in steps):
        raise TokenizerError("tokenizer.json: normalizer must be an object, or a sequence of them")
    for step in steps:
        if step.get("type") == "Precompiled" and isinstance(step.get("precompiled_charsmap"), str):
            try:
                return base64.b64decode(step["precompiled_charsmap"], validate=True)
            except binascii.Error as error:
                raise TokenizerError(f"tokenizer.json: precompiled_charsmap is not base64: {error}") from error
    return None


def _specials(recipe: TokenizerRecipe | None, settings: TokenizerSettings) -> SpecialTokens:
    """The named special tokens in their fixed order, the settings' own before the recipe's."""
    defaults = recipe.special_tokens if recipe is not None else {}
    specials: SpecialTokens = {}
    for key in SPECIAL_TOKEN_KEYS:
        token = settings.special_tokens.get(key, defaults.get(key))
        if recipe is not None and key in recipe.lstrip_tokens and isinstance(token, str):
            token = AddedToken(token, lstrip=True)
        if token is not None:
            check_special_token(key, str(token))
        specials[key] = token
    return specials


def _assemble(
    recipe: TokenizerRecipe, vocabulary: Vocabulary, settings: TokenizerSettings, data: dict[str, Any]
) -> Tokenizer:
    """Follow a recipe."""
    given = RecipeInputs(vocabulary=vocabulary, settings=settings, special_tokens=_specials(recipe, settings))
    additional = settings.additional if vocabulary.added_tokens is None else vocabulary.added_tokens
    if recipe.extend_special_tokens is not None:
        additional = recipe.extend_special_tokens(additional, settings)
    extra = settings.extra if settings.extra is not None else additional
    pipeline = recipe.build_pipeline(given)
    if vocabulary.post_processor is not None:
        pipeline.post_processor = vocabulary.post_processor
    table = vocabulary.charsmap
    growth = RECIPE_GROWTH_FACTOR * (1.0 if table is None else check_charsmap(table, "the tokenizer"))
    _check_tokens(given, extra or [], growth)
    return _complete(pipeline, recipe, given, extra or [], data, growth)


def _as_it_is(text: str, settings: TokenizerSettings, data: dict[str, Any]) -> Tokenizer:
    """Take a tokenizer.json that is its own recipe."""
    is_changed = bound_patterns(data)
    growth = check_pipeline(data)
    pipeline = Pipeline.from_str(json.dumps(data) if is_changed else text)
    specials = _specials(None, settings)
    if pipeline.padding is not None and "pad_token" not in settings.special_tokens:
        specials["pad_token"] = parse_token(pipeline.padding["pad_token"], "tokenizer.json: pad_token")
    extra = settings.extra if settings.extra is not None else settings.additional
    given = RecipeInputs(vocabulary=Vocabulary(), settings=settings, special_tokens=specials)
    _check_tokens(given, extra or [], measure_normalizer_growth(data))
    return _complete(pipeline, None, given, extra or [], data, growth)


def _check_tokens(given: RecipeInputs, extra: list[Token], growth: float) -> None:
    """Refuse added and special tokens of the settings that take too long to search for."""
    settings = given.settings
    tokens = [*settings.added.values(), *given.special_tokens.values(), *settings.model_specific.values(), *extra]
    contents = (
        (str(token), isinstance(token, AddedToken) and token.normalized) for token in tokens if token is not None
    )
    check_added_tokens(contents, growth, "tokenizer_config.json")


def _complete(
    pipeline: Pipeline,
    recipe: TokenizerRecipe | None,
    given: RecipeInputs,
    extra: list[Token],
    data: dict[str, Any],
    growth: float,
) -> Tokenizer:
    """Add the special tokens, then the post-processor that inserts them."""
    settings, specials = given.settings, given.special_tokens
    pipeline.no_truncation()  # before anything is encoded: padding may ask for a billion tokens
    pipeline.no_padding()
    add_tokens(pipeline, settings, specials, extra)
    check_normalized_tokens(pipeline)
    asked = "add_bos_token" in settings.options or "add_eos_token" in settings.options
    if asked or pipeline.post_processor is None:
        pipeline.post_processor = build_default_template(pipeline, settings, specials)
    if recipe is not None and recipe.build_post_processor is not None:
        pipeline.post_processor = recipe.build_post_processor(pipeline, given)
    pipeline.encode_special_tokens = settings.flag("split_special_tokens", False)
    _probe(pipeline)
    note = describe_conflict(data, pipeline) if recipe is not None else None
    return Tokenizer(
        RustPipeline(pipeline, clean_up=settings.flag("clean_up_tokenization_spaces", False), growth=growth),
        specials={key: None if token is None else str(token) for key, token in specials.items()},
        config=_config(recipe, settings, specials, extra),
        max_length=resolve_max_length(settings.options),
        truncation_side=resolve_truncation_side(settings.options, data),
        notes=() if note is None else (note,),
    )


def _config(
    recipe: TokenizerRecipe | None, settings: TokenizerSettings, specials: SpecialTokens, extra: list[Token]
) -> dict[str, Any]:
    """What tokenizer_config.json must say for the same tokenizer to come back."""
    kept = {k: v for k, v in select_savable(settings.options).items() if k not in ("add_bos_token", "add_eos_token")}
    known = {k: v for k, v in specials.items() if v is not None or (recipe is not None and k in recipe.special_tokens)}
    tokens = {k: None if v is None else str(v) for k, v in (known | settings.model_specific).items()}
    kind = recipe.name if recipe is not None else "PreTrainedTokenizerFast"
    named = kept | tokens | {"tokenizer_class": kind}
    return named | {"extra_special_tokens": [str(token) for token in extra]} if extra else named


def _probe(pipeline: Pipeline) -> None:
    """Fail now rather than at the first text: a post-processor may insert tokens that do not exist."""
    for encoding in (pipeline.encode(""), pipeline.encode("", "")):
        if wrong := [index for index in encoding.ids if pipeline.id_to_token(index) is None]:
            raise TokenizerError(f"the post-processor inserts ids that the vocabulary does not have: {wrong[:8]}")
        if len(encoding.ids) != len(encoding.tokens):
            raise TokenizerError("the post-processor inserts another number of ids than of tokens")
