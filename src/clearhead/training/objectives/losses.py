"""Losses: one number per row, so that accumulated parts weigh every row alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.tasks.encoded import Part

Objective = Callable[[Tensor, Tensor, float], Tensor]


def cross_entropy(logits: Tensor, targets: Tensor, smoothing: float = 0.0) -> Tensor:
    """-log p(target), softened by smoothing: (rows,)."""
    return F.cross_entropy(logits, targets.long(), reduction="none", label_smoothing=smoothing)


def binary(logits: Tensor, targets: Tensor, smoothing: float = 0.0) -> Tensor:
    """The mean over labels of each label's own yes-or-no loss: (rows,)."""
    goal = targets.to(logits.dtype)
    goal = goal * (1 - smoothing) + smoothing / 2
    return F.binary_cross_entropy_with_logits(logits, goal, reduction="none").mean(-1)


def squared(logits: Tensor, targets: Tensor, smoothing: float = 0.0) -> Tensor:
    """(answer - target)^2: (rows,)."""
    return (logits.squeeze(-1) - targets.to(logits.dtype)).square()


OBJECTIVES: dict[str, Objective] = {"cross_entropy": cross_entropy, "binary": binary, "squared": squared}
Marks = Mapping[str, Tensor]


def row_losses(objective: str, logits: Tensor, part: Part, smoothing: float) -> Tensor:
    """The loss of each row of a batch, whatever the network answers for: windows, tokens or options."""
    device = logits.device
    marks = {name: torch.as_tensor(array, device=device) for name, array in part.marks.items()}
    owners = torch.as_tensor(part.owners, device=device)
    if objective in TOKEN_LOSSES:
        targets = part.targets.values if objective == "tags" else part.targets if objective == "options" else None
        right = None if targets is None else torch.as_tensor(targets, device=device)
        return TOKEN_LOSSES[objective](logits, right, owners, marks, part, smoothing)
    pooled = pool_windows(logits, owners, part.rows)
    return OBJECTIVES[objective](pooled, torch.as_tensor(part.targets, device=device), smoothing)


def tags(
    logits: Tensor,
    targets: Tensor,
    owners: Tensor,
    marks: Marks,
    part: Part,
    smoothing: float,
) -> Tensor:
    """The mean over a row's words of -log p(tag): (rows,)."""
    losses = cross_entropy(logits[marks["reads"]], targets[marks["known"]], smoothing)
    return _row_means(losses, marks["readers"], part.rows)


def answers(
    logits: Tensor,
    targets: None,
    owners: Tensor,
    marks: Marks,
    part: Part,
    smoothing: float,
) -> Tensor:
    """The mean over a row's windows of -log p(first token) - log p(last token), by two: (rows,)."""
    lengths = torch.as_tensor(part.lengths, device=logits.device)
    places = torch.arange(int(lengths.max()), device=logits.device)[None]
    present = places < lengths[:, None]
    table = logits.new_full((*present.shape, 2), -torch.inf)
    table[present] = logits
    may = (places >= marks["first"][:, None]) & (places < marks["last"][:, None])
    may |= places == 0  # [CLS]: not in this window
    table = table.masked_fill(~may[..., None], -torch.inf).transpose(1, 2)  # (windows, 2, length)
    losses = -torch.log_softmax(table, -1).gather(2, marks["right"][..., None])[..., 0].mean(1)
    return _row_means(losses, owners, part.rows)


def options(
    logits: Tensor,
    targets: Tensor,
    owners: Tensor,
    marks: Marks,
    part: Part,
    smoothing: float,
) -> Tensor:
    """-log p(right option), where p is a softmax over the options of each row, however many it has: (rows,)."""
    scores = _row_means(logits[:, 0], marks["options"], len(marks["option_rows"]))
    rows = marks["option_rows"]
    counts = torch.bincount(rows, minlength=part.rows)
    place = torch.arange(len(rows), device=logits.device) - (counts.cumsum(0) - counts)[rows]
    table = scores.new_full((part.rows, int(counts.max())), -torch.inf).index_put((rows, place), scores)
    logs = torch.log_softmax(table, -1)
    right = -logs.gather(1, targets.long()[:, None])[:, 0]
    if not smoothing:
        return right
    even = -logs.masked_fill(torch.isinf(table), 0).sum(1) / counts
    return (1 - smoothing) * right + smoothing * even


def words(
    logits: Tensor,
    targets: None,
    owners: Tensor,
    marks: Marks,
    part: Part,
    smoothing: float,
) -> Tensor:
    """The mean over a row's words of -log p(word), each given the right words before it: (rows,)."""
    return _row_means(cross_entropy(logits, marks["words"], smoothing), marks["word_rows"], part.rows)


def next_words(hidden: Tensor, table: Tensor, part: Part) -> Tensor:
    """The mean over a row's tokens of -log p(token), each given those before it, by the word table: (rows,)."""
    device = hidden.device
    ids, lengths = (torch.as_tensor(array, device=device) for array in (part.ids, part.lengths))
    known = torch.ones(len(ids), dtype=torch.bool, device=device)
    known[lengths.cumsum(0) - lengths] = False  # nothing comes before a first token
    owners = torch.as_tensor(part.owners, device=device).repeat_interleave(lengths)
    before = known.roll(-1)
    losses = F.cross_entropy(F.linear(hidden[before], table).float(), ids[known], reduction="none")
    return _row_means(losses, owners[known], part.rows)


TOKEN_LOSSES: dict[str, Callable[..., Tensor]] = {"tags": tags, "answers": answers, "options": options, "words": words}


def _row_means(values: Tensor, owners: Tensor, rows: int) -> Tensor:
    """The mean of what each row owns; 0 where it owns nothing."""
    total = values.new_zeros(rows).index_add(0, owners, values)
    counts = values.new_zeros(rows).index_add(0, owners, torch.ones_like(values))
    return total / counts.clamp(min=1)


def pool_windows(logits: Tensor, owners: Tensor, rows: int) -> Tensor:
    """The mean of each row's windows: (windows, outputs) to (rows, outputs)."""
    if len(logits) == rows:
        return logits
    counts = torch.zeros(rows, dtype=logits.dtype, device=logits.device)
    counts = counts.index_add(0, owners, torch.ones_like(owners, dtype=logits.dtype))
    total = logits.new_zeros((rows, logits.shape[1])).index_add(0, owners, logits)
    return total / counts[:, None]
