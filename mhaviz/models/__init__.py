"""Whose attention is looked at: one file a kind of model, which shows what its attentions are called with."""
