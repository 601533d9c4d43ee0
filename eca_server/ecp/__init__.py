"""Evaluating agents by the Evaluation Context Protocol: manifests, runs, checks and reports."""
