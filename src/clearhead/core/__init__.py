"""The PyTorch models: the readable reference. It knows shapes and tensors, nothing of files or Hugging Face.

`build.build` makes a network of a `ModelShape`, and `runner.CoreRunner` runs it. Importing this package loads torch.
"""

from clearhead.machine.threads import load_torch

load_torch()  # before any module of this package imports it
