"""
The rules of the findings, one a file of its name: `find` and its texts.

No helper of several rules lives here.
"""
