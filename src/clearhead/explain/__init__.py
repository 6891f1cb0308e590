"""A trace becomes something to look at: pictures, a page, numbers."""

from __future__ import annotations

from clearhead.explain.attention import attention_svg
from clearhead.explain.heatmap import attention_heatmap_svg
from clearhead.explain.page import attention_page
from clearhead.explain.save import attention_data, save_attention

__all__ = ["attention_data", "attention_heatmap_svg", "attention_page", "attention_svg", "save_attention"]
