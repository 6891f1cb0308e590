"""Which method is worth its cost: several of them trained on the same rows within a time budget.

`job` runs them in turn, `budget` and `estimates` share out the time, `recommend` names the cheapest that is as good as
the best, and `state` lets the same call continue.
"""
