"""Compiled loops. Each kernel has a NumPy twin in tests/."""
