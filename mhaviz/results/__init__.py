"""What flows through the house: frozen dataclasses of numpy arrays and strings. No torch, no drawing."""
