"""The tools of a model: their interface, their approval, and the native tools."""
