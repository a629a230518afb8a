"""What is compared with PyTorch beside layers: optimisers with their settings, and schedules. See `torch_rows`."""

from __future__ import annotations

from zyx import optim

#: Steps that schedules are followed for.
STEPS = 10
#: By the name of the class: rows of settings.
OPTIMISERS = {
    "SGD": [
        {"lr": 0.1},
        {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1},
        {"lr": 0.1, "momentum": 0.9, "nesterov": True, "maximize": True},
    ],
    "Adam": [{"lr": 0.01, "weight_decay": 0.1, "amsgrad": True}],
    "AdamW": [{"lr": 0.01}],
    "RMSprop": [{"lr": 0.01}, {"lr": 0.01, "centered": True, "momentum": 0.9, "weight_decay": 0.1}],
    "Adagrad": [{"lr": 0.1}, {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.5}],
    "Adadelta": [{}, {"lr": 0.5, "rho": 0.8, "weight_decay": 0.1, "maximize": True}],
    "Adamax": [{}, {"lr": 0.05, "betas": (0.8, 0.9), "weight_decay": 0.1}],
    "NAdam": [{"lr": 0.02}, {"weight_decay": 0.1, "decoupled_weight_decay": True, "momentum_decay": 0.1}],
    "RAdam": [{"lr": 0.02}, {"lr": 0.02, "betas": (0.8, 0.9), "weight_decay": 0.1}],
    "Rprop": [{}, {"lr": 0.1, "etas": (0.4, 1.5), "step_sizes": (0.01, 0.3)}],
    "ASGD": [{"lr": 0.1}, {"lr": 0.1, "lambd": 0.1, "t0": 3, "weight_decay": 0.1}],
    "Adafactor": [{}, {"lr": 0.5, "d": 1.5, "weight_decay": 0.1, "eps": (1e-6, 0.1), "maximize": True}],
    "Muon": [{"lr": 0.1}, {"lr": 0.1, "nesterov": False, "adjust_lr_fn": "match_rms_adamw"}],
}
#: By the name of the class: rows of settings of those whose steps take a closure.
CLOSURES = {
    "LBFGS": [
        {"lr": 0.1, "max_iter": 5},
        {"lr": 0.5, "max_iter": 3, "history_size": 4},
        {"max_iter": 4, "line_search_fn": "strong_wolfe"},
        {"lr": 0.01, "max_iter": 4, "max_eval": 6, "history_size": 2, "line_search_fn": "strong_wolfe"},
    ]
}
#: What is compared less closely, and why.
LOOSE = {"Muon": (2e-2, "PyTorch orthogonalises in bfloat16, which has 8 bits")}
#: Classes of `torch.optim` without a row, and why.
NO_ROW = {
    "Optimizer": "is what optimisers are made of",
    "SparseAdam": "is for sparse gradients, and all gradients are dense",
}
#: By the name of the class: our schedule, and how theirs is made.
SCHEDULES = {
    "LambdaLR": (optim.LambdaLR(0.1, lambda t: 1 / (t + 1)), lambda s, o: s.LambdaLR(o, lambda t: 1 / (t + 1))),
    "MultiplicativeLR": (
        optim.MultiplicativeLR(0.1, lambda t: 0.9 - 0.01 * t, STEPS),
        lambda s, o: s.MultiplicativeLR(o, lambda t: 0.9 - 0.01 * t),
    ),
    "StepLR": (optim.StepLR(0.1, 3, 0.5), lambda s, o: s.StepLR(o, 3, 0.5)),
    "MultiStepLR": (optim.MultiStepLR(0.1, (2, 6)), lambda s, o: s.MultiStepLR(o, [2, 6])),
    "ConstantLR": (optim.ConstantLR(0.1, 0.5, 4), lambda s, o: s.ConstantLR(o, 0.5, 4)),
    "LinearLR": (optim.LinearLR(0.1, 0.25, 0.75, 4), lambda s, o: s.LinearLR(o, 0.25, 0.75, 4)),
    "LinearLR up to its rate": (optim.LinearWarmup(0.1, 4, 0.25), lambda s, o: s.LinearLR(o, 0.25, 1.0, 4)),
    "ExponentialLR": (optim.ExponentialLR(0.1, 0.9), lambda s, o: s.ExponentialLR(o, 0.9)),
    "PolynomialLR": (optim.PolynomialLR(0.1, 7, 2.0), lambda s, o: s.PolynomialLR(o, 7, 2.0)),
    "CosineAnnealingLR": (
        optim.CosineAnnealingLR(0.1, STEPS, 0.01),
        lambda s, o: s.CosineAnnealingLR(o, STEPS, 0.01),
    ),
    "CosineAnnealingWarmRestarts": (
        optim.CosineAnnealingWarmRestarts(0.1, 2, 2, 0.01),
        lambda s, o: s.CosineAnnealingWarmRestarts(o, 2, 2, 0.01),
    ),
    "CyclicLR": (
        optim.CyclicLR(0.01, 0.1, 2, 3, "triangular2"),
        lambda s, o: s.CyclicLR(o, 0.01, 0.1, 2, 3, "triangular2", cycle_momentum=False),
    ),
    "CyclicLR by a function": (
        optim.CyclicLR(0.01, 0.1, 2, scale_fn=lambda t: 1 / (t + 1), scale_mode="iterations"),
        lambda s, o: s.CyclicLR(
            o, 0.01, 0.1, 2, scale_fn=lambda t: 1 / (t + 1), scale_mode="iterations", cycle_momentum=False
        ),
    ),
    "OneCycleLR": (optim.OneCycleLR(0.1, STEPS), lambda s, o: s.OneCycleLR(o, 0.1, STEPS, cycle_momentum=False)),
    "OneCycleLR in three lines": (
        optim.OneCycleLR(
            0.1, epochs=2, steps_per_epoch=STEPS // 2, pct_start=0.45, anneal_strategy="linear", three_phase=True
        ),
        lambda s, o: s.OneCycleLR(
            o,
            0.1,
            epochs=2,
            steps_per_epoch=STEPS // 2,
            pct_start=0.45,
            anneal_strategy="linear",
            three_phase=True,
            cycle_momentum=False,
        ),
    ),
    "SequentialLR": (
        optim.SequentialLR([optim.LinearLR(0.1, 0.1, 1.0, 3), optim.ExponentialLR(0.1, 0.8)], [3]),
        lambda s, o: s.SequentialLR(o, [s.LinearLR(o, 0.1, 1.0, 3), s.ExponentialLR(o, 0.8)], [3]),
    ),
    "ChainedScheduler": (
        optim.ChainedScheduler([optim.ConstantLR(0.1, 0.5, 4), optim.ExponentialLR(0.1, 0.9)]),
        lambda s, o: s.ChainedScheduler([s.ConstantLR(o, 0.5, 4), s.ExponentialLR(o, 0.9)]),
    ),
}
#: By the name of the class: rows of settings with which the momentum goes against the rate.
MOMENTA = {
    "OneCycleLR": [
        {"max_lr": [0.1, 0.7], "total_steps": STEPS + 1},
        {"max_lr": 0.1, "total_steps": STEPS + 1, "three_phase": True, "anneal_strategy": "linear", "pct_start": 0.4},
        {"max_lr": 0.1, "total_steps": STEPS + 1, "base_momentum": [0.5, 0.6], "max_momentum": 0.99, "div_factor": 5.0},
        {"max_lr": 0.1, "total_steps": STEPS + 1, "pct_start": 0.0, "final_div_factor": 10.0},
    ],
    "CyclicLR": [
        {"base_lr": 0.01, "max_lr": 0.1, "step_size_up": 3},
        {"base_lr": [0.01, 0.02], "max_lr": [0.1, 0.2], "step_size_up": 2, "step_size_down": 3, "mode": "triangular2"},
        {"base_lr": 0.01, "max_lr": 0.1, "step_size_up": 2, "mode": "exp_range", "gamma": 0.9, "base_momentum": 0.3},
    ],
}
#: Classes of `torch.optim.lr_scheduler` without a row, and why.
NO_SCHEDULE = {
    "LRScheduler": "is what schedules are made of",
    "ReduceLROnPlateau": "depends on measures: test_a_rate_falls_on_a_plateau_as_in_pytorch",
}
