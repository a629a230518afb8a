"""An optimiser, a schedule and a layer of one's own."""

import numpy as np

import zyx
from zyx import nn, optim

zyx.manual_seed(0)


class Lion(optim.Optimizer):
    """Steps of the sign of a mean gradient. Chen et al., "Symbolic discovery of optimization algorithms", 2023."""

    settings = ("betas", "weight_decay")

    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0):
        self.betas, self.weight_decay = betas, weight_decay
        super().__init__(params, lr)

    def state_names(self):
        return ("mean",)

    def update(self, param, grad, state, lr, step):
        mean = state["mean"]
        direction = mean * self.betas[0] + grad * (1 - self.betas[0])
        sign = (direction > 0.0).cast(param.dtype) - (direction < 0.0).cast(param.dtype)
        new = mean * self.betas[1] + grad * (1 - self.betas[1])
        return {"mean": new, "param": param - (sign + param * self.weight_decay) * lr}


class Residual(nn.Module):
    """What is inside, added to what goes in, by a share that is trained."""

    def __init__(self, inside):
        self.inside = inside
        self.share = nn.Parameter(zyx.zeros(1))

    def forward(self, x):
        return x + self.inside(x) * self.share


network = nn.Sequential(
    nn.Linear(1, 32), *(Residual(nn.Sequential(nn.Linear(32, 32), nn.Tanh())) for _ in range(3)), nn.Linear(32, 1)
)
optimizer = Lion(dict(network.named_parameters()), optim.LambdaLR(3e-3, lambda step: 1.0 / (1.0 + step / 100.0)))
x = zyx.Tensor(np.linspace(-3, 3, 128, dtype=np.float32)[:, None])
wanted = (x * 2.0).sin()


@zyx.jit
def step():
    with zyx.Tape() as tape:
        loss = zyx.mse_loss(network(x), wanted)
    optimizer.step(tape.gradient(loss, optimizer.params))
    return loss


first = step().item()
for _ in range(600):
    loss = step()
print(f"{len(optimizer.params)} parameters, {step.traces[0].plan.launches} kernels a step")
print(f"loss {first:.4f} -> {loss.item():.4f} in {optimizer.step_count.item()} steps")
assert loss.item() < 0.1 * first
