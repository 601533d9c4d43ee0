"""The reference ECA server; run it with `python -m eca_server`."""
