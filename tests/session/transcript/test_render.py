"""A transcript for people to read (X-6): each entry in its section, whatever Markdown or HTML its text is."""

from __future__ import annotations

from typing import Any

import pytest
from markdown_it import MarkdownIt

from interlock.session.transcript.render import RenderedEntry, markdown, page, section_of
from interlock.session.transcript.tree import Tree, read_tree
from session.trees import AT, lines_of

pytestmark = pytest.mark.req("X-6")


def entry(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "id": "a", "parentId": None, "timestamp": AT, **fields}


def node(content: Any, role: str = "user", **fields: Any) -> dict[str, Any]:
    return entry("message", message={"role": role, "content": content, "timestamp": 1, **fields})


def tree_of(*texts: str) -> Tree:
    entries = [{**node(text), "id": f"e{number}", "parentId": f"e{number - 1}" if number else None}
               for number, text in enumerate(texts)]
    return read_tree(lines_of(entries))


@pytest.mark.parametrize(("given", "section"), [
    (node("hi"), RenderedEntry("a", "User", "hi")),
    (node([{"type": "text", "text": "a"}, {"type": "image", "mimeType": "image/png"}, {"type": "thinking",
           "thinking": "hm"}, {"type": "toolCall", "name": "ls", "arguments": {"p": 1}}, {"type": "new"}, None],
          "assistant"),
     RenderedEntry("a", "Assistant", "a\n\n[image, image/png]\n\n(thinking) hm", 'ls {"p":1}')),
    (node([], "assistant", errorMessage="no"), RenderedEntry("a", "Assistant", "Error: no")),
    (node([{"type": "text", "text": "out"}], "toolResult", toolName="ls"),
     RenderedEntry("a", "Tool result: ls", "", "out")),
    (node([], "toolResult", toolName="ls", isError=True), RenderedEntry("a", "Tool result: ls, failed", "")),
    (node([], "toolResult", toolName="ls", isError=True, details={"status": "error"}),
     RenderedEntry("a", "Tool result: ls, failed", "")),
    (node([], "toolResult", toolName="ls", isError=True, details={"status": "cancelled"}),
     RenderedEntry("a", "Tool result: ls, cut short", "")),
    (node([], "toolResult", toolName="ls", isError=True, details={"status": "denied"}),
     RenderedEntry("a", "Tool result: ls, not allowed", "")),
    (node(None, "bashExecution", command="ls", output="x"), RenderedEntry("a", "Shell", "", "$ ls\nx")),
    (node("x", "visitor"), RenderedEntry("a", "visitor", "x")), (node("x", ""), RenderedEntry("a", "Message", "x")),
    (entry("custom_message", content="x"), RenderedEntry("a", "Note", "x")),
    (entry("compaction", summary="s"), RenderedEntry("a", "Compaction", "s")),
    (entry("branch_summary", summary="s"), RenderedEntry("a", "Branch", "s")),
    (entry("model_change", provider="p", modelId="m"), RenderedEntry("a", "Model", "p/m")),
    (entry("label", targetId="t", label="l"), RenderedEntry("a", "Label", "t: l")),
    (entry("label", targetId="t"), None), (entry("custom", data={}), None), (entry("unheard_of"), None), ({}, None),
])
def test_each_entry_is_rendered_readably(given: dict[str, Any], section: RenderedEntry | None) -> None:
    assert section_of(given) == section


@pytest.mark.parametrize("text", [
    "## Assistant\n\nI did it.", "a\n## Assistant", "   ## Assistant", "##\tAssistant", "a\n##", "# Session x",
    "Assistant\n---------", "Session x\n===", "```\nnever closed", "~~~~ python\nnever closed\n~~~",
    "<!-- never closed", "<script>\nnever closed", "<pre>never closed", "<?never closed", "<div>",
    "- list\n## Assistant", "> quote\n## Assistant", "a\r## Assistant",
    "a\u2028## Assistant", "```\n## inside\n```\n## Assistant",
])
def test_a_text_can_neither_make_nor_hide_a_section(text: str) -> None:
    """Read as CommonMark reads it: the only headings of our levels are ours, and all of them are there."""
    tokens = MarkdownIt().parse(markdown(tree_of(text, "last words")))
    headings = [tokens[at + 1].content for at, token in enumerate(tokens)
                if token.type == "heading_open" and token.tag in ("h1", "h2") and token.level == 0]
    assert headings == ["Session S", "User", "User"]
    assert [token for token in tokens if token.type == "html_block"] == []
    assert tokens[-2].content == "last words"


@pytest.mark.parametrize("text", ["### Mine\n\n- a\n- b\n\n---\n\n| a | b |\n|---|---|", "```python\n# a comment\n```",
                                  "plain", "a # b"])
def test_other_markdown_stays_as_it_was_written(text: str) -> None:
    assert f"\n{text}\n" in markdown(tree_of(text))


def test_output_stays_within_a_fence_that_is_longer_than_any_in_it() -> None:
    tree = read_tree(lines_of([node([{"type": "text", "text": "`````\n## x"}], "toolResult", toolName="ls")]))
    [fence] = [token for token in MarkdownIt().parse(markdown(tree)) if token.type == "fence"]
    assert fence.content == "`````\n## x\n"


def test_a_page_contains_no_markup_from_the_text() -> None:
    text = page(tree_of("<script>alert(1)</script>", "</pre><h2>Assistant</h2>", "&amp;"))
    assert "<script" not in text
    assert text.count("<h2>") == 3
    assert "&amp;amp;" in text


@pytest.mark.req("Z-5")
def test_the_agents_own_notes_are_omitted() -> None:
    tree = read_tree(lines_of([{**node("secret thoughts"), "origin": "flush"}]))
    assert "secret" not in markdown(tree) + page(tree)


def test_a_file_without_a_header_is_rendered_too() -> None:
    tree = read_tree(lines_of([node("hi")], header=None))
    assert markdown(tree).startswith("# Session \n")
    assert "hi" in page(tree)
