"""A real broker on this machine, with real clients and injected faults: for `penstock demo` and for the tests."""
