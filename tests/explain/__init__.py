"""Tests of pictures and pages made from traces."""
