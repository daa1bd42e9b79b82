"""What is asked of attention. Records in, records out; one file a question."""
