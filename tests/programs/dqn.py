"""Steps of deep Q-learning with a replay memory and a target network, on a walk along a line."""

import random
from collections import deque, namedtuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn, optim

Transition = namedtuple("Transition", ("state", "action", "next_state", "reward"))


class ReplayMemory:
    def __init__(self, capacity):
        self.memory = deque([], maxlen=capacity)

    def push(self, *args):
        self.memory.append(Transition(*args))

    def sample(self, batch_size):
        return random.sample(self.memory, batch_size)

    def __len__(self):
        return len(self.memory)


class DQN(nn.Module):
    def __init__(self, n_observations, n_actions):
        super(DQN, self).__init__()
        self.layer1 = nn.Linear(n_observations, 24)
        self.layer2 = nn.Linear(24, 24)
        self.layer3 = nn.Linear(24, n_actions)

    def forward(self, x):
        x = F.relu(self.layer1(x))
        x = F.relu(self.layer2(x))
        return self.layer3(x)


BATCH_SIZE, GAMMA, EPS, TAU = 16, 0.9, 0.3, 0.05
random.seed(0)
rng = np.random.default_rng(5)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
policy_net = DQN(2, 2).to(device)
with torch.no_grad():
    for param in policy_net.parameters():
        param.copy_(torch.as_tensor(rng.normal(0, 0.3, tuple(param.shape))))
target_net = DQN(2, 2).to(device)
target_net.load_state_dict(policy_net.state_dict())
optimizer = optim.AdamW(policy_net.parameters(), lr=1e-2, amsgrad=True)
memory = ReplayMemory(1000)


def select_action(state):
    if random.random() > EPS:
        with torch.no_grad():
            return policy_net(state).max(1)[1].view(1, 1)
    return torch.tensor([[random.randrange(2)]], device=device, dtype=torch.long)


def optimize_model():
    transitions = memory.sample(BATCH_SIZE)
    batch = Transition(*zip(*transitions))
    non_final_mask = torch.tensor(tuple(s is not None for s in batch.next_state), device=device, dtype=torch.bool)
    non_final_next_states = torch.cat([s for s in batch.next_state if s is not None])
    state_batch, action_batch, reward_batch = torch.cat(batch.state), torch.cat(batch.action), torch.cat(batch.reward)
    state_action_values = policy_net(state_batch).gather(1, action_batch)
    next_state_values = torch.zeros(BATCH_SIZE, device=device)
    with torch.no_grad():
        next_state_values[non_final_mask] = target_net(non_final_next_states).max(1).values
    expected = (next_state_values * GAMMA) + reward_batch
    loss = nn.SmoothL1Loss()(state_action_values, expected.unsqueeze(1))
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_value_(policy_net.parameters(), 100)
    optimizer.step()
    return loss


position, losses = 3, []
for t in range(40):
    state = torch.tensor([[position / 6, 1.0]], dtype=torch.float32, device=device)
    action = select_action(state)
    position += 1 if action.item() else -1
    done = position in (0, 6)
    after = None if done else torch.tensor([[position / 6, 1.0]], dtype=torch.float32, device=device)
    memory.push(state, action, after, torch.tensor([float(position == 6)], device=device))
    position = 3 if done else position
    if len(memory) >= BATCH_SIZE:
        losses.append(optimize_model().item())
        target_dict, policy_dict = target_net.state_dict(), policy_net.state_dict()
        for key in policy_dict:
            target_dict[key] = policy_dict[key] * TAU + target_dict[key] * (1 - TAU)
        target_net.load_state_dict(target_dict)
print("losses", [round(loss, 4) for loss in losses[::6]])
print("values", policy_net(torch.tensor([[0.5, 1.0]], device=device)).detach().cpu().numpy().round(4).tolist())
