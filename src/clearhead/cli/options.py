"""Options that commands share: the same flag, group in --help and sentence wherever they appear."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Group, Parameter

ARGUMENTS = Group("Arguments", sort_key=0)
DATA = Group("Data", sort_key=1)
MODEL = Group("Model", sort_key=2)
TRAINING = Group("Training", sort_key=3)
DECODING = Group("Decoding", sort_key=4)
FIGURE = Group("Figure", sort_key=5)
MEASUREMENT = Group("Measurement", sort_key=6)
OUTPUT = Group("Output", sort_key=9)

# an argument that may be "-" for standard input
StreamArgument = Annotated[str, Parameter(allow_leading_hyphen=True)]

TextColumn = Annotated[
    str | None,
    Parameter(name="--text", metavar="COLUMN", group=DATA, help="Column with the text (default: detected)."),
]
TrainedTextColumn = Annotated[
    str | None,
    Parameter(
        name="--text", metavar="COLUMN", group=DATA, help="Column with the text (default: as in training, or detected)."
    ),
]
TextColumns = Annotated[
    str | None,
    Parameter(name="--text", metavar="COLUMN", group=DATA, help="Columns with text in tables, separated by commas."),
]
SecondTextColumn = Annotated[
    str | None,
    Parameter(
        name="--text-b",
        metavar="COLUMN",
        group=DATA,
        help="Column with the second text of a pair or the passage of a question.",
    ),
]
LabelColumn = Annotated[
    str | None,
    Parameter(
        name="--label",
        metavar="COLUMN",
        group=DATA,
        help="Column with the label: class, number, tags, spans, answers or correct option.",
    ),
]
OptionColumns = Annotated[
    str | None,
    Parameter(
        name="--options",
        metavar="COLUMNS",
        group=DATA,
        help="Columns with the options of a question, separated by commas, or one column with all of them.",
    ),
]
IdColumn = Annotated[
    str | None,
    Parameter(
        name="--id",
        metavar="COLUMN",
        group=DATA,
        help="Column of group ids; rows with the same id stay in the same split.",
    ),
]
SplitColumn = Annotated[
    str | None, Parameter(name="--split", metavar="COLUMN", group=DATA, help="Column that contains train, dev or test.")
]
SourceColumn = Annotated[
    str | None,
    Parameter(name="--source", metavar="COLUMN", group=DATA, help="Translation: column with the source text."),
]
TargetColumn = Annotated[
    str | None,
    Parameter(
        name="--target", metavar="COLUMN", group=DATA, help="Translation: column with the reference translation."
    ),
]
InputFormat = Annotated[
    str | None,
    Parameter(
        name="--input-format",
        group=DATA,
        help="csv, tsv, jsonl or text; needed only if neither file name nor header shows it. "
        "Standard input is read as one text per line.",
    ),
]
Encoding = Annotated[
    str | None, Parameter(name="--encoding", group=DATA, help="Encoding of the files (default: detected).")
]
SkipBadRows = Annotated[
    bool, Parameter(name="--skip-bad-rows", group=DATA, help="Skip rows that cannot be used, and count them.")
]
Precision = Annotated[
    str | None,
    Parameter(
        name="--precision",
        group=MODEL,
        help="float or int8 (default: int8 if clearhead quantize accepted it for this folder, otherwise float).",
    ),
]
AbstainBelow = Annotated[
    float | None,
    Parameter(
        name="--abstain-below", group=MODEL, help="Abstain if the probability of the answer is below this value."
    ),
]
LearningRate = Annotated[
    float | None,
    Parameter(name="--learning-rate", group=TRAINING, help="Peak learning rate (default: chosen from the model size)."),
]
Seed = Annotated[int | None, Parameter(name="--seed", group=TRAINING, help="Random seed.")]
Device = Annotated[str | None, Parameter(name="--device", group=TRAINING, help="auto (default), cpu or cuda.")]
Threads = Annotated[
    int | None,
    Parameter(name="--threads", group=TRAINING, help="Number of CPU threads (default: as many as the model can use)."),
]
ExtraSettings = Annotated[
    list[str] | None,
    Parameter(
        name="--set",
        metavar="KEY=VALUE",
        group=TRAINING,
        help="Any other setting as KEY=VALUE, e.g. --set layer_decay=0.9; repeatable.",
    ),
]
Resume = Annotated[
    Path | None,
    Parameter(name="--resume", metavar="RUN", group=TRAINING, help="Folder of an interrupted run to continue."),
]
AllowDifferentCpu = Annotated[
    bool,
    Parameter(
        name="--allow-different-cpu",
        group=TRAINING,
        help="Resume even if CPU, precision, threads or torch version differ; the last digits may change.",
    ),
]
KeepState = Annotated[
    bool,
    Parameter(name="--keep-state", group=TRAINING, help="Keep the optimizer state in the folder of the finished run."),
]
NumBeams = Annotated[
    int | None, Parameter(name="--num-beams", group=DECODING, help="Beams of the search; 1 is greedy search.")
]
OutputFile = Annotated[Path | None, Parameter(name=("--output", "-o"), group=OUTPUT)]
Json = Annotated[bool, Parameter(name="--json", negative=(), group=OUTPUT, help="Print one JSON object.")]
Quiet = Annotated[bool, Parameter(name="--quiet", negative=(), group=OUTPUT, help="Print only results and errors.")]
