"""A page for the browser inside a notebook."""

import html

_HEIGHT = 720  # pixels


class Html(str):
    """A page for the browser as text, which notebooks show in a frame of its own."""

    def _repr_html_(self) -> str:
        # Without allow-same-origin the page cannot reach the notebook around it.
        allowed = "allow-scripts allow-downloads allow-popups"
        return (
            f'<iframe sandbox="{allowed}" style="width: 100%; height: {_HEIGHT}px; border: 0" '
            f'title="mhaviz" srcdoc="{html.escape(self)}"></iframe>'
        )
