"""Mistake: the declared devices are the host's alone, and arrays of others are copied there instead of refused."""

import accelerated
from accelerated import *  # noqa: F403
from reference.arrays import host

__conformance_devices__ = ("cpu",)


def project_simplex(x, radius=1.0, *, out=None):
    return accelerated.project_simplex(host(x), radius, out=out)
