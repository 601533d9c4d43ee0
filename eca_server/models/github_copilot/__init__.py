"""GitHub Copilot: several APIs behind one login, whose tokens are valid for half an hour."""
