"""`eca-server conformance`: the conformance suite of the SDK as a command, and its reports."""
