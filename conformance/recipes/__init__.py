"""The recipes of CONTRIBUTING.md, as files that run."""
