"""Numbers for people."""

from mhaviz.errors import quoted
from mhaviz.units import parse_whole


def test_whole_numbers():
    assert [parse_whole(text) for text in ("0", "-12", "+7", "007", "0" * 5_000 + "3")] == [0, -12, 7, 7, 3]
    assert quoted(parse_whole("-" + "9" * 5_000)) == "a negative number of more than 60 digits"
    assert parse_whole("9" * 60) == int("9" * 60)
