"""Explain a model: attention, alignments, beam searches, decoding steps, positions and the words that mattered.

A trace, a search or a table becomes a picture, a page to look around in, a table for a terminal, or plain values.
`svg` is the only drawing kit; `figure` writes pictures and pages as files.
"""

from __future__ import annotations

from clearhead.explain.alignment import Alignment, alignment, alignment_page, alignment_svg, trace_written
from clearhead.explain.attention_lines import attention_svg
from clearhead.explain.beams import BeamTree, Beginning, beam_tree, beams_svg, save_beams
from clearhead.explain.heatmap import attention_heatmap_svg
from clearhead.explain.positions import Positions, positions, positions_svg, save_positions
from clearhead.explain.steps import Candidate, Decoded, Step, decoding_steps, save_steps, steps_svg
from clearhead.explain.svg import png
from clearhead.explain.trace_files import attention_data, save_alignment, save_attention
from clearhead.explain.trace_page import attention_page
from clearhead.explain.trace_table import attention_table

__all__ = [
    "Alignment",
    "BeamTree",
    "Beginning",
    "Candidate",
    "Decoded",
    "Positions",
    "Step",
    "alignment",
    "alignment_page",
    "alignment_svg",
    "attention_data",
    "attention_heatmap_svg",
    "attention_page",
    "attention_svg",
    "attention_table",
    "beam_tree",
    "beams_svg",
    "decoding_steps",
    "png",
    "positions",
    "positions_svg",
    "save_alignment",
    "save_attention",
    "save_beams",
    "save_positions",
    "save_steps",
    "steps_svg",
    "trace_written",
]
