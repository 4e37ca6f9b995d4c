"""What is behind a condition: rules that prove or exclude each of its causes by what the polls say, or say what is
missing. They know no condition: `conditions` gives each its own.
"""
