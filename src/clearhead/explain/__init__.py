"""Explain a model: attention, alignments, beam searches, decoding steps, positions and the words that mattered.

A trace, a search or a table becomes a picture, a page to look around in, a table for a terminal, or plain values.
`svg` is the only drawing kit; `figure` writes pictures and pages as files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clearhead.explain.alignment import Alignment, alignment, alignment_page, alignment_svg, trace_written
    from clearhead.explain.attention_lines import attention_svg
    from clearhead.explain.beams import BeamTree, Beginning, beam_tree, beams_svg, save_beams
    from clearhead.explain.complexity import Complexity, complexity
    from clearhead.explain.explanation import Explanation, make_explanation
    from clearhead.explain.figure import check_file
    from clearhead.explain.growth_picture import check_picture
    from clearhead.explain.heatmap import attention_heatmap_svg
    from clearhead.explain.occlusion import Occluded, occlude_rows
    from clearhead.explain.positions import Positions, positions, positions_svg, save_positions
    from clearhead.explain.steps import Candidate, Decoded, Step, decoding_steps, save_steps, steps_svg
    from clearhead.explain.svg import png
    from clearhead.explain.trace_files import attention_data, save_alignment, save_attention
    from clearhead.explain.trace_page import attention_page
    from clearhead.explain.trace_table import attention_table
else:
    from clearhead.lazy import export_lazily

    export_lazily(
        __name__,
        {
            "alignment": ("Alignment", "alignment", "alignment_page", "alignment_svg", "trace_written"),
            "attention_lines": ("attention_svg",),
            "beams": ("BeamTree", "Beginning", "beam_tree", "beams_svg", "save_beams"),
            "complexity": ("Complexity", "complexity"),
            "explanation": ("Explanation", "make_explanation"),
            "figure": ("check_file",),
            "growth_picture": ("check_picture",),
            "heatmap": ("attention_heatmap_svg",),
            "occlusion": ("Occluded", "occlude_rows"),
            "positions": ("Positions", "positions", "positions_svg", "save_positions"),
            "steps": ("Candidate", "Decoded", "Step", "decoding_steps", "save_steps", "steps_svg"),
            "svg": ("png",),
            "trace_files": ("attention_data", "save_alignment", "save_attention"),
            "trace_page": ("attention_page",),
            "trace_table": ("attention_table",),
        },
    )

__all__ = [
    "Alignment",
    "BeamTree",
    "Beginning",
    "Candidate",
    "Complexity",
    "Decoded",
    "Explanation",
    "Occluded",
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
    "check_file",
    "check_picture",
    "complexity",
    "decoding_steps",
    "make_explanation",
    "occlude_rows",
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
