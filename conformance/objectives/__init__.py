"""Losses and smoothings."""
