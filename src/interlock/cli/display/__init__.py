"""What a terminal shows: text, tables, colours, Markdown, an input line."""
