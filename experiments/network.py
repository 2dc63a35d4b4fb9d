"""The small network that users would train on comparisons instead, to compare with.

Two layers of 256 with ReLU and dropout, the softplus of the difference of squared distances as its
loss, AdamW; it stops early by comparisons of held-out points. It needs NumPy and torch alone.
"""

import numpy as np


class Network:
    """Two layers of 256, and 64 numbers for each sample, trained by triplets."""

    def __init__(self, seed):
        self.seed = seed

    def fit(self, X, *, triplets, constraint_weight=None):
        import torch

        torch.manual_seed(self.seed)
        torch.set_num_threads(1)
        layers = [torch.nn.Linear(X.shape[1], 256)]
        layers += [torch.nn.ReLU(), torch.nn.Dropout(0.2), torch.nn.Linear(256, 256)]
        layers += [torch.nn.ReLU(), torch.nn.Dropout(0.2), torch.nn.Linear(256, 64)]
        self.net = torch.nn.Sequential(*layers)
        learn = torch.optim.AdamW(self.net.parameters(), lr=1e-3, weight_decay=1e-2)
        rows, supervision = torch.tensor(X, dtype=torch.float32), torch.tensor(triplets)
        weights = torch.ones(len(supervision)) if constraint_weight is None else constraint_weight
        weights = torch.as_tensor(weights, dtype=torch.float32)
        points = torch.unique(supervision[:, 0])
        out = torch.isin(supervision[:, 0], points[torch.randperm(len(points))[: len(points) // 5]])
        kept, best, best_at = torch.nonzero(~out)[:, 0], np.inf, 0
        for epoch in range(300):
            self.net.train()
            for batch in kept[torch.randperm(len(kept))].split(256):
                used, places = torch.unique(supervision[batch], return_inverse=True)
                learn.zero_grad()
                near, far = _sides(self.net(rows[used]), places)
                losses = torch.nn.functional.softplus(near - far)
                (losses * weights[batch]).sum().div(weights[batch].sum()).backward()
                learn.step()
            self.net.eval()
            with torch.no_grad():
                near, far = _sides(self.net(rows), supervision[out])
                wrong = float(((near >= far) * weights[out]).sum())
            if wrong < best:
                best, best_at = wrong, epoch
                found = {name: value.clone() for name, value in self.net.state_dict().items()}
            elif epoch - best_at >= 15:
                break
        self.net.load_state_dict(found)
        return self

    def transform(self, X):
        import torch

        with torch.no_grad():
            return self.net(torch.tensor(X, dtype=torch.float32)).numpy().astype(float)


def _sides(Z, triplets):
    i, j, r = (Z[column] for column in triplets.T)
    return ((i - j) ** 2).sum(1), ((i - r) ** 2).sum(1)
