"""The messages of the protocol as attrs models, one module per chapter of the specification."""
