"""The other side of benchmarks/finetune.py: plain transformers loops, as its examples have them for each task."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from finetune_table import as_numbers, scores
from finetune_tasks import Row, Rows, Task, label_names, truth_of

MOST_TOKENS = 256  # where a task says nothing; clearhead reads longer texts in windows
AT_ONCE = 32  # rows that are answered together
IGNORED = -100  # a label that has no loss
NBEST = 20  # first tokens of an answer that are looked at, and last ones

Inputs = dict[str, list[Any]]


@dataclass(frozen=True, kw_only=True)
class Peer:
    """A model with the rows that it learns and the way it answers others."""

    network: Any
    size: int  # of what it learns from
    batch: Callable[[list[int]], dict[str, Any]]  # some of that, padded, with labels
    encode: Callable[[list[Row]], list[Any]]
    answer: Callable[[list[Any]], list[Any]]  # encoded rows


def peer(task: Task, rows: Rows, seed: int) -> list[Any]:
    """The answers for the measured rows of a plain transformers loop."""
    import torch

    from clearhead.checkpoint.hub import locate

    torch.manual_seed(seed)
    made = PEERS[task.kind](task, rows, locate(task.settings["model"]).folder)
    choose = made.encode(rows.choose)
    measure = choose if rows.choose == rows.measure else made.encode(rows.measure)
    best = 0.0
    kept: list[Any] = []
    for epoch in epochs(made, task.settings, seed):
        said = answers(made, choose)
        score = scores(task, truth_of(task, rows.choose), said, label_names(task, rows))[task.metrics[0]]
        print(f"  epoch {epoch + 1}: {task.metrics[0]} {score:.4f}", flush=True)
        if not kept or score > best:
            best, kept = score, said if measure is choose else answers(made, measure)
    return kept


def epochs(made: Peer, settings: dict[str, Any], seed: int) -> Iterator[int]:
    """Train, and stop after every epoch."""
    import torch
    from transformers import get_linear_schedule_with_warmup

    network, size = made.network, settings["batch_size"]
    steps = settings["epochs"] * -(-made.size // size)
    plain = [weight for name, weight in network.named_parameters() if name.endswith("bias") or "LayerNorm" in name]
    decayed = [weight for weight in network.parameters() if not any(weight is other for other in plain)]
    groups = [{"params": decayed, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}]
    optimiser = torch.optim.AdamW(groups, lr=settings["learning_rate"])
    schedule = get_linear_schedule_with_warmup(optimiser, steps // 10, steps)
    shuffle = torch.Generator().manual_seed(seed)
    for epoch in range(settings["epochs"]):
        network.train()
        for chosen in torch.split(torch.randperm(made.size, generator=shuffle), size):
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=settings.get("precision") == "bf16"):
                loss = network(**made.batch(chosen.tolist())).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimiser.step()
            schedule.step()
            optimiser.zero_grad()
        yield epoch


def answers(made: Peer, encoded: list[Any]) -> list[Any]:
    """What the model says of encoded rows."""
    import torch

    made.network.eval()
    with torch.inference_mode():
        return made.answer(encoded)


def parts(some: list[Any]) -> Iterator[list[Any]]:
    """A few at a time."""
    return (some[at : at + AT_ONCE] for at in range(0, len(some), AT_ONCE))


def whole_texts(task: Task, rows: Rows, folder: Path) -> Peer:
    """A label or a score for a text or a pair of them."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    names = label_names(task, rows)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    problem = {"problem_type": "regression"} if names is None else {}
    network = AutoModelForSequenceClassification.from_pretrained(folder, num_labels=len(names or "1"), **problem)

    def encode(some: list[Row]) -> list[Inputs]:
        texts = [[row[column] for row in some] for column in (task.text, task.text_b) if column]
        made = tokenizer(*texts, truncation=True, max_length=min(tokenizer.model_max_length, MOST_TOKENS))
        return [{key: made[key][place] for key in made} for place in range(len(some))]

    def answer(some: list[Inputs]) -> list[Any]:
        logits = torch.cat([network(**tokenizer.pad(part, return_tensors="pt")).logits for part in parts(some)])
        return logits[:, 0].tolist() if names is None else [names[place] for place in logits.argmax(1).tolist()]

    train = encode(rows.train)
    kind = torch.float32 if names is None else torch.int64
    truth = torch.tensor(as_numbers(truth_of(task, rows.train), names), dtype=kind)

    def batch(chosen: list[int]) -> dict[str, Any]:
        return {**tokenizer.pad([train[place] for place in chosen], return_tensors="pt"), "labels": truth[chosen]}

    return Peer(network=network, size=len(train), batch=batch, encode=encode, answer=answer)


def tags(task: Task, rows: Rows, folder: Path) -> Peer:
    """A tag for each word, learned and read at its first piece."""
    from transformers import AutoModelForTokenClassification, AutoTokenizer, DataCollatorForTokenClassification

    names = label_names(task, rows) or []
    place_of = {name: place for place, name in enumerate(names)}
    tokenizer = AutoTokenizer.from_pretrained(folder)
    network = AutoModelForTokenClassification.from_pretrained(folder, num_labels=len(names))
    collate = DataCollatorForTokenClassification(tokenizer, label_pad_token_id=IGNORED)

    def encode(some: list[Row]) -> list[tuple[int, list[int | None], Inputs]]:
        """How many words there are, at which tokens they begin, and what the network reads."""
        words = [row[task.text] for row in some]
        made = tokenizer(words, is_split_into_words=True, truncation=True, max_length=task.settings["max_length"])
        encoded = []
        for place, own in enumerate(words):
            owners = made.word_ids(place)
            firsts = [word if word != before else None for before, word in zip([None, *owners], owners, strict=False)]
            encoded.append((len(own), firsts, {key: made[key][place] for key in made}))
        return encoded

    def answer(some: list[tuple[int, list[int | None], Inputs]]) -> list[Any]:
        said = []
        for part in parts(some):
            best = network(**tokenizer.pad([inputs for *_, inputs in part], return_tensors="pt")).logits.argmax(-1)
            for (count, firsts, _), own in zip(part, best.tolist(), strict=True):
                words = ["O"] * count  # also of words that were cut off, or have no piece
                for word, tag in zip(firsts, own, strict=False):
                    if word is not None:
                        words[word] = names[tag]
                said.append(words)
        return said

    train = [
        {**inputs, "labels": [IGNORED if word is None else place_of[row[task.label][word]] for word in firsts]}
        for row, (_, firsts, inputs) in zip(rows.train, encode(rows.train), strict=True)
    ]

    def batch(chosen: list[int]) -> dict[str, Any]:
        return dict(collate([train[place] for place in chosen]))

    return Peer(network=network, size=len(train), batch=batch, encode=encode, answer=answer)


@dataclass(frozen=True, kw_only=True)
class Window:
    """A question with as much of its passage as fits."""

    row: Row
    owner: int  # which row of its part
    inputs: Inputs
    offsets: list[tuple[int, int] | None]  # characters of the passage; None outside of it

    def marks(self, start: int, end: int) -> tuple[int, int]:
        """The first and last token of these characters; [CLS] twice where they are not all here."""
        inside = [place for place, pair in enumerate(self.offsets) if pair is not None]
        begins, ends = ({place: (self.offsets[place] or (0, 0))[side] for place in inside} for side in (0, 1))
        if not inside or begins[inside[0]] > start or ends[inside[-1]] < end:
            return 0, 0
        first = max(place for place in inside if begins[place] <= start)
        return first, min(place for place in inside if ends[place] >= end)

    def candidates(self, starts: Any, ends: Any, longest: int) -> Iterator[tuple[float, int, int]]:
        """The best firsts with the best lasts that make an answer: score and characters."""
        count = len(self.offsets)
        firsts, lasts = (one[:count].topk(min(NBEST, count)).indices.tolist() for one in (starts, ends))
        for first in firsts:
            for last in lasts:
                begin, end = self.offsets[first], self.offsets[last]
                if begin is not None and end is not None and first <= last < first + longest:
                    yield float(starts[first] + ends[last]), begin[0], end[1]


def spans(task: Task, rows: Rows, folder: Path) -> Peer:
    """Where an answer begins and ends in a passage."""
    import torch
    from transformers import AutoModelForQuestionAnswering, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    network = AutoModelForQuestionAnswering.from_pretrained(folder)
    settings, passage = task.settings, task.text_b or ""

    def encode(some: list[Row]) -> list[Window]:
        made = tokenizer(
            [row[task.text].lstrip() for row in some],
            [row[passage] for row in some],
            truncation="only_second",
            max_length=settings["max_length"],
            stride=settings["stride"],
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
        )
        read = [name for name in tokenizer.model_input_names if name in made]
        return [
            Window(
                row=some[owner],
                owner=owner,
                inputs={name: made[name][place] for name in read},
                offsets=[
                    tuple(pair) if part == 1 else None
                    for pair, part in zip(made["offset_mapping"][place], made.sequence_ids(place), strict=True)
                ],
            )
            for place, owner in enumerate(made["overflow_to_sample_mapping"])
        ]

    def padded(some: list[Window]) -> dict[str, Any]:
        return dict(tokenizer.pad([one.inputs for one in some], return_tensors="pt"))

    def answer(some: list[Window]) -> list[Any]:
        best = [(-torch.inf, "")] * (some[-1].owner + 1)
        for part in parts(some):
            made = network(**padded(part))
            for one, starts, ends in zip(part, made.start_logits, made.end_logits, strict=True):
                for score, begin, end in one.candidates(starts, ends, settings["max_answer"]):
                    if score > best[one.owner][0]:
                        best[one.owner] = score, one.row[passage][begin:end]
        return [text for _, text in best]

    train = encode(rows.train)
    marks = []
    for one in train:
        right = one.row[task.label]
        marks.append(one.marks(right["answer_start"][0], right["answer_start"][0] + len(right["text"][0])))
    truth = torch.tensor(marks)  # (windows, 2)

    def batch(chosen: list[int]) -> dict[str, Any]:
        places = {"start_positions": truth[chosen, 0], "end_positions": truth[chosen, 1]}
        return padded([train[place] for place in chosen]) | places

    return Peer(network=network, size=len(train), batch=batch, encode=encode, answer=answer)


def choices(task: Task, rows: Rows, folder: Path) -> Peer:
    """One of several options, each read with the question."""
    import torch
    from transformers import AutoModelForMultipleChoice, AutoTokenizer

    count = len(task.options)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    network = AutoModelForMultipleChoice.from_pretrained(folder)

    def encode(some: list[Row]) -> list[list[Inputs]]:
        questions = [row[task.text] for row in some for _ in task.options]
        options = [row[option] for row in some for option in task.options]
        made = tokenizer(questions, options, truncation=True, max_length=task.settings["max_length"])
        each = [{key: made[key][place] for key in made} for place in range(len(options))]
        return [each[at : at + count] for at in range(0, len(each), count)]

    def padded(some: list[list[Inputs]]) -> dict[str, Any]:
        flat = tokenizer.pad([option for row in some for option in row], return_tensors="pt")
        return {key: value.view(len(some), count, -1) for key, value in flat.items()}

    def answer(some: list[list[Inputs]]) -> list[Any]:
        return [str(place) for part in parts(some) for place in network(**padded(part)).logits.argmax(1).tolist()]

    train = encode(rows.train)
    truth = torch.tensor(as_numbers(truth_of(task, rows.train), label_names(task, rows)))

    def batch(chosen: list[int]) -> dict[str, Any]:
        return padded([train[place] for place in chosen]) | {"labels": truth[chosen]}

    return Peer(network=network, size=len(train), batch=batch, encode=encode, answer=answer)


PEERS: dict[str, Callable[[Task, Rows, Path], Peer]] = {
    "classify": whole_texts,
    "pair": whole_texts,
    "regress": whole_texts,
    "tag": tags,
    "span": spans,
    "choice": choices,
}
