"""A generator and a discriminator play for the numbers of a shifted normal distribution."""

import numpy as np
import torch
import torch.nn as nn
import torch.optim as optim

batch_size, nz = 64, 8


class Generator(nn.Module):
    def __init__(self):
        super(Generator, self).__init__()
        self.main = nn.Sequential(
            nn.Linear(nz, 32, bias=False),
            nn.BatchNorm1d(32),
            nn.ReLU(True),
            nn.Linear(32, 32),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Linear(32, 2),
        )

    def forward(self, input):
        return self.main(input)


class Discriminator(nn.Module):
    def __init__(self):
        super(Discriminator, self).__init__()
        self.main = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2, inplace=True), nn.Linear(32, 1), nn.Sigmoid())

    def forward(self, input):
        return self.main(input).view(-1)


def weights_init(m):
    classname = m.__class__.__name__
    if classname.find("Linear") != -1:
        m.weight.data.copy_(torch.from_numpy(rng.normal(0.0, 0.2, m.weight.shape)))
        if m.bias is not None:
            nn.init.zeros_(m.bias)
    elif classname.find("BatchNorm") != -1:
        nn.init.constant_(m.weight.data, 1.0)
        nn.init.constant_(m.bias.data, 0)


rng = np.random.default_rng(2)
device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
netG, netD = Generator().to(device), Discriminator().to(device)
netG.apply(weights_init)
netD.apply(weights_init)
criterion = nn.BCELoss()
optimizerD = optim.Adam(netD.parameters(), lr=0.002, betas=(0.5, 0.999))
optimizerG = optim.Adam(netG.parameters(), lr=0.002, betas=(0.5, 0.999))

for i in range(8):
    # Update D: maximize log(D(x)) + log(1 - D(G(z)))
    netD.zero_grad()
    real = torch.tensor(rng.normal([2.0, -1.0], 0.5, (batch_size, 2)), dtype=torch.float, device=device)
    label = torch.full((batch_size,), 1.0, dtype=torch.float, device=device)
    output = netD(real)
    errD_real = criterion(output, label)
    errD_real.backward()
    D_x = output.mean().item()

    noise = torch.from_numpy(rng.standard_normal((batch_size, nz))).float().to(device)
    fake = netG(noise)
    label.fill_(0.0)
    output = netD(fake.detach())
    errD_fake = criterion(output, label)
    errD_fake.backward()
    errD = errD_real + errD_fake
    optimizerD.step()

    # Update G: maximize log(D(G(z)))
    netG.zero_grad()
    label.fill_(1.0)
    output = netD(fake)
    errG = criterion(output, label)
    errG.backward()
    optimizerG.step()
    if i % 2 == 1:
        print("[%d/8] Loss_D: %.4f Loss_G: %.4f D(x): %.4f D(G(z)): %.4f" % (
            i + 1, errD.item(), errG.item(), D_x, output.mean().item()))  # fmt: skip

with torch.no_grad():
    sample = netG(torch.ones(2, nz, device=device)).cpu().numpy()
print("sample", sample.round(3).ravel().tolist())
