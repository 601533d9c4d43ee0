"""Tools to test an ECA server or client: strategies, requirements, a scripted model."""
