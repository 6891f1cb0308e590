"""Model folders as files: config, tensors under their names, labels, passport and the hub's cache; no torch.

`folder` reads and writes a whole folder, `weights` its safetensors, `names` maps tensor names, `passport` holds what
was trained, `hub` finds a model by its name, and `unpickle` reads pickles in a child process, only on request.
"""
