"""What a user gives: texts, their tokens and what stands in their place, and probes. No torch, no drawing."""
