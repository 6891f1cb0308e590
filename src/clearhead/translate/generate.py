"""Prompts in, texts out: how a causal model goes on, many prompts at a time or one as it is written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from clearhead.errors import InputError
from clearhead.model.generation import Writer
from clearhead.translate.stream import CHUNK

if TYPE_CHECKING:
    from clearhead.decode import Generated
    from clearhead.model import Model
    from clearhead.text import Tokenizer


@dataclass(frozen=True, kw_only=True)
class Continued:
    """One prompt and what was written after it; an empty line of a file stays empty."""

    number: int  # from 1
    prompt: str
    made: Generated | None
    added: tuple[str, ...] = ()  # the answers, best first, each with the blank that parts it from the prompt

    def texts(self, *, new: bool) -> list[str]:
        """The answers, best first: prompt and continuation, or what is `new` alone."""
        added = ("",) if self.made is None else self.added
        return [text if new else self.prompt + text for text in added]

    def to_json(self) -> dict[str, Any]:
        """Plain values, as `--json` prints them."""
        told: dict[str, Any] = {"line": self.number, "prompt": self.prompt}
        if self.made is None:
            return told | {"text": self.prompt, "continuation": "", "score": None, "stopped": "empty"}
        told |= {"text": self.prompt + self.added[0], "continuation": self.added[0]}
        told |= {"score": self.made.score, "stopped": self.made.stopped}
        if len(self.made.best) > 1:
            told["best"] = [
                {"text": self.prompt + text, "continuation": text, "score": one.score, "stopped": one.stopped}
                for text, one in zip(self.added, self.made.best, strict=True)
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
    told: Callable[[int, int | None], None] | None = None,
    **choices: Any,
) -> Iterator[Continued]:
    """Every prompt in its order; `skip` of them were answered before, and `empty` ones are asked like others."""
    number = skip - skip % CHUNK  # in the chunks of a job that was never stopped: the same bits
    rows = islice(iter(prompts), number, None)
    while some := list(islice(rows, CHUNK)):
        if number + len(some) <= skip:
            break
        full = [place for place, prompt in enumerate(some) if empty or prompt.strip()]
        begun = number

        def count(done: int, _total: int, begun: int = begun) -> None:
            if told is not None:
                told(begun + done, None)

        found, wrong = {}, None
        try:
            made = model.generate([some[place] for place in full], progress=count, **choices)
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
            yield Continued(number=number, prompt=prompt, made=one, added=_added(model.tokenizer, prompt, one))


def _alone(model: Model, prompt: str, line: int | None, choices: Mapping[str, Any]) -> Generated:
    """The answer to one prompt; where there is none, the reason with the line that it stands in."""
    try:
        return model.generate([prompt], **choices)[0]
    except InputError as error:
        said = str(error).replace(" of row 0", "")
        raise InputError(said if line is None else f"Line {line:,}: {said[:1].lower()}{said[1:]}") from None


def stream_text(model: Model, prompt: str, **choices: Any) -> Iterator[str]:
    """What is written after one prompt, in pieces, each as soon as it is known."""
    writer = Writer(model, **choices)
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
