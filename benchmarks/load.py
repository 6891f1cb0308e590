"""Loading a checkpoint: time and peak memory beside `transformers`, each in a process of its own, interleaved.

    python benchmarks/load.py [--repeat 7]

Folders: the default model, and a BERT-base of random weights made for this run, in float32 and bfloat16 (both sides
load it as float32). Time runs from the call to the loaded
model and to the first answer, so that lazy loading hides nothing; imports are not counted. Memory is the growth of the
process at its peak, mapped pages included, divided by the size of the weights (transformers leaves pages untouched
until they are used; here every weight is looked at once, to refuse NaN). The promise: no slower, and at most 1.25 x the
weights to load.
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


def once(which: str, folder: Path, tokens: bool) -> dict[str, float]:
    """One load in a fresh process."""
    command = [sys.executable, "-c", CHILD, which, str(folder), "yes" if tokens else "no"]
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return json.loads(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]


def main() -> None:
    """Print a table of ratios."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeat", type=int, default=7)
    repeat = max(parser.parse_args().repeat, 5)
    from safetensors.torch import load_file, save_file

    import clearhead
    from clearhead.checkpoint.hub import locate

    with tempfile.TemporaryDirectory() as made:
        large = clearhead.create("bert", "base").save(Path(made) / "bert-base")
        half = Path(made) / "bert-base-bf16"
        shutil.copytree(large, half)
        tensors = {name: tensor.bfloat16() for name, tensor in load_file(large / "model.safetensors").items()}
        save_file(tensors, half / "model.safetensors", metadata={"format": "pt"})
        folders = {
            "MiniLM with tokenizer": (locate("default").folder, True),
            "BERT-base, random": (large, False),
            "BERT-base in bfloat16": (half, False),
        }
        print(f"{'folder':<24}{'':<14}{'load s':>9}{'first answer s':>16}{'load peak':>12}{'first peak':>12}")
        for title, (folder, tokens) in folders.items():
            weights = (folder / "model.safetensors").stat().st_size * (2 if folder == half else 1)  # as float32
            runs: dict[str, list[dict[str, float]]] = {"clearhead": [], "transformers": []}
            for which in runs:
                once(which, folder, tokens)  # the files come into the cache
            for _ in range(repeat):
                for which, results in runs.items():
                    results.append(once(which, folder, tokens))
            median = {
                which: {key: statistics.median(run[key] for run in results) for key in results[0]}
                for which, results in runs.items()
            }
            for which, row in median.items():
                peaks = f"{row['memory'] / weights:>12.2f}{row['after'] / weights:>12.2f}"
                print(f"{title:<24}{which:<14}{row['load']:>9.3f}{row['answer']:>16.3f}{peaks}")
            ours, theirs = median["clearhead"], median["transformers"]
            speed = f"{theirs['load'] / ours['load']:>8.2f}x{theirs['answer'] / ours['answer']:>15.2f}x"
            print(f"{title:<24}{'speed-up':<14}{speed}")


if __name__ == "__main__":
    main()
