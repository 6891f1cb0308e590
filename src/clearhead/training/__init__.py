"""Training: losses, optimiser, the loop as a generator of steps, and a state that survives being killed."""
