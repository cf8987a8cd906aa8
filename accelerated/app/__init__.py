"""What of the applications is computed by this panel."""
