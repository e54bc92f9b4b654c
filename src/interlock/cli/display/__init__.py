"""Output at a terminal: text, tables, colours, Markdown, an input line."""
