"""What every job shares: plan, prepared data, run folder, resume, machine and progress.

A job resolves its plan once, prepares rows, fits a method, measures it on held-out rows, saves a folder and reports.
"""
