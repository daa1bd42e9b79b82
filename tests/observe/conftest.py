import pytest


@pytest.fixture(autouse=True)
def _no_tokenizer_of_other_tests(monkeypatch):
    """A program's tokenizer is the only one in its process; one that another test has left is not that of these."""
    monkeypatch.setattr("mhaviz.api.recorded_tokens.tokenizer_of_program", lambda: None)
