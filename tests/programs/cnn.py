"""A small convolutional network learns to tell three patterns apart."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self, num_classes=3):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, kernel_size=3, padding=1)
        self.bn1 = nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 16, 3, padding=1)
        self.pool = nn.MaxPool2d(2, 2)
        self.dropout = nn.Dropout(p=0.0)
        self.fc1 = nn.Linear(16 * 3 * 3, 32)
        self.fc2 = nn.Linear(32, num_classes)

    def forward(self, x):
        x = self.pool(F.relu(self.bn1(self.conv1(x))))
        x = self.pool(F.relu(self.conv2(x)))
        x = x.view(x.size(0), -1)
        x = self.dropout(F.relu(self.fc1(x)))
        return self.fc2(x)


def make_data(rng, count):
    labels = rng.integers(0, 3, count)
    images = rng.normal(0, 0.3, (count, 1, 12, 12)).astype(np.float32)
    for image, label in zip(images, labels):
        if label == 0:
            image[0, ::2] += 1
        elif label == 1:
            image[0, :, ::2] += 1
        else:
            image[0, 3:9, 3:9] += 1
    return torch.from_numpy(images), torch.from_numpy(labels)


def init_weights(model, rng):
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.dim() > 1:
                fan_in = p[0].numel()
                p.copy_(torch.from_numpy(rng.normal(0, fan_in**-0.5, p.shape)))
            elif name.endswith("bias"):
                p.zero_()


def evaluate(model, loader, device):
    model.eval()
    correct, total = 0, 0
    with torch.no_grad():
        for images, labels in loader:
            images, labels = images.to(device), labels.to(device)
            _, predicted = torch.max(model(images), 1)
            total += labels.size(0)
            correct += (predicted == labels).sum().item()
    return 100 * correct / total


torch.manual_seed(0)
rng = np.random.default_rng(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
train_loader = DataLoader(TensorDataset(*make_data(rng, 128)), batch_size=32, shuffle=False)
test_loader = DataLoader(TensorDataset(*make_data(rng, 64)), batch_size=32)

model = Net().to(device)
init_weights(model, rng)
criterion = nn.CrossEntropyLoss()
optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
scheduler = optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)

for epoch in range(3):
    model.train()
    running_loss = 0.0
    for inputs, targets in train_loader:
        inputs, targets = inputs.to(device), targets.to(device)
        optimizer.zero_grad()
        loss = criterion(model(inputs), targets)
        loss.backward()
        optimizer.step()
        running_loss += loss.item() * inputs.size(0)
    scheduler.step()
    print(f"epoch {epoch}: loss {running_loss / len(train_loader.dataset):.5f} lr {scheduler.get_last_lr()[0]:.4f}")
print(f"accuracy {evaluate(model, test_loader, device):.2f} %")
