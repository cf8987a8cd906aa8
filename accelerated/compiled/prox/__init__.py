"""Thresholds, projections and proxes of rows."""
