"""Metrics and reference data."""
