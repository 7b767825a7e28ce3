"""A form of a page, as a browser has it before anything is typed into it."""

from __future__ import annotations

from html.parser import HTMLParser

Fields = list[tuple[str, str]]


class _Reader(HTMLParser):
    """`fields`: of the form whose id is wanted, in their order."""

    def __init__(self, form_id: str | None) -> None:
        super().__init__()
        self.fields: Fields = []
        self._wanted = form_id
        self._inside = False
        self._select = ""
        self._text: str | None = None  # of the textarea that is open, whose name is the last field's

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attributes}
        name = given.get("name", "")
        if tag == "form":
            self._inside = given.get("id") == self._wanted
        elif not self._inside:
            return
        elif tag == "input" and name and _is_sent(given):
            self.fields.append((name, given.get("value", "on" if given.get("type") == "checkbox" else "")))
        elif tag == "select":
            self._select = name
        elif tag == "option" and "selected" in given:
            self.fields.append((self._select, given.get("value", "")))
        elif tag == "textarea":
            self._text = ""
            self.fields.append((name, ""))

    def handle_data(self, data: str) -> None:
        if self._text is not None:
            self._text += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._inside = False
        elif tag == "textarea" and self._text is not None:
            self.fields[-1] = (self.fields[-1][0], self._text.removeprefix("\n").removeprefix("\r\n"))
            self._text = None


def _is_sent(given: dict[str, str]) -> bool:
    kind = given.get("type", "text")
    return kind not in ("submit", "button", "image", "reset", "file") and (
        kind not in ("checkbox", "radio") or "checked" in given
    )


def fields(text: str, form_id: str | None = None) -> Fields:
    """Names and values of the page's form with this id, or of the last one without."""
    reader = _Reader(form_id)
    reader.feed(text)
    return reader.fields
