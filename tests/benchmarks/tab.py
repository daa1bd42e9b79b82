"""How tests and benchmarks ask a page in a browser."""

import time
from typing import Any

ASK = """given => {
    const asked = (SCRIPT);
    const value = typeof asked === "function" ? asked(given) : asked;
    if (!(value instanceof Promise)) return { value };
    const held = { promise: value };
    value.then(value => { held.answer = { value }; }, error => { held.answer = { error: String(error) }; });
    window.heldForTests = held;
    return null;
}"""

ANSWER = "window.heldForTests.answer ?? null"


def ask(tab: Any, script: str, argument: Any = None, seconds: float = 60.0) -> Any:
    """What a JavaScript expression, or function of one argument, gives; of a promise, what it is settled with.

    A browser that is told to wait for a promise does not hold it, and may collect it as garbage: the page holds it, and
    is asked again until it is settled.

    Raises:
        AssertionError: the promise is rejected, or not settled in time.
    """
    answer = tab.evaluate(ASK.replace("SCRIPT", script), argument)
    end = time.monotonic() + seconds
    while answer is None:
        assert time.monotonic() < end, f"{script} is not settled after {seconds} s"
        time.sleep(0.005)
        answer = tab.evaluate(ANSWER)
    assert "error" not in answer, f"{script}: {answer['error']}"
    return answer["value"]
