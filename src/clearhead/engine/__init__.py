"""The fast path: ONNX graphs written straight from a Shape and its tensors, run by ONNX Runtime, without torch."""
