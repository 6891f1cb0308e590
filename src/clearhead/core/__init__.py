"""The PyTorch models: the readable truth. Knows shapes and tensors, nothing of files or Hugging Face."""

from clearhead.machine.threads import load_torch

load_torch()  # before any module of this package imports it
