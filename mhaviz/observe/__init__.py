"""Sees every attention that runs in a PyTorch program, whoever wrote it."""
