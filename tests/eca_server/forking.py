"""Processes of functions, forked from one that has imported what they need."""

import multiprocessing

FORKING = multiprocessing.get_context("forkserver")
FORKING.set_forkserver_preload(  # of the lists that a process sets, the last one counts
    ["eca_server.ecp.scheduler", "tests.eca_server.agent.chat.store.process"]
)
