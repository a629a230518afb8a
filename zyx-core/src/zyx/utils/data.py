"""`zyx.data` by PyTorch's name."""

from zyx.data import (
    ConcatDataset,
    DataLoader,
    Dataset,
    Subset,
    TensorDataset,
    collate,
    random_split,
)
from zyx.data import collate as default_collate  # PyTorch's name

__all__ = [
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "Subset",
    "TensorDataset",
    "collate",
    "default_collate",
    "random_split",
]
