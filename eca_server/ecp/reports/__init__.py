"""Reports of a run: for programs (JSON, audit), for build servers (JUnit), for people (HTML)."""
