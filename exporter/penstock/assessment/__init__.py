"""One poll's assessment: all rooms called in their order, and the result as tables for the exposition."""
