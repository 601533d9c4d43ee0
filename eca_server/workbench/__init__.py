"""Tools for implementers: the conformance suite, the inspector, and their pages."""
