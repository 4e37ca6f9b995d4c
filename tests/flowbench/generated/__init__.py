"""Situations that a grammar makes by a seed, many at once on real brokers: `make flowbench-generated`."""
