"""Analyses: each module computes a result, such as rollout or head statistics, from the attention calls of a model."""
