"""Describe the machine of a run: what bit-exact results depend on besides data, settings and seed."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass, field
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
MAX_VALUE_LENGTH = 200  # characters of a value in a message
TITLES = {  # field that bit-exact results depend on -> its name in messages
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
    """Precision, threads, CPU and libraries of a run, resolved once at its start."""

    precision: str = "float"  # float, bf16 or int8; "": that of the model folder
    threads: int | None = None  # None: no multithreaded computation
    device: str = "cpu"
    architecture: str = ""  # x86_64, arm64
    vendor: str = ""  # CPU vendor, which libraries select code by
    cpu: str = ""  # CPU name, for display only
    instructions: str = ""  # widest vector instructions in use: DEFAULT, AVX2, AVX512
    extensions: list[str] = field(default_factory=list)  # matrix extensions: avx512_vnni, avx512_bf16, amx_bf16
    limits: dict[str, str] = field(default_factory=dict)  # environment variables that restrict instructions
    libraries: dict[str, str] = field(default_factory=dict)  # compute libraries and their versions

    def lines(self) -> dict[str, str]:
        """Return names and values for a report."""
        lines = {
            "precision": self.precision,
            "threads": "" if self.threads is None else str(self.threads),
            "device": self.device,
            "CPU": " ".join(part for part in (self.cpu or self.vendor, f"({self.architecture})") if part != "()"),
            "instruction set": " + ".join((self.instructions, *self.extensions)),
            "limits of instructions": _format_value(self.limits) if self.limits else "",
            "libraries": ", ".join(f"{name} {version}" for name, version in self.libraries.items()),
        }
        return {name: value for name, value in lines.items() if value}

    def sentence(self) -> str:
        """Describe the machine in one sentence for a model card."""
        lines = self.lines()
        threads = f" on {self.threads} {'thread' if self.threads == 1 else 'threads'}" if self.threads else ""
        libraries = f" with {lines['libraries']}" if "libraries" in lines else ""
        limits = f"; {lines['limits of instructions']}" if self.limits else ""
        hardware = self.device if self.device != "cpu" else f"{lines['CPU']}, {lines['instruction set']}"
        return f"Computed in {self.precision}{threads}{libraries} ({hardware}{limits})."


def base_machine() -> Machine:
    """Describe this machine without torch and onnxruntime, whose code depends on CPU instructions."""
    cpu, vendor = _read_cpu()
    limits = {name: os.environ[name] for name in LIMIT_VARIABLES if os.environ.get(name)}
    return Machine(
        architecture=platform.machine(), vendor=vendor, cpu=cpu, instructions=_detect_instructions(), limits=limits
    )


def list_differences(before: Machine, now: Machine) -> list[str]:
    """Describe each difference that affects bit-exact results, if both values are known."""
    differences: list[str] = []
    if not (before.libraries and now.libraries):  # no library that selects code by CPU
        return differences
    for name in TITLES:
        old, new = getattr(before, name), getattr(now, name)
        if old != new and not {None, ""} & {_is_set(old), _is_set(new)}:
            old_text, new_text = (to_printable(_format_value(setting), MAX_VALUE_LENGTH) for setting in (old, new))
            differences.append(f"{TITLES[name]} {old_text}, here {new_text}")
    return differences


def _is_set(value: Any) -> Any:
    return value if value is None or isinstance(value, str) else True


def _format_value(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}={inner}" for key, inner in value.items()) or "none"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None or value == "" else str(value)


def _read_cpu() -> tuple[str, str]:
    """Return the name and the vendor of the CPU, or empty strings."""
    try:
        text = CPU_INFO.read_text(encoding="utf-8", errors="replace").split("\n\n", 1)[0]
    except OSError:
        return platform.processor(), ""
    pairs = (line.partition(":") for line in text.splitlines())
    fields = {key.strip(): value.strip() for key, _, value in pairs}
    return fields.get("model name") or platform.processor(), fields.get("vendor_id") or fields.get(
        "CPU implementer", ""
    )


def _detect_instructions() -> str:
    """Return the widest vector instructions that numpy detects."""
    import numpy as np

    config: Any = np.show_config(mode="dicts")
    simd = config.get("SIMD Extensions", {}) if isinstance(config, dict) else {}
    names = {*simd.get("baseline", ()), *simd.get("found", ())}
    has_avx512 = any(name.startswith(("AVX512", "X86_V4")) for name in names)
    return "AVX512" if has_avx512 else "AVX2" if {"AVX2", "X86_V3"} & names else "DEFAULT"


ENGINE_PACKAGE = "onnxruntime"
PACKAGES = ("clearhead", "torch", "tokenizers", "numpy", "scikit-learn", ENGINE_PACKAGE)


def library_versions() -> dict[str, str]:
    """Return the versions of Python and of installed libraries."""
    from importlib.metadata import PackageNotFoundError, version  # slow to import, and rarely needed

    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def engine_versions() -> dict[str, str]:
    """Return the version of onnxruntime, if installed."""
    return {name: value for name, value in library_versions().items() if name == ENGINE_PACKAGE}
