"""The vocabulary: envelope, frames, resources, records, codes, limits. No behaviour, no input or output."""
