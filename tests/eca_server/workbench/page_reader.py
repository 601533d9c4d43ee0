"""A reader of pages: their tags, their text, and the text of their data element."""

from html.parser import HTMLParser


class Page(HTMLParser):
    """The markup and the text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.data = ""
        self._is_data = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attributes
        self._is_data = ("id", "data") in attributes

    def handle_data(self, data: str) -> None:
        self.text += data
        self.data += data if self._is_data else ""

    def handle_endtag(self, tag: str) -> None:
        self._is_data = False
