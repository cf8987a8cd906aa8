"""Mutation of the readable panel."""
