"""Prompts in, texts out: how a causal model goes on, many prompts at a time or one as it is written."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from clearhead.data.sources.texts import is_text_source
from clearhead.errors import InputError
from clearhead.html import short_repr
from clearhead.model.generation import TextGenerator
from clearhead.model.model import Model
from clearhead.model.opening import as_model
from clearhead.progress import Progress, no_progress
from clearhead.translate.files import TextsWritten, answers_file, json_line, source_key
from clearhead.translate.stream import CHUNK, open_texts

if TYPE_CHECKING:
    from clearhead.decode import Generated
    from clearhead.text import Tokenizer


@dataclass(frozen=True, kw_only=True)
class Continuation:
    """One prompt and what was written after it; an empty line of a file stays empty."""

    number: int  # from 1
    prompt: str
    generated: Generated | None
    added: tuple[str, ...] = ()  # the answers, best first, each with the blank that parts it from the prompt

    def texts(self, *, new: bool) -> list[str]:
        """The answers, best first: prompt and continuation, or what is `new` alone."""
        added = ("",) if self.generated is None else self.added
        return [text if new else self.prompt + text for text in added]

    def __str__(self) -> str:
        return self.texts(new=False)[0]

    def __repr__(self) -> str:
        score = None if self.generated is None else f"score {self.generated.score:.4f}"
        return short_repr("Continuation", repr(str(self)), score)

    def to_json(self) -> dict[str, Any]:
        """Plain values, as `generate` with JSON writes them."""
        told: dict[str, Any] = {"line": self.number, "prompt": self.prompt}
        if self.generated is None:
            return told | {"text": self.prompt, "continuation": "", "score": None, "stopped": "empty"}
        told |= {"text": self.prompt + self.added[0], "continuation": self.added[0]}
        told |= {"score": self.generated.score, "stopped": self.generated.stopped}
        if len(self.generated.best) > 1:
            told["best"] = [
                {"text": self.prompt + text, "continuation": text, "score": one.score, "stopped": one.stopped}
                for text, one in zip(self.added, self.generated.best, strict=True)
            ]
        return told


def check_causal(model: Model, name: str) -> None:
    """Refuse what cannot go on from a prompt, and say what it can do."""
    kind = None if model.shape.head is None else model.shape.head.kind
    if kind == "causal":
        return
    title = model.family.title
    if model.shape.decoder is not None:
        raise InputError(f"{name} is {title}, which answers a source: use clearhead translate.")
    if model.shape.stack.causal:
        what = "no head" if kind is None else f"a head for {kind}"
        raise InputError(f"{name} is {title} with {what}, and only one that names the next word can generate.")
    also = "; clearhead fill guesses its masked words" if kind == "masked" else ""
    raise InputError(
        f"{name} is {title}, an encoder that reads a whole text at once and cannot go on from a prompt{also}. "
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
    """Every prompt in its order; `skip` of them were answered before, and `empty` ones are asked like others."""
    number = skip - skip % CHUNK  # in the chunks of a job that was never stopped: the same bits
    rows = islice(iter(prompts), number, None)
    while some := list(islice(rows, CHUNK)):
        if number + len(some) <= skip:
            break
        full = [place for place, prompt in enumerate(some) if empty or prompt.strip()]
        begun = number

        def report(done: int, _total: int, begun: int = begun) -> None:
            progress("generating", begun + done, None)

        found, wrong = {}, None
        try:
            made = model.generate([some[place] for place in full], progress=report, **choices)
            found = dict(zip(full, made, strict=True))
        except InputError as error:
            wrong = error
        for place, prompt in enumerate(some):
            number += 1
            if number <= skip:
                continue
            if wrong is not None and place in full:  # all up to the one that cannot be answered
                found[place] = _alone(model, prompt, None if empty else number, choices)
            one = found.get(place)
            yield Continuation(number=number, prompt=prompt, generated=one, added=_added(model.tokenizer, prompt, one))


def _alone(model: Model, prompt: str, line: int | None, choices: Mapping[str, Any]) -> Generated:
    """The answer to one prompt; where there is none, the reason with the line that it stands in."""
    try:
        return model.generate([prompt], **choices)[0]
    except InputError as error:
        said = str(error).replace(" of row 0", "")
        raise InputError(said if line is None else f"Line {line:,}: {said[:1].lower()}{said[1:]}") from None


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
) -> list[Continuation] | TextsWritten:
    """Go on from a prompt, or from those of a file, a pipe or a list; an output gets a line (or JSON) for each."""
    prompts = open_texts(source, column, input_format)
    name, loaded = _loaded(model, precision, download)
    is_many = is_text_source(source)
    if output is None:
        return list(continue_lines(loaded, prompts, empty=not is_many, progress=progress, **decoding))
    key = source_key(source)
    job = ("generate", name, key, column, input_format, precision, as_json, new_only, sorted(decoding.items()))
    with answers_file(output, job, as_json=as_json, notify=notify) as (into, done):
        count = done
        for line in continue_lines(loaded, prompts, skip=done, empty=not is_many, progress=progress, **decoding):
            if as_json:
                into.write(json_line(line.to_json(), into))
            else:
                texts = line.texts(new=new_only)
                single_lines = [" ".join(text.splitlines()) for text in texts]
                into.write("\n\n".join(single_lines if is_many or isinstance(output, Path) else texts) + "\n")
            into.flush()
            count += 1
    return TextsWritten(output=output if isinstance(output, Path) else None, texts=count, resumed=done)


def generate_pieces(
    model: str | os.PathLike[str] | Model,
    prompt: str,
    *,
    precision: str | None = None,
    download: Progress | None = None,
    **decoding: Any,
) -> Iterator[str]:
    """What follows one prompt, in pieces, each as soon as it is known."""
    return stream_text(_loaded(model, precision, download)[1], prompt, **decoding)


def _loaded(
    model: str | os.PathLike[str] | Model,
    precision: str | None,
    download: Progress | None,
) -> tuple[str, Model]:
    """A causal model and its name."""
    name = str(model.reference or "This model") if isinstance(model, Model) else os.fspath(model)
    loaded = as_model(model, precision=precision, progress=download)
    check_causal(loaded, name)
    return name, loaded


def stream_text(model: Model, prompt: str, **choices: Any) -> Iterator[str]:
    """What is written after one prompt, in pieces, each as soon as it is known."""
    writer = TextGenerator(model, **choices)
    pieces = writer.stream(prompt)  # refuses a prompt that is too long before anything else is done with it
    if model.source_tokenizer is not None:
        writer.decoder.decode = after(model.tokenizer, prompt)
    return pieces


def after(tokenizer: Tokenizer, prompt: str) -> Callable[[Sequence[int]], str]:
    """Ids to the text that they add to a prompt, with the blank that parts them where the tokenizer puts one."""
    given = list(tokenizer.encode_ids([prompt])[0].ids)
    before = tokenizer.decode(given)

    def decode(ids: Sequence[int]) -> str:
        whole = tokenizer.decode([*given, *ids])
        return whole[len(before) :] if whole.startswith(before) else tokenizer.decode(list(ids))

    return decode


def _added(tokenizer: Tokenizer, prompt: str, made: Generated | None) -> tuple[str, ...]:
    if made is None:
        return ()
    decode = after(tokenizer, prompt)
    answers = []
    for one in made.best:
        whole = decode(one.ids)
        gap = whole[: len(whole) - len(whole.lstrip())]
        answers.append(one.text if one.text.startswith(gap) or not prompt else gap + one.text)
    return tuple(answers)
