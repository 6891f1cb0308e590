"""The machine: CPU, library versions and thread pools."""
