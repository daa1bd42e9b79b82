"""What an attention is called with, and its map of any length: computed block by block, and exact."""
