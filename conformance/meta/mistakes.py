"""The known mistakes: each class has the names that it replaces in a panel: the accelerated one, or ``base``."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np

import accelerated
import reference
import reference.structures.arborescence_max as oracles
from accelerated.structures import arborescence, chain, cut, matching
from reference.arrays import host
from reference.optimizers import online_proximal
from reference.optimizers.base import traits
from reference.optimizers.nonnegative import clipped
from reference.optimizers.online_proximal import OnlineProximalState
from reference.screening.registry import known_of, register
from reference.structures import tree_k_best
from reference.training import counterparts


def with_ops(structure: Any, **functions: Any) -> type:
    """The structure with other functions in the place of some of its module's."""
    ops = SimpleNamespace(**{**vars(structure.ops), **functions})
    return type(structure.__name__, (structure,), {"ops": ops})


# structures ----------------------------------------------------------------------------------------------------------


class off_by_one_viterbi:
    """The last transition is forgotten."""

    def viterbi(scores):
        if scores.pairwise.ndim > 2 and scores.pairwise.shape[-3] > 0:
            scores = scores._replace(pairwise=scores.pairwise.copy())
            scores.pairwise[..., -1, :, :] = 0.0
        return chain.viterbi(scores)

    Chain = with_ops(accelerated.Chain, viterbi=viterbi)


class unshifted_partition:
    """Exponentials of raw scores, as the paper's box reads."""

    def forward_backward(scores, mu=1.0, weights=None):
        value, marginals = chain.forward_backward(scores, mu, weights)
        with np.errstate(all="ignore"):
            return mu * np.log(np.exp(np.asarray(value) / mu)), marginals

    Chain = with_ops(accelerated.Chain, forward_backward=forward_backward)


class top_k_padded_with_the_best:
    """Where there are fewer than k labellings, the best one again, to fill up."""

    def top_k_viterbi(scores, k):
        best = chain.top_k_viterbi(scores, k)
        filler = best.scores == -np.inf
        return best._replace(
            scores=np.where(filler, best.scores[..., :1], best.scores),
            labels=np.where(filler[..., None], best.labels[..., :1, :], best.labels),
            count=np.full_like(best.count, k),
        )

    Chain = with_ops(accelerated.Chain, top_k_viterbi=top_k_viterbi)


class top_k_without_distinctness:
    """Back-pointers forget the rank, so labellings that end in the same label are all the best one that does."""

    def top_k_viterbi(scores, k):
        best = chain.top_k_viterbi(scores, k)
        labels = np.copy(best.labels)
        if labels.shape[-1]:
            for later in range(1, k):
                for earlier in range(later):
                    same = (best.scores[..., later] > -np.inf) & (labels[..., later, -1] == labels[..., earlier, -1])
                    labels[same, later] = labels[same, earlier]
        return best._replace(labels=labels)

    Chain = with_ops(accelerated.Chain, top_k_viterbi=top_k_viterbi)


class bmmf_variable_by_variable:
    """Outputs are put together from the best state of each variable, which under ties come from different outputs."""

    def bmmf(structure, k):
        class Decoded(type(structure)):
            def best(self):
                y = self.node_max_marginals().argmax(axis=1)
                return self.score(tuple(y)), y

        return accelerated.bmmf(Decoded.unchecked(structure.scores), k)


class tree_pairs_transposed:
    """Pairwise scores are read as (label of the node, label of its parent)."""

    def max_product(scores):
        return accelerated.Tree.ops.max_product(scores._replace(pairwise=np.swapaxes(scores.pairwise, -1, -2)))

    Tree = with_ops(accelerated.Tree, max_product=max_product)


class tree_siblings_in_step:
    """The k-th best of a node takes the k-th best of each of its children, not the best combinations of their ranks."""

    base = reference

    def top_k_max_product(scores, k):
        def merged(place, a, b, k):
            n = min(k, a.shape[-1], b.shape[-1])
            best, pair = tree_k_best._largest(a[..., :n] + b[..., :n], k)
            return best, tree_k_best._Merge(pair, np.arange(n), np.arange(n))

        with mock.patch.object(tree_k_best, "_merged", merged):
            return reference.Tree.ops.top_k_max_product(scores, k)

    Tree = with_ops(reference.Tree, top_k_max_product=top_k_max_product)


class clipped_capacities:
    """The capacities of Algorithm 11 as printed, and the negative ones taken for 0."""

    def minimum_cut(scores):
        theta = -np.asarray(scores.pairwise, dtype=np.float64)
        unary, pairwise = np.array(scores.unary, dtype=np.float64), np.zeros_like(theta)
        np.add.at(unary, (scores.edges[:, 0], 0), -theta[:, 0, 0])
        np.add.at(unary, (scores.edges[:, 1], 1), -theta[:, 1, 1])
        pairwise[:, 1, 0] = -np.maximum(theta[:, 1, 0], 0.0)
        pairwise[:, 0, 1] = -np.maximum(theta[:, 0, 1] - theta[:, 0, 0] - theta[:, 1, 1], 0.0)
        return cut.minimum_cut(cut.CutScores(unary, pairwise, scores.edges))

    Cut = with_ops(accelerated.Cut, minimum_cut=minimum_cut)


class residual_arcs_both_ways:
    """The residual graph of a matching has every arc both ways, not the matched ones back and the others forth."""

    def max_marginals(scores):
        values = np.asarray(scores.values, dtype=np.float64)
        (p, q), allowed = values.shape, scores.values > -np.inf
        value, columns = matching.assignment(scores)
        path = np.full((p + q, p + q), -np.inf)
        path[:p, p:] = values
        path[p:, :p] = np.where(allowed, -np.where(allowed, values, 0.0), -np.inf).T
        for k in range(p + q):
            path = np.maximum(path, path[:, k, None] + path[k])
        matched = np.asarray(columns)[:, None] == np.arange(q)
        return scores._replace(values=np.where(matched, value, value + values + path[p:, :p].T))

    Matching = with_ops(accelerated.Matching, max_marginals=max_marginals)


class cycles_at_full_score:
    """When a cycle becomes one token, heads from outside keep their scores, instead of what the cycle gains by them."""

    base = reference

    def maximum_arborescence(scores, single_root=False):
        def contract(values, heads, cycle, right=oracles.contract):
            smaller, contraction = right(values, heads, cycle)
            outside = values[cycle][:, np.concatenate([[0], contraction.kept + 1])]
            smaller[-1, :-1] = outside.max(axis=0)
            return smaller, contraction._replace(entered=cycle[outside.argmax(axis=0)])

        with mock.patch.object(oracles, "contract", contract):
            return reference.Arborescence.ops.maximum_arborescence(scores, single_root)

    Arborescence = with_ops(reference.Arborescence, maximum_arborescence=maximum_arborescence)


class roots_all_counted:
    """The sum over trees of a single root takes in those of several roots."""

    def tree_partition(scores, mu=1.0, single_root=False):
        return arborescence.tree_partition(scores, mu, False)

    Arborescence = with_ops(accelerated.Arborescence, tree_partition=tree_partition)


class padding_counted:
    """Sums over trees take padding for tokens; best matchings take it for rows and columns."""

    def tree_partition(scores, mu=1.0, single_root=False):
        return arborescence.tree_partition(scores._replace(lengths=None), mu, single_root)

    def assignment(scores):
        return matching.assignment(scores._replace(lengths=None))

    Arborescence = with_ops(accelerated.Arborescence, tree_partition=tree_partition)
    Matching = with_ops(accelerated.Matching, assignment=assignment)


# proximity operators -------------------------------------------------------------------------------------------------


class conjugate_everywhere:
    """The conjugate of the l1 norm is 0 also outside its dual ball."""

    class L1(accelerated.L1):
        def _conjugate(self, point):
            return 0.0 * self._dual_norm(point)


class groups_before_coordinates:
    """The sparse group lasso shrinks groups first and coordinates afterwards."""

    class SparseGroupLasso(accelerated.SparseGroupLasso):
        def _prox(self, point, step_size):
            l1, l21 = self.parts
            return l1.prox(l21.prox(point.x, step_size), step_size)


class outer_groups_first:
    """A tree of groups is shrunk from its root to its leaves."""

    class TreeGroupLasso(accelerated.TreeGroupLasso):
        def _prox(self, point, step_size):
            x = point.x
            for part in self.parts[::-1]:
                x = part.prox(x, step_size)
            return x


class unsorted_simplex:
    """The projection onto the simplex takes prefixes of the numbers as they come, not sorted."""

    def project_simplex(x, radius=1.0, *, out=None):
        x = np.asarray(x, dtype=np.float64)
        if x.ndim != 1:
            return accelerated.project_simplex(x, radius, out=out)
        theta = (np.cumsum(x) - radius) / np.arange(1, len(x) + 1)
        last = np.flatnonzero(x > theta)
        return np.maximum(x - theta[last[-1]], 0.0) if len(last) else accelerated.project_simplex(x, radius)


class exactness_unkept:
    """Exact selections are promised, and the printed sums are what is there."""

    base = reference
    __conformance_promises__ = ("exact selections",)


class copied_from_the_device:
    """The declared devices are the host's alone, and arrays of others are copied there instead of refused."""

    __conformance_devices__ = ("cpu",)

    def project_simplex(x, radius=1.0, *, out=None):
        return accelerated.project_simplex(host(x), radius, out=out)


# models and losses ---------------------------------------------------------------------------------------------------


class no_stop_in_pullback:
    """The adjoint forgets the stop weights."""

    class SequenceModel(accelerated.SequenceModel):
        def pullback(self, data, batch, w, g):
            gradient = super().pullback(data, batch, w, g)
            if self.start_stop:
                gradient[(self.width - 1) * self.n_labels : self.width * self.n_labels] = 0.0
            return gradient


class one_way_edges:
    """The adjoint of segmentation scores counts an edge only where its first node is background."""

    class SegmentationModel(accelerated.SegmentationModel):
        def pullback(self, data, batch, w, g):
            return super().pullback(data, batch, w, g._replace(pairwise=g.pairwise * [[1.0, 1.0], [0.0, 1.0]]))


class hinge_without_loss:
    """The max is not augmented by the task loss."""

    class StructuralHinge(accelerated.StructuralHinge):
        loss_augmented = False


# learners ------------------------------------------------------------------------------------------------------------


class wrong_average:
    """The uniform average where the weighted one is asked for."""

    def sgd(objective, w0=None, *, average="weighted", **options):
        return accelerated.sgd(objective, w0, average="uniform" if average == "weighted" else average, **options)


def with_duals(result: Any, duals: Any) -> Any:
    """The result with other duals in its rows."""
    rows = tuple(
        replace(row, dual=dual, gap=row.objective - dual) for row, dual in zip(result.history, duals, strict=False)
    )
    return replace(result, history=rows, certificate=rows[-1].gap if rows else result.certificate)


class gap_of_wrong_average:
    """The gap of the averaged weights is taken to the dual of the last ones."""

    def bcfw(objective, *, average="last", **options):
        last = accelerated.bcfw(objective, average="last", **options)
        result = accelerated.bcfw(objective, average=average, **options)
        return with_duals(result, [row.dual for row in last.history])


class dual_of_the_epoch_before:
    """Exponentiated gradient's rows have the dual of the epoch before."""

    def exponentiated_gradient(objective, **options):
        result = accelerated.exponentiated_gradient(objective, **options)
        return with_duals(result, [0.0, *(row.dual for row in result.history[:-1])])


class clipped_at_the_end:
    """Weights that must be >= 0 go free in training and are cut off at 0 when it is over."""

    def bcfw(objective, **options):
        if traits(objective).nonnegative is None:
            return accelerated.bcfw(objective, **options)
        model = copy.copy(objective.model)
        model.nonnegative = None
        result = accelerated.bcfw(accelerated.StructuralHinge(model, objective.data), **options)
        return replace(result, x=clipped(result.x, traits(objective).nonnegative))


@dataclass(frozen=True)
class WithoutCrossTerm(online_proximal.OnlineProximal):
    def sweep(self, objective, state, order):
        mkl, ball = self.proxes.parts
        for turn, gamma in enumerate(
            self.step_size(np.arange(len(order) // self.batch_size) + state.t + 1, self.sigma)
        ):
            batch, keep = order[turn * self.batch_size : (turn + 1) * self.batch_size], 1 - gamma * self.sigma
            g, x, members = objective.value_and_gradient(state.x, batch, self.mu)[1], state.x, mkl.groups.members
            x = keep * x - gamma * g
            norms = np.array(
                [np.sqrt(keep**2 * np.sum(state.x[k] ** 2) + gamma**2 * np.sum(g[k] ** 2)) for k in members]
            )
            after = accelerated.SquaredL1(mkl.lam).prox(norms, gamma)
            for group, was, now in zip(members, norms, after, strict=True):
                x[group] *= now / was if was > 0 else 0
            x, t = ball.prox(x), state.t + 1
            mean = x if self.average == "last" else state.mean + (state.x - state.mean) / t
            state = OnlineProximalState(x, mean, t)
        return state


class norms_without_cross_term:
    """The recursion of group norms lacks its inner product: ||w - gamma g||^2 = ||w||^2 + gamma^2 ||g||^2."""

    class StructuralHinge(accelerated.StructuralHinge):
        pass

    counterparts.register(online_proximal.OnlineProximal, StructuralHinge, accelerated.SequenceModel, WithoutCrossTerm)


# screening -----------------------------------------------------------------------------------------------------------


class screening_radius_too_small:
    """The ball of the l1 gap rule has half its radius."""

    base = reference

    @dataclass(frozen=True)
    class L1GapRule(reference.L1GapRule):
        def screen(self, state):
            return self.bounds(state) <= state.problem.beta

        def bounds(self, state):
            return super().bounds(state._replace(gap=state.gap / 4))


OF_SEQUENCES, OF_CLASSES = known_of(reference.SequenceModel), known_of(reference.MulticlassModel)


class equal_neighbours_miscounted:
    """The range of a transition from a label to itself is bounded as that between two labels, by floor(n/2)."""

    base = reference

    class SequenceModel(reference.SequenceModel):
        """Its ranges are registered below."""

    def ranges(model, data):
        found, L = OF_SEQUENCES.feature_range(model, data), model.n_labels
        if L > 1:
            pairwise = found[-L * L :].reshape(L, L)
            pairwise[np.arange(L), np.arange(L)] = pairwise[0, 1]
        return found

    register(SequenceModel, OF_SEQUENCES._replace(feature_range=ranges))


class negative_features_left_out:
    """The least that a feature can sum to is taken to be 0, as if none were negative."""

    base = reference

    class MulticlassModel(reference.MulticlassModel):
        """Its totals are registered below."""

    def totals(model, data):
        found = OF_CLASSES.feature_totals(model, data)
        return found._replace(least=np.maximum(found.least, 0.0))

    register(MulticlassModel, OF_CLASSES._replace(feature_totals=totals))


# backends that lack something ----------------------------------------------------------------------------------------


class lacks_names:
    """A backend that has chains only: what is missing must be said, and the rest must run."""

    base = SimpleNamespace(**{name: getattr(reference, name) for name in ("Chain", "ChainScores", "InfeasibleError")})


class stale_gap:
    """A backend with a known gap that has been closed and one that matches no test: both are errors."""

    base = reference
    __conformance_gaps__ = {"*test_count_is_exact*": "was wrong once", "*no_such_test*": "matches nothing"}
