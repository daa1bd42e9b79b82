"""Attention calls, exact pooled maps of calls of any length, and the interface of the models that make the calls."""
