"""What a user gives: texts and what stands in their place, and probes. No torch, no drawing."""
