"""A diffusion model of points on a circle: a few steps of training, then a walk back from noise."""

import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

T = 50
device = "cuda" if torch.cuda.is_available() else "cpu"
betas = torch.linspace(1e-4, 0.05, T).to(device)
alphas = 1.0 - betas
alphas_cumprod = torch.cumprod(alphas, dim=0)
alphas_cumprod_prev = F.pad(alphas_cumprod[:-1], (1, 0), value=1.0)
sqrt_alphas_cumprod = torch.sqrt(alphas_cumprod)
sqrt_one_minus_alphas_cumprod = torch.sqrt(1.0 - alphas_cumprod)
posterior_variance = betas * (1.0 - alphas_cumprod_prev) / (1.0 - alphas_cumprod)


def extract(a, t, x_shape):
    out = a.gather(-1, t)
    return out.reshape(t.shape[0], *((1,) * (len(x_shape) - 1)))


class SinusoidalPositionEmbeddings(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, time):
        half_dim = self.dim // 2
        embeddings = math.log(10000) / (half_dim - 1)
        embeddings = torch.exp(torch.arange(half_dim, device=time.device) * -embeddings)
        embeddings = time[:, None] * embeddings[None, :]
        return torch.cat((embeddings.sin(), embeddings.cos()), dim=-1)


class Denoiser(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.time_mlp = nn.Sequential(SinusoidalPositionEmbeddings(16), nn.Linear(16, dim), nn.SiLU())
        self.inp = nn.Linear(2, dim)
        self.norm = nn.GroupNorm(4, dim)
        self.out = nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, 2))

    def forward(self, x, t):
        return self.out(self.norm(self.inp(x)) + self.time_mlp(t))


def q_sample(x_start, t, noise):
    return (
        extract(sqrt_alphas_cumprod, t, x_start.shape) * x_start
        + extract(sqrt_one_minus_alphas_cumprod, t, x_start.shape) * noise
    )


@torch.no_grad()
def p_sample(model, x, t, t_index, noise):
    betas_t = extract(betas, t, x.shape)
    predicted = betas_t * model(x, t) / extract(sqrt_one_minus_alphas_cumprod, t, x.shape)
    model_mean = torch.rsqrt(extract(alphas, t, x.shape)) * (x - predicted)
    if t_index == 0:
        return model_mean
    return model_mean + torch.sqrt(extract(posterior_variance, t, x.shape)) * noise


rng = np.random.default_rng(6)
model = Denoiser().to(device)
for m in model.modules():
    if isinstance(m, nn.Linear):
        m.weight.data = torch.tensor(rng.normal(0, 0.2, m.weight.shape), dtype=torch.float32, device=device)
        nn.init.zeros_(m.bias)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(20):
    angle = rng.uniform(0, 2 * np.pi, 64)
    batch = torch.tensor(np.stack([np.cos(angle), np.sin(angle)], 1), dtype=torch.float32, device=device)
    t = torch.tensor(rng.integers(0, T, 64), device=device).long()
    noise = torch.tensor(rng.standard_normal((64, 2)), dtype=torch.float32, device=device)
    optimizer.zero_grad()
    loss = F.smooth_l1_loss(noise, model(q_sample(batch, t, noise), t))
    loss.backward()
    optimizer.step()
    if step % 5 == 4:
        print("Loss:", round(loss.item(), 5))

img = torch.tensor(rng.standard_normal((4, 2)), dtype=torch.float32, device=device)
for i in reversed(range(0, T)):
    noise = torch.tensor(rng.standard_normal((4, 2)), dtype=torch.float32, device=device)
    img = p_sample(model, img, torch.full((4,), i, device=device, dtype=torch.long), i, noise)
print("radii:", [round(r, 3) for r in img.norm(dim=1).cpu().tolist()])
