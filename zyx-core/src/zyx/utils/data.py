"""`zyx.data` by PyTorch's name."""

from zyx.data import (
    ConcatDataset,
    DataLoader,
    Dataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    collate,
    random_split,
)
from zyx.data import collate as default_collate  # PyTorch's name

__all__ = [
    "ConcatDataset", "DataLoader", "Dataset", "RandomSampler", "Sampler", "SequentialSampler", "Subset",
    "SubsetRandomSampler", "TensorDataset", "WeightedRandomSampler", "collate", "default_collate", "random_split",
]  # fmt: skip
