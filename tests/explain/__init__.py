"""Tests of figures and pages of traces."""
