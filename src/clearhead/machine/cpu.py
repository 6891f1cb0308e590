"""The machine that a run computes on: what its last bits depend on beside its data, settings and seed."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from clearhead.files import to_printable

CPU_INFO = Path("/proc/cpuinfo")
LIMIT_VARIABLES = (
    "ATEN_CPU_CAPABILITY",
    "ONEDNN_MAX_CPU_ISA",
    "DNNL_MAX_CPU_ISA",
    "MKL_ENABLE_INSTRUCTIONS",
    "MKL_CBWR",
)
MAX_VALUE_LENGTH = 200  # letters of a value in a message
TITLES = {  # what must be the same for the same bits, as people call it
    "precision": "precision",
    "threads": "threads",
    "device": "device",
    "architecture": "architecture",
    "vendor": "CPU vendor",
    "instructions": "instruction set",
    "extensions": "CPU extensions",
    "limits": "limits of instructions",
    "libraries": "libraries",
}


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Precision, threads, CPU and libraries of a run, resolved once at its beginning."""

    precision: str = "float"  # float, bf16 or int8; "": as the model folder has it
    threads: int | None = None  # None: nothing that is threaded computes
    device: str = "cpu"
    architecture: str = ""  # x86_64, arm64
    vendor: str = ""  # of the CPU: libraries choose their code by it
    cpu: str = ""  # its name, for people alone
    instructions: str = ""  # the widest vectors in use: DEFAULT, AVX2, AVX512
    extensions: list[str] = field(default_factory=list)  # for matrices: avx512_vnni, avx512_bf16, amx_bf16
    limits: dict[str, str] = field(default_factory=dict)  # environment variables that forbid instructions
    libraries: dict[str, str] = field(default_factory=dict)  # those that compute, with their versions

    def lines(self) -> dict[str, str]:
        """What a report shows."""
        made = {
            "precision": self.precision,
            "threads": "" if self.threads is None else str(self.threads),
            "device": self.device,
            "CPU": " ".join(part for part in (self.cpu or self.vendor, f"({self.architecture})") if part != "()"),
            "instruction set": " + ".join((self.instructions, *self.extensions)),
            "limits of instructions": _format_value(self.limits) if self.limits else "",
            "libraries": ", ".join(f"{name} {version}" for name, version in self.libraries.items()),
        }
        return {name: value for name, value in made.items() if value}

    def sentence(self) -> str:
        """The same for a model card."""
        lines = self.lines()
        threads = f" on {self.threads} {'thread' if self.threads == 1 else 'threads'}" if self.threads else ""
        libraries = f" with {lines['libraries']}" if "libraries" in lines else ""
        limits = f"; {lines['limits of instructions']}" if self.limits else ""
        place = self.device if self.device != "cpu" else f"{lines['CPU']}, {lines['instruction set']}"
        return f"Computed in {self.precision}{threads}{libraries} ({place}{limits})."


def base_machine() -> Machine:
    """This machine where neither torch nor onnxruntime computes: no promise of bits depends on its instructions."""
    cpu, vendor = _read_cpu()
    limits = {name: os.environ[name] for name in LIMIT_VARIABLES if os.environ.get(name)}
    return Machine(
        architecture=platform.machine(), vendor=vendor, cpu=cpu, instructions=_detect_instructions(), limits=limits
    )


def list_differences(before: Machine, now: Machine) -> list[str]:
    """What differs of that which bits depend on, as far as it is known of both, each with its two values."""
    found: list[str] = []
    if not (before.libraries and now.libraries):  # nothing that chooses its code by the CPU computes
        return found
    for name in TITLES:
        old, new = getattr(before, name), getattr(now, name)
        if old != new and not {None, ""} & {_is_set(old), _is_set(new)}:
            old_text, new_text = (to_printable(_format_value(setting), MAX_VALUE_LENGTH) for setting in (old, new))
            found.append(f"{TITLES[name]} {old_text}, here {new_text}")
    return found


def _is_set(value: Any) -> Any:
    return value if value is None or isinstance(value, str) else True


def _format_value(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}={inner}" for key, inner in value.items()) or "none"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None or value == "" else str(value)


def _read_cpu() -> tuple[str, str]:
    """The name and the vendor of the CPU, as far as the system tells."""
    try:
        text = CPU_INFO.read_text(encoding="utf-8", errors="replace").split("\n\n", 1)[0]
    except OSError:
        return platform.processor(), ""
    pairs = (line.partition(":") for line in text.splitlines())
    known = {key.strip(): value.strip() for key, _, value in pairs}
    return known.get("model name") or platform.processor(), known.get("vendor_id") or known.get("CPU implementer", "")


def _detect_instructions() -> str:
    """The widest vectors that numpy finds."""
    import numpy as np

    config: Any = np.show_config(mode="dicts")
    simd = config.get("SIMD Extensions", {}) if isinstance(config, dict) else {}
    names = {*simd.get("baseline", ()), *simd.get("found", ())}
    wide = any(name.startswith(("AVX512", "X86_V4")) for name in names)
    return "AVX512" if wide else "AVX2" if {"AVX2", "X86_V3"} & names else "DEFAULT"


ENGINE_PACKAGE = "onnxruntime"
PACKAGES = ("clearhead", "torch", "tokenizers", "numpy", "scikit-learn", ENGINE_PACKAGE)


def library_versions() -> dict[str, str]:
    """The versions that made a model."""
    made = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            made[name] = version(name)
        except PackageNotFoundError:
            continue
    return made


def engine_versions() -> dict[str, str]:
    """The version of the engine, where it is installed."""
    return {name: value for name, value in library_versions().items() if name == ENGINE_PACKAGE}
