"""Scorers and orchestrators."""
