"""What is asked of attention. Calls in, records out; one file a question."""
