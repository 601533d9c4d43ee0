"""The frame around what a model is given beside the user's words: files, folders, pages, rules.

The rule it keeps: nothing inside can pretend to be the frame. Every tag of the frame begins with
`<eca_` or `</eca_`, and a `<` that would begin one inside a content is written `&lt;`; all the rest
of a content stays as it is, so that the model can quote it exactly.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

import attrs

from eca_server.tools.files import printable

__all__ = ["Section", "render"]

# Spaces, slashes and invisible characters would not keep a reader from taking it for a tag.
_TAG_LIKE = re.compile(r"<(?=[^\w<]{0,16}e[^\w<]{0,4}c[^\w<]{0,4}a[^\w<]{0,4}_)", re.IGNORECASE)
_IN_ATTRIBUTES = str.maketrans({'"': "&quot;", "<": "&lt;", ">": "&gt;"})


@attrs.frozen(kw_only=True)
class Section:
    """One thing the model is given.

    Attributes:
        name: what kind of thing: the tag without its `eca_`.
        attributes: what identifies it, in this order; any text.
        body: its contents, any text, and sections within it.
    """

    name: str
    attributes: Mapping[str, str] = attrs.field(factory=dict)
    body: tuple[str | Section, ...] = ()


def render(sections: Iterable[Section]) -> str:
    """The sections as text, each tag and each content beginning a line."""
    return "\n".join(line for section in sections for line in _lines(section))


def _lines(section: Section) -> Iterator[str]:
    tag = f"eca_{section.name}"
    attributes = "".join(
        f' {name}="{printable(value).translate(_IN_ATTRIBUTES)}"'
        for name, value in section.attributes.items()
    )
    if not section.body:
        yield f"<{tag}{attributes}/>"
        return
    yield f"<{tag}{attributes}>"
    for is_text, parts in groupby(section.body, lambda part: isinstance(part, str)):
        if is_text:
            # Joined first: the end of one text and the beginning of the next could make a tag.
            texts = (str(part).removesuffix("\n") for part in parts)
            yield _TAG_LIKE.sub("&lt;", "\n".join(texts))
        else:
            for part in parts:
                assert isinstance(part, Section)
                yield from _lines(part)
    yield f"</{tag}>"
