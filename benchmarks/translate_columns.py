"""What benchmarks/translate.py sets side by side, each in a process of its own: a line of JSON in, a line out.

python benchmarks/translate_columns.py FOLDER COLUMN THREADS
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

from clearhead.deploy.worker import THREAD_VARIABLES, redirect_stdout

Sources = list[list[int]]
Writer = Callable[[Sources, int, int], list[list[int]]]  # sources, beam, new tokens: what was written


def transformers(folder: Path, threads: int) -> Writer:
    """`generate` of the reference."""
    import torch
    from transformers import MarianMTModel

    torch.set_num_threads(threads)
    model = MarianMTModel.from_pretrained(folder).eval()
    pad = model.config.pad_token_id

    def write(sources: Sources, beam: int, tokens: int) -> list[list[int]]:
        longest = max(map(len, sources))
        ids = torch.tensor([[*one, *[pad] * (longest - len(one))] for one in sources])
        with torch.inference_mode():
            made = model.generate(
                input_ids=ids,
                attention_mask=(ids != pad).long(),
                num_beams=beam,
                do_sample=False,
                min_new_tokens=tokens,
                max_new_tokens=tokens,
            )
        return [row[1:] for row in made.tolist()]

    return write


def ctranslate2(compute: str) -> Callable[[Path, int], Writer]:
    """CTranslate2 with matrices of one kind."""

    def load(folder: Path, threads: int) -> Writer:
        import ctranslate2 as ct2

        place = folder / f"ctranslate2-{compute}"
        if not (place / "model.bin").exists():
            _convert(folder, place, compute)
        model = ct2.Translator(str(place), device="cpu", compute_type=compute, inter_threads=1, intra_threads=threads)

        def write(sources: Sources, beam: int, tokens: int) -> list[list[int]]:
            made = model.translate_batch(
                [[str(word) for word in one] for one in sources],
                beam_size=beam,
                min_decoding_length=tokens,
                max_decoding_length=tokens,
                max_batch_size=0,
            )
            return [[int(word) for word in one.hypotheses[0]] for one in made]

        return write

    return load


def _convert(folder: Path, place: Path, compute: str) -> None:
    """The folder's weights as CTranslate2 reads them; its words are their own numbers."""
    from ctranslate2.converters import transformers as converters
    from transformers import MarianMTModel

    model = MarianMTModel.from_pretrained(folder)
    spec: Any = converters.MarianMTLoader().get_model_spec(model)
    words = [str(place) for place in range(model.config.vocab_size - 1)]  # padding, the last one, is no word there
    end = words[model.config.eos_token_id]
    spec.register_source_vocabulary(words)
    spec.register_target_vocabulary(words)
    spec.config.eos_token = spec.config.decoder_start_token = end
    spec.config.unk_token = words[1]
    spec.validate()
    spec.optimize(quantization=compute)
    place.mkdir(parents=True, exist_ok=True)
    spec.save(str(place))


def clearhead(*, small: bool) -> Callable[[Path, int], Writer]:
    """The engine of this project; a drawn model has no rows that int8 could be judged by, so that it has no gate."""

    def load(folder: Path, threads: int) -> Writer:
        from clearhead import load as open_model
        from clearhead.deploy.int8_model import quantize_model
        from clearhead.engine.int8 import Int8Plan

        model = open_model(folder, "engine", threads=threads)
        if small:
            model = quantize_model(model, Int8Plan())

        def write(sources: Sources, beam: int, tokens: int) -> list[list[int]]:
            made = model.generate_ids(sources, num_beams=beam, min_length=tokens, max_length=tokens)
            return [row.tolist() for row in made]

        return write

    return load


COLUMNS: dict[str, tuple[str, Callable[[Path, int], Writer]]] = {
    "transformers": ("transformers", transformers),
    "ctranslate2": ("CTranslate2", ctranslate2("float32")),
    "clearhead": ("clearhead", clearhead(small=False)),
    "ctranslate2-int8": ("CTranslate2 int8", ctranslate2("int8")),
    "clearhead-int8": ("clearhead int8", clearhead(small=True)),
}


def main() -> None:
    """Load one, say so, and write whenever asked."""
    answers = redirect_stdout()
    folder, column, threads = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(threads)) | {"HF_HUB_OFFLINE": "1"})
    write = COLUMNS[column][1](folder, threads)
    print(json.dumps({"loaded": True}), file=answers, flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        begun = perf_counter()
        made = [row for batch in asked["batches"] for row in write(batch, asked["beam"], asked["tokens"])]
        seconds = perf_counter() - begun
        print(json.dumps({"seconds": seconds, "made": made}), file=answers, flush=True)


if __name__ == "__main__":
    main()
