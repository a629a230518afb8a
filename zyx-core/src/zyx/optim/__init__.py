"""Optimisers, learning rates that change, and bounds for gradients. Start reading at `zyx.optim.optimizer`."""

from zyx.optim.adam import Adam, AdamW
from zyx.optim.clip import clip_grad_norm, clip_grad_norm_, clip_grad_value, clip_grad_value_
from zyx.optim.group import OptimizerGroup
from zyx.optim.optimizer import Optimizer
from zyx.optim.rmsprop import RMSprop
from zyx.optim.schedules import (
    CosineAnnealingLR,
    ExponentialLR,
    LambdaLR,
    LinearWarmup,
    MultiStepLR,
    OneCycleLR,
    Schedule,
    StepLR,
)
from zyx.optim.sgd import SGD

__all__ = [
    "SGD", "Adam", "AdamW", "CosineAnnealingLR", "ExponentialLR", "LambdaLR", "LinearWarmup", "MultiStepLR",
    "OneCycleLR", "Optimizer", "OptimizerGroup", "RMSprop", "Schedule", "StepLR", "clip_grad_norm",
    "clip_grad_norm_", "clip_grad_value", "clip_grad_value_",
]  # fmt: skip
