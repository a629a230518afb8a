"""Samples in batches: data sets, and a loader that shuffles, prefetches and shows how far it is.

    pictures = zyx.data.TensorDataset(x, y)
    for x, y in zyx.data.DataLoader(pictures, batch_size=64, shuffle=True, seed=0, num_workers=2):
        ...

A data set is anything with ``__len__`` and ``__getitem__``. Start reading at `zyx.data.loader`.
"""

from zyx.data.collate import collate
from zyx.data.dataset import ConcatDataset, Dataset, Subset, TensorDataset, random_split
from zyx.data.loader import DataLoader
from zyx.data.samplers import RandomSampler, Sampler, SequentialSampler, SubsetRandomSampler, WeightedRandomSampler

__all__ = [
    "ConcatDataset", "DataLoader", "Dataset", "RandomSampler", "Sampler", "SequentialSampler", "Subset",
    "SubsetRandomSampler", "TensorDataset", "WeightedRandomSampler", "collate", "random_split",
]  # fmt: skip
