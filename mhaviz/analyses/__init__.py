"""The analyses: each file computes a result, such as rollout or head statistics, from the calls of a model."""
