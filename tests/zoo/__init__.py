"""Programs with attention that somebody else wrote, or might have: small, with random weights, and no network."""
