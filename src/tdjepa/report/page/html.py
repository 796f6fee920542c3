"""HTML from Python calls: whatever is not itself `Html` is escaped, so a label or a path can never become markup."""

import html


class Html(str):
    """A text that is markup already."""


def element(name: str, *children, **attributes) -> Html:
    """`element("td", "a < b", class_="number", data_env="cube")`; None and False leave a child or an attribute out."""
    return Html(f"<{name}{''.join(_attribute(*pair) for pair in attributes.items())}>{join(children)}</{name}>")


def maths(text: str) -> Html:
    """Escaped, with the subscript of d_ψ set as one."""
    return Html(html.escape(str(text)).replace("d_ψ", "d<sub>ψ</sub>"))


def join(children) -> Html:
    return Html("".join(_child(child) for child in children))


def _child(child) -> str:
    if isinstance(child, Html):
        return child
    if isinstance(child, list | tuple):
        return join(child)
    return "" if child is None or child is False else html.escape(str(child))


def _attribute(name: str, value) -> str:
    name = name.rstrip("_").replace("_", "-")
    if value is None or value is False:
        return ""
    return f" {name}" if value is True else f' {name}="{html.escape(str(value))}"'
