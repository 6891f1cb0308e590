"""Explain a model: attention, alignments, beam search, decoding steps, positions and word importance.

Each explanation is available as a picture, an interactive page, a table for the terminal, or plain values. `svg` draws
all pictures; `figure` writes pictures and pages to files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clearhead.explain.alignment import AlignmentMatrix, alignment, alignment_page, alignment_svg, trace_generated
    from clearhead.explain.attention_lines import attention_svg
    from clearhead.explain.beam_picture import beams_svg, save_beams
    from clearhead.explain.beams import BeamNode, BeamTree, beam_tree
    from clearhead.explain.complexity import Complexity, complexity
    from clearhead.explain.explanation import Explanation, make_explanation
    from clearhead.explain.figure import check_figure_path
    from clearhead.explain.growth_picture import check_picture
    from clearhead.explain.heatmap import attention_heatmap_svg
    from clearhead.explain.occlusion import OccludedRow, occlude_rows
    from clearhead.explain.positions import Positions, positions, positions_svg, save_positions
    from clearhead.explain.steps import Candidate, DecodedText, DecodingStep, decoding_steps, save_steps, steps_svg
    from clearhead.explain.svg import png
    from clearhead.explain.trace_files import attention_data, save_alignment, save_attention
    from clearhead.explain.trace_page import attention_page
    from clearhead.explain.trace_table import attention_table
else:
    from clearhead.lazy import export_lazily

    export_lazily(
        __name__,
        {
            "alignment": ("AlignmentMatrix", "alignment", "alignment_page", "alignment_svg", "trace_generated"),
            "attention_lines": ("attention_svg",),
            "beam_picture": ("beams_svg", "save_beams"),
            "beams": ("BeamNode", "BeamTree", "beam_tree"),
            "complexity": ("Complexity", "complexity"),
            "explanation": ("Explanation", "make_explanation"),
            "figure": ("check_figure_path",),
            "growth_picture": ("check_picture",),
            "heatmap": ("attention_heatmap_svg",),
            "occlusion": ("OccludedRow", "occlude_rows"),
            "positions": ("Positions", "positions", "positions_svg", "save_positions"),
            "steps": ("Candidate", "DecodedText", "DecodingStep", "decoding_steps", "save_steps", "steps_svg"),
            "svg": ("png",),
            "trace_files": ("attention_data", "save_alignment", "save_attention"),
            "trace_page": ("attention_page",),
            "trace_table": ("attention_table",),
        },
        former={
            "Alignment": "AlignmentMatrix",
            "Beginning": "BeamNode",
            "Decoded": "DecodedText",
            "Occluded": "OccludedRow",
            "Step": "DecodingStep",
            "check_file": "check_figure_path",
            "trace_written": "trace_generated",
        },
    )

__all__ = [
    "AlignmentMatrix",
    "BeamNode",
    "BeamTree",
    "Candidate",
    "Complexity",
    "DecodedText",
    "DecodingStep",
    "Explanation",
    "OccludedRow",
    "Positions",
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
    "check_figure_path",
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
    "trace_generated",
]
