"""A page for the browser inside a notebook."""

import html

_HEIGHT = 720  # pixels


class Html(str):
    """A page as text; a notebook shows it in a frame, apart from all else that stands there."""

    def _repr_html_(self) -> str:
        # Without allow-same-origin the page cannot reach the notebook that it stands in.
        allowed = "allow-scripts allow-downloads allow-popups"
        return (
            f'<iframe sandbox="{allowed}" style="width: 100%; height: {_HEIGHT}px; border: 0" '
            f'title="mhaviz" srcdoc="{html.escape(self)}"></iframe>'
        )
