"""Layout of matrices side by side: how large cells are, how many stand in a row, which labels have room."""
