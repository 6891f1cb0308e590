"""The tree of a beam search: the hypotheses of each step and the path of the answer."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from clearhead.decode import BeamStep, Hypothesis
from clearhead.deprecation import renamed_fields, renamed_parameters
from clearhead.errors import InputError
from clearhead.explain.figure import Table
from clearhead.explain.svg import escape_invisible
from clearhead.explain.tokens import Token, describe_opening, label_token_ids, require_text
from clearhead.html import short_repr
from clearhead.model.generation import TextGenerator

if TYPE_CHECKING:
    from clearhead.model import Model


@renamed_fields(won="in_answer", kept="is_continued", finished="finished_score")
@dataclass(frozen=True, kw_only=True)
class BeamNode:
    """A hypothesis of the search after one step."""

    parent: int  # node index; -1: none
    step: int  # from 1
    group: int
    id: int
    token: Token
    score: float  # sum of log probabilities
    probability: float  # of this token, including penalties
    finished_score: float | None  # normalized score, if the hypothesis ended here
    is_continued: bool  # whether it stayed in the beam
    in_answer: bool  # whether it is on the path of the answer


@renamed_fields(beam="num_beams", said="path_to")
@dataclass(frozen=True, kw_only=True)
class BeamTree:
    """All hypotheses of a beam search over one text."""

    source: str
    num_beams: int
    opening: str  # text before the first token
    nodes: list[BeamNode]
    hypotheses: list[Hypothesis]  # finished, best first

    @property
    def answers(self) -> list[tuple[str, float, str]]:
        """The text, score and stop reason of each answer."""
        return [(hypothesis.text, hypothesis.score, hypothesis.stopped) for hypothesis in self.hypotheses]

    @property
    def steps(self) -> int:
        """The number of tokens of the longest hypothesis."""
        return max((node.step for node in self.nodes), default=0)

    def path_to(self, number: int) -> list[BeamNode]:
        """Return the nodes of a hypothesis from the first to node `number`."""
        path: list[BeamNode] = []
        while number >= 0:
            path.append(self.nodes[number])
            number = self.nodes[number].parent
        return path[::-1]

    def __repr__(self) -> str:
        best = repr(self.hypotheses[0].text) if self.hypotheses else "no answer"
        return short_repr("BeamTree", f"beam {self.num_beams}", f"{len(self.nodes)} hypotheses", best)

    def table(self) -> Table:
        """Return columns and rows: the answers with their scores."""
        rows = [
            (str(rank), escape_invisible(text), f"{score:.3f}", reason)
            for rank, (text, score, reason) in enumerate(self.answers, 1)
        ]
        return ("", "answer", "score", "stopped by"), rows

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        nodes = [
            {
                "number": number,
                "parent": None if node.parent < 0 else node.parent,
                "step": node.step,
                "group": node.group,
                "id": node.id,
                "token": node.token.raw,
                "score": round(node.score, 5),
                "probability": round(node.probability, 5),
                "kept": node.is_continued,
                "won": node.in_answer,
                "finished": None if node.finished_score is None else round(node.finished_score, 5),
            }
            for number, node in enumerate(self.nodes)
        ]
        answers = [{"text": text, "score": round(score, 5), "stopped": reason} for text, score, reason in self.answers]
        return {"source": self.source, "beam": self.num_beams, "answers": answers, "nodes": nodes}


@renamed_parameters(beam="num_beams")
def beam_tree(model: Model, text: str, *, num_beams: int = 4, **choices: Any) -> BeamTree:
    """Run a beam search on one text and record every step; `choices` are fields of `clearhead.decode.Decoding`."""
    require_text(text)
    generator = TextGenerator(model, num_beams=num_beams, **({"num_return_sequences": num_beams} | choices))
    if num_beams < 2:
        raise InputError(
            "num_beams must be at least 2 to draw a tree, got 1; for greedy decoding, use decoding_steps()."
        )
    nodes_so_far: list[dict[str, Any]] = []
    beams: dict[int, list[int]] = {}  # of each group: node indices of the beam, in search order

    def record_step(step: BeamStep) -> None:
        previous_beam = beams.get(step.group, [-1])
        node_indices = {}
        for rank in sorted({*step.finished, *step.continued}):
            parent, score = previous_beam[step.parents[rank]], step.scores[rank]
            node_indices[rank] = len(nodes_so_far)
            nodes_so_far.append(
                {
                    "parent": parent,
                    "step": step.length + 1,
                    "group": step.group,
                    "id": step.token_ids[rank],
                    "score": score,
                    "probability": math.exp(score - (nodes_so_far[parent]["score"] if parent >= 0 else 0.0)),
                    "finished_score": step.finished.get(rank),
                    "is_continued": rank in step.continued,
                }
            )
        beams[step.group] = [node_indices[rank] for rank in step.continued]

    hypotheses = generator.generate_hypotheses(text, record_step)
    if not hypotheses:
        raise InputError("The text has no tokens to decode.")
    tokens = label_token_ids(model, [node["id"] for node in nodes_so_far])
    nodes = [BeamNode(**node, token=tokens[node["id"]], in_answer=False) for node in nodes_so_far]
    tree = BeamTree(
        source=text, num_beams=num_beams, opening=describe_opening(model, text), nodes=nodes, hypotheses=hypotheses
    )
    return replace(tree, nodes=_mark_answer(tree, generator.new_ids(hypotheses[0])))


def _mark_answer(tree: BeamTree, ids: list[int]) -> list[BeamNode]:
    """Mark the nodes on the path of the answer."""
    path: set[int] = set()
    for last, node in enumerate(tree.nodes):
        if (
            node.step == len(ids)
            and node.finished_score is not None
            and [step.id for step in tree.path_to(last)] == ids
        ):
            number = last
            while number >= 0:
                path.add(number)
                number = tree.nodes[number].parent
            break
    return [replace(node, in_answer=number in path) for number, node in enumerate(tree.nodes)]
