"""Deployment: int8 quantization behind a quality gate, ONNX export, and benchmarks of runtimes."""
