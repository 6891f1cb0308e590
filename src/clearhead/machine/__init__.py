"""The machine that computes: CPU, library versions and thread pools.

`cpu` describes it, so that a resumed run can tell whether its bits can be reproduced; `threads` sizes thread pools.
"""
