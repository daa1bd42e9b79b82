"""Hashes by which a page's Content-Security-Policy allows its own script and style."""

import base64
import hashlib


def hash_of(text: str) -> str:
    """Return the source of an inline script or style in a Content-Security-Policy: 'sha256-…'."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode('ascii')}'"
