"""What is behind a condition: rules that prove or exclude each of its causes, or say what is missing."""
