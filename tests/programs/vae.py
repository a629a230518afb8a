"""A variational autoencoder of small pictures of bars."""

import numpy as np
import torch
import torch.utils.data
from torch import nn, optim
from torch.nn import functional as F


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(64, 32)
        self.fc21 = nn.Linear(32, 4)
        self.fc22 = nn.Linear(32, 4)
        self.fc3 = nn.Linear(4, 32)
        self.fc4 = nn.Linear(32, 64)

    def encode(self, x):
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        eps = torch.from_numpy(rng.standard_normal(tuple(std.shape))).to(std)
        return mu + eps * std

    def decode(self, z):
        h3 = F.relu(self.fc3(z))
        return torch.sigmoid(self.fc4(h3))

    def forward(self, x):
        mu, logvar = self.encode(x.view(-1, 64))
        z = self.reparameterize(mu, logvar)
        return self.decode(z), mu, logvar


class Bars(torch.utils.data.Dataset):
    def __init__(self, count, seed):
        rng = np.random.default_rng(seed)
        self.images = rng.uniform(0, 0.1, (count, 1, 8, 8)).astype("float32")
        for image, place, across in zip(self.images, rng.integers(0, 8, count), rng.integers(0, 2, count)):
            if across:
                image[0, place] = 0.9
            else:
                image[0, :, place] = 0.9

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return torch.from_numpy(self.images[index]), index % 2


def loss_function(recon_x, x, mu, logvar):
    BCE = F.binary_cross_entropy(recon_x, x.view(-1, 64), reduction="sum")
    KLD = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return BCE + KLD


torch.manual_seed(1)
rng = np.random.default_rng(3)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
train_loader = torch.utils.data.DataLoader(Bars(96, 0), batch_size=32, shuffle=False)
test_loader = torch.utils.data.DataLoader(Bars(32, 1), batch_size=32, shuffle=False)
model = VAE().to(device)
state = {name: torch.from_numpy(rng.normal(0, 0.15, tuple(p.shape))).float() for name, p in model.state_dict().items()}
model.load_state_dict(state)
optimizer = optim.Adam(model.parameters(), lr=1e-2)

for epoch in range(1, 4):
    model.train()
    train_loss = 0
    for batch_idx, (data, _) in enumerate(train_loader):
        data = data.to(device)
        optimizer.zero_grad()
        recon_batch, mu, logvar = model(data)
        loss = loss_function(recon_batch, data, mu, logvar)
        loss.backward()
        train_loss += loss.item()
        optimizer.step()
    model.eval()
    test_loss = 0
    with torch.no_grad():
        for data, _ in test_loader:
            data = data.to(device)
            recon, mu, logvar = model(data)
            test_loss += loss_function(recon, data, mu, logvar).item()
    print(f"====> Epoch: {epoch} loss: {train_loss / len(train_loader.dataset):.4f} test: {test_loss / 32:.4f}")
