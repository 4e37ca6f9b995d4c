"""What is shown on request: explain, lists, events, episodes; `answers` has their types.

Looks up and words what was decided; decides nothing and changes no state.
"""
