from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Mistake:
    name: str
    style: str
    code: str
    make: Callable[[], Any]
    d_model: int = 32
    kwargs: dict[str, Any] = field(default_factory=dict)
