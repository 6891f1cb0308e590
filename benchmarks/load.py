"""Loading a checkpoint: time and peak memory compared with `transformers`, in separate interleaved processes.

    python benchmarks/load.py [--repeat 7]

Folders: the default model, and a BERT-base with random weights, in float32 and bfloat16 (both sides load it as
float32). Time is measured from the call to the loaded model and to the first answer, so that lazy loading hides
nothing; imports are not counted. Memory is the peak growth of the process, mapped pages included, divided by the size
of the weights (transformers does not touch pages before they are used; clearhead checks every weight for NaN). Target:
not slower, and at most 1.25 x the weights to load.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

CHILD = """
import json, sys, time, threading
import psutil, torch
torch.set_num_threads(2)
which, folder, tokens = sys.argv[1], sys.argv[2], sys.argv[3] == "yes"
if which == "clearhead":
    import clearhead, clearhead.api, clearhead.core.build, clearhead.core.runner, clearhead.checkpoint.hub
    import clearhead.text
    import tokenizers, huggingface_hub.constants
else:
    import transformers
    from transformers import AutoModel, AutoTokenizer
    from transformers import BertModel, BertTokenizer
    transformers.utils.logging.disable_progress_bar()
me = psutil.Process()
before, peak, done = me.memory_info().rss, 0, False
def watch():
    global peak
    while not done:
        peak = max(peak, me.memory_info().rss)
        time.sleep(0.001)
watcher = threading.Thread(target=watch)
watcher.start()
start = time.perf_counter()
ids = torch.tensor([[5, 6, 7, 8]])
if which == "clearhead":
    model = clearhead.load(folder, device="cpu")
    loaded, at_load = time.perf_counter(), max(peak, me.memory_info().rss)
    model.run(ids)
else:
    tokenizer = AutoTokenizer.from_pretrained(folder) if tokens else None
    model = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    loaded, at_load = time.perf_counter(), max(peak, me.memory_info().rss)
    with torch.no_grad():
        model(ids)
end = time.perf_counter()
done = True
watcher.join()
peak = max(peak, me.memory_info().rss)
spent = {"load": loaded - start, "answer": end - start}
print(json.dumps(spent | {"memory": at_load - before, "after": peak - before}))
"""


def measure_load(library: str, folder: Path, with_tokenizer: bool) -> dict[str, float]:
    """Load once in a fresh process."""
    command = [sys.executable, "-c", CHILD, library, str(folder), "yes" if with_tokenizer else "no"]
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    process = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return json.loads(process.stdout.splitlines()[-1])  # type: ignore[no-any-return]


def main() -> None:
    """Print a table of ratios."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeat", type=int, default=7)
    repeat = max(parser.parse_args().repeat, 5)
    from safetensors.torch import load_file, save_file

    import clearhead
    from clearhead.checkpoint.hub import locate

    with tempfile.TemporaryDirectory() as temporary:
        float_folder = clearhead.create("bert", "base").save(Path(temporary) / "bert-base")
        bf16_folder = Path(temporary) / "bert-base-bf16"
        shutil.copytree(float_folder, bf16_folder)
        tensors = {name: tensor.bfloat16() for name, tensor in load_file(float_folder / "model.safetensors").items()}
        save_file(tensors, bf16_folder / "model.safetensors", metadata={"format": "pt"})
        folders = {
            "MiniLM with tokenizer": (locate("default").folder, True),
            "BERT-base, random": (float_folder, False),
            "BERT-base in bfloat16": (bf16_folder, False),
        }
        print(f"{'folder':<24}{'':<14}{'load s':>9}{'first answer s':>16}{'load peak':>12}{'first peak':>12}")
        for title, (folder, with_tokenizer) in folders.items():
            weights = (folder / "model.safetensors").stat().st_size * (2 if folder == bf16_folder else 1)  # as float32
            runs: dict[str, list[dict[str, float]]] = {"clearhead": [], "transformers": []}
            for library in runs:
                measure_load(library, folder, with_tokenizer)  # warm the file cache
            for _ in range(repeat):
                for library, results in runs.items():
                    results.append(measure_load(library, folder, with_tokenizer))
            medians = {
                library: {key: statistics.median(run[key] for run in results) for key in results[0]}
                for library, results in runs.items()
            }
            for library, row in medians.items():
                peaks = f"{row['memory'] / weights:>12.2f}{row['after'] / weights:>12.2f}"
                print(f"{title:<24}{library:<14}{row['load']:>9.3f}{row['answer']:>16.3f}{peaks}")
            ours, theirs = medians["clearhead"], medians["transformers"]
            speed = f"{theirs['load'] / ours['load']:>8.2f}x{theirs['answer'] / ours['answer']:>15.2f}x"
            print(f"{title:<24}{'speed-up':<14}{speed}")


if __name__ == "__main__":
    main()
