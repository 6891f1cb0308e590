"""Other machines and other luck for the whole suite: an emulated CPU, and the seed and precision of training.

What a network learns depends a little on its seed, on the precision and on the number of threads, and all of them
differ between machines. A test that compares numbers fixes them. A test that only asserts that something was learned
must have a margin that holds for each of them. These environment variables show that both is true:

- `CLEARHEAD_TEST_CPU=avx2` restricts torch, oneDNN, MKL, OpenBLAS and numpy to AVX2; `avx512-bf16` leaves them alone
  and lets training compute in bfloat16 unless a test fixes the precision, as if that were the default.
- `CLEARHEAD_TEST_PRECISION=bf16` does the latter on any CPU.
- `CLEARHEAD_TEST_SEED=3` changes the seed of every run that does not set one.
- `OMP_NUM_THREADS=2` changes the number of threads.
- `CLEARHEAD_TEST_EXAMPLES=1` draws all random examples instead of a fifth.

`make test CPU=avx2` sets the first one; `tests/margins.py` (`make margins`) tries seeds, precisions and threads.
"""

from __future__ import annotations

import os
from pathlib import Path

THREADS = int(os.environ.get("OMP_NUM_THREADS", "1"))  # of runs whose results a test does not compare with numbers
EXAMPLES = float(os.environ.get("CLEARHEAD_TEST_EXAMPLES", "0.2"))  # of the random examples that tests ask for
IS_VARIED = {"precision": True}  # False in tests of the default itself: the fixture `default_precision`
CPUINFO = Path("/proc/cpuinfo")
NUMPY_FEATURES = {"avx512f": "X86_V4", "avx512_vbmi2": "AVX512_ICL", "avx512_fp16": "AVX512_SPR"}  # numpy's names
CPUS = {
    "avx2": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "OPENBLAS_CORETYPE": "Haswell",
    },
    "avx512-bf16": {},
}


def scaled(examples: int) -> int:
    """How many random examples a test draws: a fifth in `make test`, all of them in `make test-slow`."""
    return max(min(examples, 5), round(examples * EXAMPLES))


def emulate_cpu() -> None:
    """Restrict the libraries to the instructions of another CPU; before any of them is imported."""
    name = os.environ.get("CLEARHEAD_TEST_CPU")
    if not name:
        return
    if name not in CPUS:
        raise SystemExit(f"CLEARHEAD_TEST_CPU must be one of {', '.join(CPUS)}, got {name}.")
    os.environ.update(CPUS[name])
    if name == "avx2" and CPUINFO.exists():  # numpy warns about features that the CPU does not have
        flags = set(CPUINFO.read_text().split())
        features = [feature for flag, feature in NUMPY_FEATURES.items() if flag in flags]
        os.environ["NPY_DISABLE_CPU_FEATURES"] = " ".join(features)
    if name == "avx512-bf16":
        os.environ.setdefault("CLEARHEAD_TEST_PRECISION", "bf16")


def vary_training() -> None:
    """Give runs that leave them open another seed and another precision."""
    seed, varied_precision = os.environ.get("CLEARHEAD_TEST_SEED"), os.environ.get("CLEARHEAD_TEST_PRECISION")
    if seed:
        from clearhead.training.settings import TrainSettings

        (TrainSettings.__init__.__kwdefaults__ or {})["seed"] = int(seed)
    if varied_precision:
        from clearhead.training import precision as module

        resolve = module.resolve_precision

        def resolve_varied(precision: str, device: str) -> str:
            is_open = precision == "auto" and IS_VARIED["precision"]
            return resolve(varied_precision if is_open else precision, device)

        module.resolve_precision = resolve_varied
