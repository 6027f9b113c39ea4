"""A report as a parser sees it: its elements, attributes and texts."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"meta", "link", "br", "img", "hr", "use", "path", "image", "input"}


class Page(HTMLParser):
    """Elements with attributes in order, texts by the section they stand in, ids and references."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: dict[str, str] = {}
        self._section = "head"
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        values = {name: value or "" for name, value in attrs}
        self.elements.append((tag, values))
        if tag == "section":
            self._section = values.get("id", "verdict")

    handle_startendtag = handle_starttag

    def handle_data(self, data):
        self.texts[self._section] = self.texts.get(self._section, "") + data

    @property
    def ids(self):
        return [values["id"] for _, values in self.elements if "id" in values]

    @property
    def references(self):
        """Everything an element points to."""
        names = ("href", "src", "xlink:href", "action", "data", "poster", "srcset")
        return [(tag, values[name]) for tag, values in self.elements for name in names if name in values]
