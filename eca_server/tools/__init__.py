"""Tools the model may call: what they are, who may run them, and the native ones."""
