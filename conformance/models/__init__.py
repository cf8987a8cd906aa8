"""Models: features, adjoints, packing."""
