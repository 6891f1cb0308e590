"""Tests of the SVG toolkit."""
