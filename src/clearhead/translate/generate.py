"""Text generation with a causal model: for many prompts in chunks, or streamed for one prompt."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from clearhead.data.sources.texts import is_text_source
from clearhead.deprecation import renamed_fields
from clearhead.errors import InputError
from clearhead.html import short_repr
from clearhead.model.generation import TextGenerator
from clearhead.model.model import Model
from clearhead.model.opening import as_model
from clearhead.progress import Progress, no_progress
from clearhead.translate.files import OutputSummary, format_json_line, identify_source, open_output
from clearhead.translate.stream import CHUNK_LINES, open_texts

if TYPE_CHECKING:
    from clearhead.decode import GeneratedText
    from clearhead.text import Tokenizer


@renamed_fields(added="continuations")
@dataclass(frozen=True, kw_only=True)
class Continuation:
    """One prompt and its continuation; an empty line of a file stays empty."""

    number: int  # from 1
    prompt: str
    generated: GeneratedText | None
    continuations: tuple[str, ...] = ()  # best first, each with the space that separates it from the prompt

    def texts(self, *, new: bool) -> list[str]:
        """Return the answers, best first: prompt and continuation, or only the `new` text."""
        continuations = ("",) if self.generated is None else self.continuations
        return [text if new else self.prompt + text for text in continuations]

    def __str__(self) -> str:
        return self.texts(new=False)[0]

    def __repr__(self) -> str:
        score = None if self.generated is None else f"score {self.generated.score:.4f}"
        return short_repr("Continuation", repr(str(self)), score)

    def to_json(self) -> dict[str, Any]:
        """Return plain values, as written by `generate` with JSON output."""
        values: dict[str, Any] = {"line": self.number, "prompt": self.prompt}
        if self.generated is None:
            return values | {"text": self.prompt, "continuation": "", "score": None, "stopped": "empty"}
        values |= {"text": self.prompt + self.continuations[0], "continuation": self.continuations[0]}
        values |= {"score": self.generated.score, "stopped": self.generated.stopped}
        if len(self.generated.best) > 1:
            values["best"] = [
                {
                    "text": self.prompt + text,
                    "continuation": text,
                    "score": hypothesis.score,
                    "stopped": hypothesis.stopped,
                }
                for text, hypothesis in zip(self.continuations, self.generated.best, strict=True)
            ]
        return values


def check_causal(model: Model, name: str) -> None:
    """Refuse a model that cannot continue a prompt, and name an alternative."""
    kind = None if model.shape.head is None else model.shape.head.kind
    if kind == "causal":
        return
    title = model.family.title
    if model.shape.decoder is not None:
        raise InputError(f"{name} is a {title} encoder-decoder model; use clearhead translate.")
    if model.shape.stack.causal:
        head = "no head" if kind is None else f"a head for {kind}"
        raise InputError(f"{name} is a {title} model with {head}; text generation needs a language modeling head.")
    alternative = "; use clearhead fill to predict masked tokens" if kind == "masked" else ""
    raise InputError(
        f"{name} is a {title} encoder, which cannot continue a prompt{alternative}. "
        "Models that generate: GPT-2, OpenAI GPT."
    )


def continue_lines(
    model: Model,
    prompts: Iterable[str],
    *,
    skip: int = 0,
    empty: bool = False,
    progress: Progress = no_progress,
    **choices: Any,
) -> Iterator[Continuation]:
    """Continue prompts in order; the first `skip` are skipped; with `empty`, empty prompts are continued, too."""
    number = skip - skip % CHUNK_LINES  # same chunks as without an interruption: same bits
    rows = islice(iter(prompts), number, None)
    while chunk := list(islice(rows, CHUNK_LINES)):
        if number + len(chunk) <= skip:
            break
        nonempty = [index for index, prompt in enumerate(chunk) if empty or prompt.strip()]
        chunk_start = number

        def report(done: int, _total: int, start: int = chunk_start) -> None:
            progress("generating", start + done, None)

        generated_at, chunk_error = {}, None
        try:
            answers = model.generate([chunk[index] for index in nonempty], progress=report, **choices)
            generated_at = dict(zip(nonempty, answers, strict=True))
        except InputError as error:
            chunk_error = error
        for index, prompt in enumerate(chunk):
            number += 1
            if number <= skip:
                continue
            if chunk_error is not None and index in nonempty:  # yield all prompts before the invalid one
                generated_at[index] = _generate_one(model, prompt, None if empty else number, choices)
            generated = generated_at.get(index)
            yield Continuation(
                number=number,
                prompt=prompt,
                generated=generated,
                continuations=_continuations(model.tokenizer, prompt, generated),
            )


def _generate_one(model: Model, prompt: str, line_number: int | None, choices: Mapping[str, Any]) -> GeneratedText:
    """Continue one prompt; an error names its line."""
    try:
        return model.generate([prompt], **choices)[0]
    except InputError as error:
        message = str(error).replace(" of row 0", "")
        raise InputError(
            message if line_number is None else f"Line {line_number:,}: {message[:1].lower()}{message[1:]}"
        ) from None


def generate_texts(
    model: str | os.PathLike[str] | Model,
    source: Any,
    output: Path | IO[str] | None = None,
    *,
    column: str | None = None,
    input_format: str | None = None,
    as_json: bool = False,
    new_only: bool = False,
    precision: str | None = None,
    progress: Progress = no_progress,
    download: Progress | None = None,
    notify: Callable[[str], None] | None = None,
    **decoding: Any,
) -> list[Continuation] | OutputSummary:
    """Continue a prompt, or those of a file, pipe or list; the output gets one line (or JSON object) per prompt."""
    prompts = open_texts(source, column, input_format)
    name, loaded = _load_causal_model(model, precision, download)
    is_many = is_text_source(source)
    if output is None:
        return list(continue_lines(loaded, prompts, empty=not is_many, progress=progress, **decoding))
    source_key = identify_source(source)
    job_key = (
        "generate",
        name,
        source_key,
        column,
        input_format,
        precision,
        as_json,
        new_only,
        sorted(decoding.items()),
    )
    with open_output(output, job_key, as_json=as_json, notify=notify) as (stream, done):
        count = done
        for continuation in continue_lines(
            loaded, prompts, skip=done, empty=not is_many, progress=progress, **decoding
        ):
            if as_json:
                stream.write(format_json_line(continuation.to_json(), stream))
            else:
                texts = continuation.texts(new=new_only)
                single_lines = [" ".join(text.splitlines()) for text in texts]
                stream.write("\n\n".join(single_lines if is_many or isinstance(output, Path) else texts) + "\n")
            stream.flush()
            count += 1
    return OutputSummary(output=output if isinstance(output, Path) else None, texts=count, resumed=done)


def stream_continuation(
    model: str | os.PathLike[str] | Model,
    prompt: str,
    *,
    precision: str | None = None,
    download: Progress | None = None,
    **decoding: Any,
) -> Iterator[str]:
    """Stream the continuation of one prompt, piece by piece."""
    return stream_text(_load_causal_model(model, precision, download)[1], prompt, **decoding)


def _load_causal_model(
    model: str | os.PathLike[str] | Model,
    precision: str | None,
    download: Progress | None,
) -> tuple[str, Model]:
    """Load a causal model, and return its name and the model."""
    name = str(model.reference or "This model") if isinstance(model, Model) else os.fspath(model)
    loaded = as_model(model, precision=precision, progress=download)
    check_causal(loaded, name)
    return name, loaded


def stream_text(model: Model, prompt: str, **choices: Any) -> Iterator[str]:
    """Stream the continuation of one prompt, piece by piece."""
    writer = TextGenerator(model, **choices)
    pieces = writer.stream(prompt)  # refuses a prompt that is too long before anything is generated
    if model.source_tokenizer is not None:
        writer.decoder.decode = make_continuation_decoder(model.tokenizer, prompt)
    return pieces


def make_continuation_decoder(tokenizer: Tokenizer, prompt: str) -> Callable[[Sequence[int]], str]:
    """Return a function that decodes ids to the text added to a prompt, including the space between them."""
    prompt_ids = list(tokenizer.encode_ids([prompt])[0].ids)
    prompt_text = tokenizer.decode(prompt_ids)

    def decode(ids: Sequence[int]) -> str:
        full_text = tokenizer.decode([*prompt_ids, *ids])
        return full_text[len(prompt_text) :] if full_text.startswith(prompt_text) else tokenizer.decode(list(ids))

    return decode


def _continuations(tokenizer: Tokenizer, prompt: str, generated: GeneratedText | None) -> tuple[str, ...]:
    if generated is None:
        return ()
    decode = make_continuation_decoder(tokenizer, prompt)
    answers = []
    for hypothesis in generated.best:
        added_text = decode(hypothesis.ids)
        gap = added_text[: len(added_text) - len(added_text.lstrip())]
        answers.append(hypothesis.text if hypothesis.text.startswith(gap) or not prompt else gap + hypothesis.text)
    return tuple(answers)
