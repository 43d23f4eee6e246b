"""Tacit: conversational screening research on simulated personas."""
