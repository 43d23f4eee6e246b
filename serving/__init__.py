"""Serving models with vLLM: command lines, the life of a server, adapters, checks."""
