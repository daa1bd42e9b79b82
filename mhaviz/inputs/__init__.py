"""Inputs of a user: texts, chats or ids, their tokens, and probes. Nothing here imports torch or draws."""
