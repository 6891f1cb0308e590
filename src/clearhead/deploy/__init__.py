"""A finished model made ready for use: int8 behind a quality gate, ONNX export, and speed beside other runtimes.

`quantize` measures before it keeps int8 weights, `export` writes ONNX for others, `bench` runs each runtime in a
process of its own (`worker`), interleaved by `scheduler`.
"""
