"""Maps of attention without the matrix of weights: computed block by block, as small as a picture, and exact."""
