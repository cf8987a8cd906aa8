"""What the papers promise as numbers."""
