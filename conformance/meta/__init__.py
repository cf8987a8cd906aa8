"""Tests of the tests: backends with one known mistake each, and the proof that the suite catches it."""
