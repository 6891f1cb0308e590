"""The contenders of benchmarks/translate.py, each in its own process that answers lines of JSON.

python benchmarks/translate_contenders.py FOLDER COLUMN THREAD_VARIABLES
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
Generate = Callable[[Sources, int, int], list[list[int]]]  # sources, beam, new tokens: generated ids


def load_transformers(folder: Path, threads: int) -> Generate:
    """Load the reference, which decodes with `generate`."""
    import torch
    from transformers import MarianMTModel

    torch.set_num_threads(threads)
    model = MarianMTModel.from_pretrained(folder).eval()
    pad = model.config.pad_token_id

    def write(sources: Sources, beam: int, tokens: int) -> list[list[int]]:
        longest = max(map(len, sources))
        ids = torch.tensor([[*source, *[pad] * (longest - len(source))] for source in sources])
        with torch.inference_mode():
            generated = model.generate(
                input_ids=ids,
                attention_mask=(ids != pad).long(),
                num_beams=beam,
                do_sample=False,
                min_new_tokens=tokens,
                max_new_tokens=tokens,
            )
        return [row[1:] for row in generated.tolist()]

    return write


def ctranslate2_loader(compute_type: str) -> Callable[[Path, int], Generate]:
    """Make a loader of CTranslate2 with a compute type."""

    def load(folder: Path, threads: int) -> Generate:
        import ctranslate2 as ct2

        model_folder = folder / f"ctranslate2-{compute_type}"
        if not (model_folder / "model.bin").exists():
            _convert(folder, model_folder, compute_type)
        model = ct2.Translator(
            str(model_folder), device="cpu", compute_type=compute_type, inter_threads=1, intra_threads=threads
        )

        def write(sources: Sources, beam: int, tokens: int) -> list[list[int]]:
            results = model.translate_batch(
                [[str(token) for token in source] for source in sources],
                beam_size=beam,
                min_decoding_length=tokens,
                max_decoding_length=tokens,
                max_batch_size=0,
            )
            return [[int(token) for token in source.hypotheses[0]] for source in results]

        return write

    return load


def _convert(folder: Path, model_folder: Path, compute_type: str) -> None:
    """Convert the weights for CTranslate2, with token ids as words."""
    from ctranslate2.converters import transformers as converters
    from transformers import MarianMTModel

    model = MarianMTModel.from_pretrained(folder)
    spec: Any = converters.MarianMTLoader().get_model_spec(model)
    vocabulary = [
        str(model_folder) for model_folder in range(model.config.vocab_size - 1)
    ]  # without padding, the last one
    end = vocabulary[model.config.eos_token_id]
    spec.register_source_vocabulary(vocabulary)
    spec.register_target_vocabulary(vocabulary)
    spec.config.eos_token = spec.config.decoder_start_token = end
    spec.config.unk_token = vocabulary[1]
    spec.validate()
    spec.optimize(quantization=compute_type)
    model_folder.mkdir(parents=True, exist_ok=True)
    spec.save(str(model_folder))


def clearhead_loader(*, int8: bool) -> Callable[[Path, int], Generate]:
    """Make a loader of our engine; int8 without a quality gate, because a random model has no rows to measure."""

    def load(folder: Path, threads: int) -> Generate:
        from clearhead import load as open_model
        from clearhead.deploy.int8_model import quantize_model
        from clearhead.engine.int8 import Int8Plan

        model = open_model(folder, "engine", threads=threads)
        if int8:
            model = quantize_model(model, Int8Plan())

        def write(sources: Sources, beam: int, tokens: int) -> list[list[int]]:
            generated = model.generate_ids(sources, num_beams=beam, min_length=tokens, max_length=tokens)
            return [row.tolist() for row in generated]

        return write

    return load


CONTENDERS: dict[str, tuple[str, Callable[[Path, int], Generate]]] = {
    "transformers": ("transformers", load_transformers),
    "ctranslate2": ("CTranslate2", ctranslate2_loader("float32")),
    "clearhead": ("clearhead", clearhead_loader(int8=False)),
    "ctranslate2-int8": ("CTranslate2 int8", ctranslate2_loader("int8")),
    "clearhead-int8": ("clearhead int8", clearhead_loader(int8=True)),
}


def main() -> None:
    """Load a contender, confirm it, and decode on request."""
    replies = redirect_stdout()
    folder, contender, threads = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(threads)) | {"HF_HUB_OFFLINE": "1"})
    write = CONTENDERS[contender][1](folder, threads)
    print(json.dumps({"loaded": True}), file=replies, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        start = perf_counter()
        rows = [row for batch in request["batches"] for row in write(batch, request["beam"], request["tokens"])]
        seconds = perf_counter() - start
        print(json.dumps({"seconds": seconds, "made": rows}), file=replies, flush=True)


if __name__ == "__main__":
    main()
