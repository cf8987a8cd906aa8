"""Models: from inputs and weights to scores, and the adjoint back."""
