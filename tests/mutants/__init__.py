"""Mutation tests: small changes to the code, each of which a test must notice. `make mutants` runs them."""
