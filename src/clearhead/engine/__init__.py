"""The fast path: ONNX graphs written straight from a Shape and its tensors, run by ONNX Runtime, without torch.

`assemble` writes the graphs, `runner.EngineRunner` runs them, `calibrate` and `int8` quantize them, and `export` writes
them to files.
"""
