"""The display of a request to a person before they answer it (H-4, Y-1, Y-2). Pure: from bytes to lines of text."""
