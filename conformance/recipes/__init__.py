"""The recipes of CONTRIBUTING.md and of docs/layers.md, as files that run."""
