"""The PyTorch models: the readable truth. Knows shapes and tensors, nothing of files or Hugging Face."""
