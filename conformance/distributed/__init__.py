"""Tests of training over partitions."""
