"""The Decoder: a runner and a plan, from token ids to answers, many texts at a time or one as it is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from clearhead.decode.beam import Beam
from clearhead.decode.folder import Plan
from clearhead.decode.opening import Given, limit_of, opened, together
from clearhead.decode.stops import Stops
from clearhead.decode.walk import Answer, generators, walk
from clearhead.errors import InputError
from clearhead.runner import Runner

HALF = "\ufffd"  # what stands for bytes that are no letter yet


class Decoder:
    """Answers of one model under one plan; `decode` turns ids into text where stop texts or streams need it."""

    def __init__(self, runner: Runner, plan: Plan, decode: Callable[[Sequence[int]], str] | None = None) -> None:
        self.runner, self.plan, self.decode = runner, plan, decode
        if plan.settings.stop and decode is None:
            raise InputError("stop holds texts, and this model has no tokenizer that could write any.")
        self.stops = Stops(plan.settings.stop, self._text)

    def answers(
        self, every: Sequence[Given], progress: Callable[[int, int], None] | None = None
    ) -> list[list[Answer]]:
        """The answers to each text, best first; an empty list where there is nothing to answer."""
        made: list[list[Answer]] = [[] for _ in every]
        some = [self._filled(one, row) for row, one in enumerate(every)]
        rows = [row for row, one in enumerate(some) if one is not None]
        done = len(every) - len(rows)
        for group in together(self.plan, self.runner.shape, [one for one in some if one is not None]):
            numbers = [rows[place] for place in group]
            found = self._group([one for row in numbers if (one := some[row]) is not None])
            for row, answers in zip(numbers, found, strict=True):
                made[row] = answers[: self.plan.settings.best]
            done += len(numbers)
            if progress is not None:
                progress(done, len(every))
        return made

    def _group(self, every: Sequence[Given]) -> list[list[Answer]]:
        """Those of texts that are decoded together."""
        begun, settings = opened(self.runner, self.plan, every), self.plan.settings
        if settings.beam > 1:
            return Beam(begun, self.plan, self.stops).search()
        begun.spread(settings.best)
        draws = [one for given in every if settings.sample for one in generators(settings.seed, given, settings.best)]
        flat: list[Answer] = []
        for flat in walk(begun, self.plan, self.stops, draws):  # noqa: B007
            pass
        found = [flat[first : first + settings.best] for first in range(0, len(flat), settings.best)]
        return [sorted(answers, key=lambda answer: -answer.score) for answers in found]

    def pieces(self, given: Given) -> Iterator[str]:
        """The answer to one text in pieces, each as soon as no later word can change it."""
        settings = self.plan.settings
        if settings.beam > 1 or settings.best > 1:
            raise InputError("An answer is known word by word with beam=1 and best=1 alone.")
        one = self._filled(given, 0)
        if one is None:
            return
        draws = generators(settings.seed, one, 1) if settings.sample else ()
        told, text = "", ""
        for answers in walk(opened(self.runner, self.plan, [one]), self.plan, self.stops, draws):
            text = self.stops.cut(self._text([*self.plan.prefix, *answers[0].ids]))
            sure = text.rstrip(HALF)
            sure = sure[: len(sure) - self.stops.held(sure)]
            if sure.startswith(told) and sure != told:
                yield sure[len(told) :]
                told = sure
        if text.startswith(told) and text != told:
            yield text[len(told) :]

    def _filled(self, given: Given, row: int) -> Given | None:
        """The text as it is read: an empty prompt is the folder's first symbol, an empty source has no answer."""
        if not self.plan.start:
            limit_of(self.plan, self.runner.shape, len(given.real) + len(self.plan.prefix), f"The prompt of row {row}")
        if given.real or (not self.plan.start and self.plan.prefix):
            return given
        if self.plan.start:
            return None
        if self.plan.blank is None:
            raise InputError("The prompt is empty, and the model has no symbol that could stand for its beginning.")
        return Given(ids=(self.plan.blank,))

    def _text(self, ids: Sequence[int]) -> str:
        return "" if self.decode is None else self.decode(ids)
