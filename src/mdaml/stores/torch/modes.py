"""The loops over samples and modes, for tensors on any device."""

import torch

from mdaml.neighbors.device import blocks
from mdaml.stores.torch.pairs import list_range, segment_sums


def center_sq_dists(Y, centers):
    """Squared distance of every row of Y to every centre, by differences: no cancellation."""
    out = Y.new_empty((len(Y), len(centers)))
    for begin, end in blocks(len(Y), Y.shape[1]):
        for k, center in enumerate(centers):
            out[begin:end, k] = (Y[begin:end] - center).square_().sum(dim=1)
    return out


def nearest_center(Y, centers):
    """Weight one for the nearest centre of each row of Y, zero for the others."""
    nearest = center_sq_dists(Y, centers).argmin(dim=1)
    return torch.nn.functional.one_hot(nearest, len(centers)).to(Y)


def sequential_weights(weights, powers, costs, graph, losses, order, colors, eta):
    """Update ``weights`` and ``powers = weights**eta`` in place, colour by colour.

    As in :mod:`mdaml.kernels.modes`; order and colors are NumPy arrays.
    """
    order = torch.tensor(order, device=weights.device)
    starts, samples, pull = _in_order(graph, losses, order)
    n_modes = weights.shape[1]
    for begin, end in _parts(starts, colors.tolist(), n_modes):
        own, (span, offsets) = order[begin:end], list_range(starts, begin, end)
        others = powers.index_select(0, samples[span]).double()
        others *= pull[span, None]
        logs = _log_shares(costs[own].double() + segment_sums(others, offsets), eta)
        weights[own] = logs.exp().to(weights)
        powers[own] = (eta * logs).exp().to(powers)


def _in_order(graph, losses, order):
    """Return the lists of samples in some order: their starts, the other samples, the losses."""
    indptr, samples, pairs = graph
    lengths = indptr.diff()[order].long()
    starts = torch.cat([lengths.new_zeros(1), lengths.cumsum(dim=0)])
    shift = indptr[:-1][order] - starts[:-1]
    n_entries = int(starts[-1])
    entries = torch.arange(n_entries, device=samples.device)
    entries += torch.repeat_interleave(shift, lengths, output_size=n_entries)
    return starts, samples[entries], losses.index_select(0, pairs[entries])


def _parts(starts, colors, n_modes):
    """Cut the places of each colour so that no part needs much memory."""
    ends = starts[torch.tensor(colors, device=starts.device)].tolist()
    parts = []
    for color, begin in enumerate(colors[:-1]):
        width = (ends[color + 1] - ends[color]) // (colors[color + 1] - begin) + 1
        cuts = blocks(colors[color + 1] - begin, 2 * width * n_modes)
        parts += [(begin + first, begin + last) for first, last in cuts]
    return parts


def _log_shares(costs, eta):
    """Logarithms of the weights of each row: Eq. (14), ``costs**(-1/(eta-1))`` made to sum to one.

    Relative to the lowest cost, so that nothing overflows, however close eta is to 1; modes that
    cost nothing share all the weight.
    """
    lowest = costs.amin(dim=1, keepdim=True)
    free = torch.zeros_like(costs).masked_fill_(costs > 0.0, -torch.inf)
    logs = torch.where(lowest > 0.0, (lowest / costs).log() / (eta - 1.0), free)
    return logs - logs.logsumexp(dim=1, keepdim=True)
