"""Probes: a function for each code of a finding. Its docstring is the page of the code in the documentation."""
