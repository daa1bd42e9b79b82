"""Attention calls, the interface of models that make them, and exact pooled maps of calls of any length."""
