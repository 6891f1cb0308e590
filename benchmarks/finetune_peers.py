"""The peer of benchmarks/finetune.py: plain `transformers` loops, as in its examples for each task."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from finetune_table import as_numbers, compute_scores
from finetune_tasks import Row, Task, TaskRows, label_names, labels_of

MAX_TOKENS = 256  # unless the task sets it; clearhead splits longer texts into windows
EVALUATION_BATCH = 32  # rows
IGNORE_INDEX = -100  # labels without loss
NBEST = 20  # start tokens and end tokens that are considered for an answer

Inputs = dict[str, list[Any]]


@dataclass(frozen=True, kw_only=True)
class PeerModel:
    """A model with its training rows, and the functions that encode rows and predict."""

    network: Any
    train_size: int  # number of training rows or windows
    make_batch: Callable[[list[int]], dict[str, Any]]  # from row indices: padded inputs with labels
    encode: Callable[[list[Row]], list[Any]]
    predict: Callable[[list[Any]], list[Any]]  # encoded rows


def predict_peer(task: Task, rows: TaskRows, seed: int) -> list[Any]:
    """Train with a plain `transformers` loop, and predict the measured rows."""
    import torch

    from clearhead.checkpoint.hub import locate

    torch.manual_seed(seed)
    peer_model = PEERS[task.kind](task, rows, locate(task.settings["model"]).folder)
    dev_rows = peer_model.encode(rows.choose)
    test_rows = dev_rows if rows.choose == rows.measure else peer_model.encode(rows.measure)
    best_score = 0.0
    best_answers: list[Any] = []
    for epoch in train_epochs(peer_model, task.settings, seed):
        dev_answers = predict_rows(peer_model, dev_rows)
        score = compute_scores(task, labels_of(task, rows.choose), dev_answers, label_names(task, rows))[
            task.metrics[0]
        ]
        print(f"  epoch {epoch + 1}: {task.metrics[0]} {score:.4f}", flush=True)
        if not best_answers or score > best_score:
            best_score, best_answers = (
                score,
                dev_answers if test_rows is dev_rows else predict_rows(peer_model, test_rows),
            )
    return best_answers


def train_epochs(peer_model: PeerModel, settings: dict[str, Any], seed: int) -> Iterator[int]:
    """Train; yields after every epoch."""
    import torch
    from transformers import get_linear_schedule_with_warmup

    network, batch_size = peer_model.network, settings["batch_size"]
    steps = settings["epochs"] * -(-peer_model.train_size // batch_size)
    undecayed = [weight for name, weight in network.named_parameters() if name.endswith("bias") or "LayerNorm" in name]
    decayed = [weight for weight in network.parameters() if not any(weight is other for other in undecayed)]
    groups = [{"params": decayed, "weight_decay": 0.01}, {"params": undecayed, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=settings["learning_rate"])
    schedule = get_linear_schedule_with_warmup(optimizer, steps // 10, steps)
    shuffle = torch.Generator().manual_seed(seed)
    for epoch in range(settings["epochs"]):
        network.train()
        for row_indices in torch.split(torch.randperm(peer_model.train_size, generator=shuffle), batch_size):
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=settings.get("precision") == "bf16"):
                loss = network(**peer_model.make_batch(row_indices.tolist())).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        yield epoch


def predict_rows(peer_model: PeerModel, encoded: list[Any]) -> list[Any]:
    """Predict encoded rows."""
    import torch

    peer_model.network.eval()
    with torch.inference_mode():
        return peer_model.predict(encoded)


def split_chunks(entries: list[Any]) -> Iterator[list[Any]]:
    """Split a list into chunks of EVALUATION_BATCH."""
    return (entries[start : start + EVALUATION_BATCH] for start in range(0, len(entries), EVALUATION_BATCH))


def make_text_peer(task: Task, rows: TaskRows, folder: Path) -> PeerModel:
    """Make the peer for labels or scores of texts and text pairs."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    names = label_names(task, rows)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    config_kwargs = {"problem_type": "regression"} if names is None else {}
    network = AutoModelForSequenceClassification.from_pretrained(folder, num_labels=len(names or "1"), **config_kwargs)

    def encode(rows: list[Row]) -> list[Inputs]:
        texts = [[row[column] for row in rows] for column in (task.text, task.text_b) if column]
        encodings = tokenizer(*texts, truncation=True, max_length=min(tokenizer.model_max_length, MAX_TOKENS))
        return [{key: encodings[key][index] for key in encodings} for index in range(len(rows))]

    def answer(inputs: list[Inputs]) -> list[Any]:
        logits = torch.cat(
            [network(**tokenizer.pad(chunk, return_tensors="pt")).logits for chunk in split_chunks(inputs)]
        )
        return (
            logits[:, 0].tolist()
            if names is None
            else [names[label_index] for label_index in logits.argmax(1).tolist()]
        )

    train_inputs = encode(rows.train)
    dtype = torch.float32 if names is None else torch.int64
    truth = torch.tensor(as_numbers(labels_of(task, rows.train), names), dtype=dtype)

    def batch(row_indices: list[int]) -> dict[str, Any]:
        return {
            **tokenizer.pad([train_inputs[index] for index in row_indices], return_tensors="pt"),
            "labels": truth[row_indices],
        }

    return PeerModel(network=network, train_size=len(train_inputs), make_batch=batch, encode=encode, predict=answer)


def make_tag_peer(task: Task, rows: TaskRows, folder: Path) -> PeerModel:
    """Make the peer for tags: a word is trained and predicted at its first token."""
    from transformers import AutoModelForTokenClassification, AutoTokenizer, DataCollatorForTokenClassification

    names = label_names(task, rows) or []
    tag_indices = {name: index for index, name in enumerate(names)}
    tokenizer = AutoTokenizer.from_pretrained(folder)
    network = AutoModelForTokenClassification.from_pretrained(folder, num_labels=len(names))
    collate = DataCollatorForTokenClassification(tokenizer, label_pad_token_id=IGNORE_INDEX)

    def encode(rows: list[Row]) -> list[tuple[int, list[int | None], Inputs]]:
        """Encode rows as word count, word index of each first token, and inputs."""
        words = [row[task.text] for row in rows]
        encodings = tokenizer(words, is_split_into_words=True, truncation=True, max_length=task.settings["max_length"])
        encoded = []
        for index, row_words in enumerate(words):
            word_ids = encodings.word_ids(index)
            first_tokens = [
                word if word != previous else None for previous, word in zip([None, *word_ids], word_ids, strict=False)
            ]
            encoded.append((len(row_words), first_tokens, {key: encodings[key][index] for key in encodings}))
        return encoded

    def answer(encoded: list[tuple[int, list[int | None], Inputs]]) -> list[Any]:
        answers = []
        for chunk in split_chunks(encoded):
            tag_indices = network(**tokenizer.pad([inputs for *_, inputs in chunk], return_tensors="pt")).logits.argmax(
                -1
            )
            for (word_count, first_tokens, _), token_tags in zip(chunk, tag_indices.tolist(), strict=True):
                words = ["O"] * word_count  # the default for truncated words and words without tokens
                for word, tag_index in zip(first_tokens, token_tags, strict=False):
                    if word is not None:
                        words[word] = names[tag_index]
                answers.append(words)
        return answers

    train_inputs = [
        {
            **inputs,
            "labels": [IGNORE_INDEX if word is None else tag_indices[row[task.label][word]] for word in first_tokens],
        }
        for row, (_, first_tokens, inputs) in zip(rows.train, encode(rows.train), strict=True)
    ]

    def batch(row_indices: list[int]) -> dict[str, Any]:
        return dict(collate([train_inputs[index] for index in row_indices]))

    return PeerModel(network=network, train_size=len(train_inputs), make_batch=batch, encode=encode, predict=answer)


@dataclass(frozen=True, kw_only=True)
class Window:
    """A question with a window of its passage."""

    row: Row
    row_index: int  # position among the encoded rows
    inputs: Inputs
    offsets: list[tuple[int, int] | None]  # characters of the passage; None outside the passage

    def find_tokens(self, start: int, end: int) -> tuple[int, int]:
        """Find the first and last token of a character span; (0, 0) if the window does not contain all of it."""
        inside = [token_index for token_index, offset in enumerate(self.offsets) if offset is not None]
        starts, ends = (
            {token_index: (self.offsets[token_index] or (0, 0))[end_index] for token_index in inside}
            for end_index in (0, 1)
        )
        if not inside or starts[inside[0]] > start or ends[inside[-1]] < end:
            return 0, 0
        first = max(token_index for token_index in inside if starts[token_index] <= start)
        return first, min(token_index for token_index in inside if ends[token_index] >= end)

    def rank_answers(self, starts: Any, ends: Any, max_tokens: int) -> Iterator[tuple[float, int, int]]:
        """Combine the best start and end tokens to possible answers: score and character span."""
        count = len(self.offsets)
        first_tokens, last_tokens = (
            logits[:count].topk(min(NBEST, count)).indices.tolist() for logits in (starts, ends)
        )
        for first in first_tokens:
            for last in last_tokens:
                start_offset, end_offset = self.offsets[first], self.offsets[last]
                if start_offset is not None and end_offset is not None and first <= last < first + max_tokens:
                    yield float(starts[first] + ends[last]), start_offset[0], end_offset[1]


def make_span_peer(task: Task, rows: TaskRows, folder: Path) -> PeerModel:
    """Make the peer for answer spans in passages."""
    import torch
    from transformers import AutoModelForQuestionAnswering, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    network = AutoModelForQuestionAnswering.from_pretrained(folder)
    settings, passage = task.settings, task.text_b or ""

    def encode(rows: list[Row]) -> list[Window]:
        encodings = tokenizer(
            [row[task.text].lstrip() for row in rows],
            [row[passage] for row in rows],
            truncation="only_second",
            max_length=settings["max_length"],
            stride=settings["stride"],
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
        )
        input_names = [name for name in tokenizer.model_input_names if name in encodings]
        return [
            Window(
                row=rows[row_index],
                row_index=row_index,
                inputs={name: encodings[name][index] for name in input_names},
                offsets=[
                    tuple(offset) if sequence_id == 1 else None
                    for offset, sequence_id in zip(
                        encodings["offset_mapping"][index], encodings.sequence_ids(index), strict=True
                    )
                ],
            )
            for index, row_index in enumerate(encodings["overflow_to_sample_mapping"])
        ]

    def padded(windows: list[Window]) -> dict[str, Any]:
        return dict(tokenizer.pad([window.inputs for window in windows], return_tensors="pt"))

    def answer(windows: list[Window]) -> list[Any]:
        best_answers = [(-torch.inf, "")] * (windows[-1].row_index + 1)
        for chunk in split_chunks(windows):
            outputs = network(**padded(chunk))
            for window, starts, ends in zip(chunk, outputs.start_logits, outputs.end_logits, strict=True):
                for score, start, end in window.rank_answers(starts, ends, settings["max_answer"]):
                    if score > best_answers[window.row_index][0]:
                        best_answers[window.row_index] = score, window.row[passage][start:end]
        return [text for _, text in best_answers]

    train = encode(rows.train)
    token_spans = []
    for window in train:
        answers = window.row[task.label]
        token_spans.append(
            window.find_tokens(answers["answer_start"][0], answers["answer_start"][0] + len(answers["text"][0]))
        )
    labels = torch.tensor(token_spans)  # (windows, 2)

    def batch(window_indices: list[int]) -> dict[str, Any]:
        positions = {"start_positions": labels[window_indices, 0], "end_positions": labels[window_indices, 1]}
        return padded([train[index] for index in window_indices]) | positions

    return PeerModel(network=network, train_size=len(train), make_batch=batch, encode=encode, predict=answer)


def make_choice_peer(task: Task, rows: TaskRows, folder: Path) -> PeerModel:
    """Make the peer for multiple choice, with each option encoded next to the question."""
    import torch
    from transformers import AutoModelForMultipleChoice, AutoTokenizer

    option_count = len(task.options)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    network = AutoModelForMultipleChoice.from_pretrained(folder)

    def encode(rows: list[Row]) -> list[list[Inputs]]:
        questions = [row[task.text] for row in rows for _ in task.options]
        options = [row[option] for row in rows for option in task.options]
        encodings = tokenizer(questions, options, truncation=True, max_length=task.settings["max_length"])
        option_inputs = [{key: encodings[key][index] for key in encodings} for index in range(len(options))]
        return [option_inputs[start : start + option_count] for start in range(0, len(option_inputs), option_count)]

    def padded(row_inputs: list[list[Inputs]]) -> dict[str, Any]:
        flat = tokenizer.pad([option for row in row_inputs for option in row], return_tensors="pt")
        return {key: value.view(len(row_inputs), option_count, -1) for key, value in flat.items()}

    def answer(row_inputs: list[list[Inputs]]) -> list[Any]:
        return [
            str(option_index)
            for chunk in split_chunks(row_inputs)
            for option_index in network(**padded(chunk)).logits.argmax(1).tolist()
        ]

    train_inputs = encode(rows.train)
    labels = torch.tensor(as_numbers(labels_of(task, rows.train), label_names(task, rows)))

    def batch(row_indices: list[int]) -> dict[str, Any]:
        return padded([train_inputs[index] for index in row_indices]) | {"labels": labels[row_indices]}

    return PeerModel(network=network, train_size=len(train_inputs), make_batch=batch, encode=encode, predict=answer)


PEERS: dict[str, Callable[[Task, TaskRows, Path], PeerModel]] = {
    "classify": make_text_peer,
    "pair": make_text_peer,
    "regress": make_text_peer,
    "tag": make_tag_peer,
    "span": make_span_peer,
    "choice": make_choice_peer,
}
