"""clearhead explain: attention, alignments and decoding steps."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter

from clearhead.cli.loading import download_bars
from clearhead.cli.options import DECODING, FIGURE, Json, NumBeams, OutputFile, Quiet
from clearhead.cli.screen import collect_truncations, model_notes, print_json, print_note, print_table, progress
from clearhead.errors import InputError

View = Literal["attention", "alignment", "beams", "steps", "positions"]
OF_FIGURE = Parameter(group=FIGURE)
OF_DECODING = Parameter(group=DECODING)


def explain(
    model: str,
    text: str | None = None,
    second: str | None = None,
    /,
    *,
    show: Annotated[View | None, OF_FIGURE] = None,
    layer: Annotated[int | None, OF_FIGURE] = None,
    head: Annotated[int | None, OF_FIGURE] = None,
    word: Annotated[str | None, OF_FIGURE] = None,
    part: Annotated[str | None, OF_FIGURE] = None,
    special: Annotated[bool, OF_FIGURE] = False,
    all_words: Annotated[bool, OF_FIGURE] = False,
    words: Annotated[bool, OF_FIGURE] = False,
    target: Annotated[str | None, OF_DECODING] = None,
    num_beams: Annotated[NumBeams, Parameter(help="Beams of the search (default: 4; 1 for --show steps).")] = None,
    top: Annotated[int | None, OF_DECODING] = None,
    max_length: Annotated[int | None, OF_DECODING] = None,
    output: OutputFile = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Draw attention, alignments and decoding steps of a model.

    Parameters
    ----------
    model
        A model folder, a hub id or an alias such as `default`.
    text
        The text; not needed for --show positions.
    second
        A second text, for pairs.
    show
        attention: which tokens attend to which. alignment: which source words each target word attends to. beams: the
        tree of beam search. steps: the most likely tokens at each step. positions: the position embeddings. Default:
        alignment for models with a decoder, attention for others.
    layer
        Layer of an .svg or .png figure, from 0.
    head
        Head (default: all heads, or their mean).
    word
        Show only the attention of this word (default: the most informative word).
    part
        encoder, decoder or cross attention (default: all).
    special
        Show special tokens such as [CLS] and [SEP], which are hidden by default.
    all_words
        Show the attention of all words.
    words
        Merge the tokens of a word in an alignment.
    target
        Output text of a model with a decoder (default: the model generates it).
    top
        Candidates shown at each step (default: 5).
    max_length
        Maximum number of generated tokens (default: 128; 20 for causal models).
    output
        Write a figure (.svg, .png), an interactive page (.html) or the numbers (.json).
    """
    from clearhead import api

    if output is None and not json and show == "positions":
        raise InputError("--show positions needs a file for its figure; name one with -o, such as positions.svg.")
    silent = quiet or json
    with (
        model_notes(quiet=silent),
        download_bars(quiet=silent) as bars,
        progress("computing", quiet=silent),
        collect_truncations() as truncations,
    ):
        explanation = api.explain(
            model,
            text,
            second,
            output=output,
            show=show,
            target=target,
            layer=layer,
            head=head,
            word=word,
            part=part,
            special=special,
            all_words=all_words,
            words=words,
            num_beams=num_beams,
            top=top,
            max_length=max_length,
            download=bars,
        )
    for line in truncations:
        print_note(line, quiet=silent)
    if json:
        print_json(explanation.to_json() if output is None else {"output": str(output), **explanation.facts})
    elif output is not None:
        print_note(f"{explanation.summary}: {output}", quiet=quiet)
    elif explanation.table is not None:
        print_table(*explanation.table())
