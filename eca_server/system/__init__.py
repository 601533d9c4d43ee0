"""The machine around the server: processes, signals, logs, streams, traces."""
