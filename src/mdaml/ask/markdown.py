"""The little Markdown that instructions need: headings, lists, paragraphs, bold and italic."""

import re
from html import escape

_HEADING, _ITEM = re.compile(r"(#{1,3}) +(.*)"), re.compile(r"[-*] +(.*)")


def to_html(text: str) -> str:
    r"""Return a text as HTML; whatever is HTML in it already is shown as it is written.

    Examples
    --------
    >>> from mdaml.ask.markdown import to_html
    >>> to_html("# Hello\n\nPick **one** <b>.")
    '<h2>Hello</h2>\n<p>Pick <strong>one</strong> &lt;b&gt;.</p>'
    """
    blocks = re.split(r"\n\s*\n", text.strip().replace("\r\n", "\n"))
    return "\n".join(_block(block.strip()) for block in blocks if block.strip())


def _block(block: str) -> str:
    lines = block.split("\n")
    heading = _HEADING.fullmatch(lines[0])
    if heading:
        level = len(heading[1]) + 1  # the page has the first heading
        rest = "\n".join(lines[1:]).strip()
        return f"<h{level}>{_inline(heading[2])}</h{level}>" + (f"\n{_block(rest)}" if rest else "")
    items = [_ITEM.fullmatch(line.strip()) for line in lines]
    if all(items):
        return "<ul>" + "".join(f"<li>{_inline(item[1])}</li>" for item in items if item) + "</ul>"
    return f"<p>{_inline(' '.join(lines))}</p>"


def _inline(text: str) -> str:
    text = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", escape(text, quote=False))
    return re.sub(r"\*(.+?)\*", r"<em>\1</em>", text)
