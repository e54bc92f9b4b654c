"""What a person is shown of a request before they answer it (H-4, Y-1, Y-2). Pure: from bytes to lines of text."""
