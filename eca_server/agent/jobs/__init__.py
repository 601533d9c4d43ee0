"""Background jobs: commands that outlive the call, and the turn, that started them."""
