"""Where a needle stands in the tokens of a text, and which queries read it again."""

from collections.abc import Sequence


def reading_of(ids: Sequence[int], needle: Sequence[int]) -> list[tuple[int, list[int]]]:
    """The queries that predict a token of the needle where it stands last, each with the keys that it may copy from.

    Those keys are the same token in the needle where it stood before, as in Wu et al. 2024 (arXiv 2404.15574, section
    2), of a needle that is given instead of written. No query: the needle is not there twice.
    """
    length = len(needle)
    starts = [i for i in range(len(ids) - length + 1) if ids[i] == needle[0] and list(ids[i : i + length]) == [*needle]]
    if not length or not starts:
        return []
    last = starts[-1]
    before = {j for start in starts if start + length <= last for j in range(start, start + length)}
    if not before:
        return []
    return [(last + k - 1, [j for j in sorted(before) if ids[j] == needle[k]]) for k in range(length)]
