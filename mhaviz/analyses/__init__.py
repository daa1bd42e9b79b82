"""The analyses: each file computes a record, such as rollout or head statistics, from the calls of a model."""
