"""Optimisers: functions of anything with ``n`` and ``value_and_gradient(w, batch, mu)``."""
