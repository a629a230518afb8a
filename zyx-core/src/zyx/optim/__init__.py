"""Optimisers, learning rates that change, and bounds for gradients. Start reading at `zyx.optim.optimizer`."""

from zyx.optim import lr_scheduler
from zyx.optim.accumulating import Adadelta, Adagrad, Adamax
from zyx.optim.adafactor import Adafactor
from zyx.optim.adam import Adam, AdamW
from zyx.optim.adam_kin import NAdam, RAdam
from zyx.optim.clip_groups import clip_grad_norm_by_group
from zyx.optim.cycles import (
    ChainedScheduler,
    ConstantLR,
    CosineAnnealingWarmRestarts,
    CyclicLR,
    LinearLR,
    MultiplicativeLR,
    PolynomialLR,
    SequentialLR,
)
from zyx.optim.group import OptimizerGroup
from zyx.optim.lbfgs import LBFGS
from zyx.optim.muon import Muon
from zyx.optim.optimizer import Optimizer
from zyx.optim.param_groups import ParamGroup
from zyx.optim.plateau import ReduceLROnPlateau
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
from zyx.optim.signs_and_averages import ASGD, Rprop
from zyx.tensor.clip import clip_grad_norm, clip_grad_norm_, clip_grad_value, clip_grad_value_

__all__ = [
    "ASGD",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LambdaLR",
    "LinearLR",
    "LinearWarmup",
    "MultiStepLR",
    "MultiplicativeLR",
    "Muon",
    "NAdam",
    "OneCycleLR",
    "Optimizer",
    "OptimizerGroup",
    "ParamGroup",
    "PolynomialLR",
    "RAdam",
    "RMSprop",
    "ReduceLROnPlateau",
    "Rprop",
    "Schedule",
    "SequentialLR",
    "StepLR",
    "clip_grad_norm",
    "clip_grad_norm_",
    "clip_grad_norm_by_group",
    "clip_grad_value",
    "clip_grad_value_",
    "lr_scheduler",
]  # fmt: skip
