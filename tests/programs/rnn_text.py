"""An LSTM learns the letters of a sentence, and writes on."""

import numpy as np
import torch
import torch.nn as nn

text = "the quick brown fox jumps over the lazy dog. " * 4
chars = sorted(set(text))
char_to_idx = {ch: i for i, ch in enumerate(chars)}
idx_to_char = {i: ch for i, ch in enumerate(chars)}


class CharRNN(nn.Module):
    def __init__(self, vocab_size, embed_size, hidden_size, num_layers):
        super().__init__()
        self.embed = nn.Embedding(vocab_size, embed_size)
        self.lstm = nn.LSTM(embed_size, hidden_size, num_layers, batch_first=True)
        self.linear = nn.Linear(hidden_size, vocab_size)

    def forward(self, x, h):
        x = self.embed(x)
        out, (h, c) = self.lstm(x, h)
        out = out.reshape(out.size(0) * out.size(1), out.size(2))
        return self.linear(out), (h, c)


def detach(states):
    return [state.detach() for state in states]


embed_size, hidden_size, num_layers, batch_size, seq_length = 16, 32, 1, 4, 15
rng = np.random.default_rng(4)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
ids = torch.LongTensor([char_to_idx[ch] for ch in text]).view(batch_size, -1)
model = CharRNN(len(chars), embed_size, hidden_size, num_layers).to(device)
for p in model.parameters():
    p.data = torch.tensor(rng.uniform(-0.2, 0.2, tuple(p.shape)), dtype=torch.float32, device=device)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)

for epoch in range(4):
    states = (
        torch.zeros(num_layers, batch_size, hidden_size).to(device),
        torch.zeros(num_layers, batch_size, hidden_size).to(device),
    )
    for i in range(0, ids.size(1) - seq_length, seq_length):
        inputs = ids[:, i : i + seq_length].to(device)
        targets = ids[:, (i + 1) : (i + 1) + seq_length].to(device)
        states = detach(states)
        outputs, states = model(inputs, states)
        loss = criterion(outputs, targets.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
    print("Epoch [{}/{}], Loss: {:.4f}, Perplexity: {:5.2f}".format(epoch + 1, 4, loss.item(), np.exp(loss.item())))

with torch.no_grad():
    state = [torch.zeros(num_layers, 1, hidden_size, device=device) for _ in range(2)]
    input = torch.tensor([[char_to_idx["t"]]], device=device)
    written = "t"
    for _ in range(12):
        output, state = model(input, state)
        input = output.argmax(dim=1, keepdim=True)
        written += idx_to_char[input.item()]
print("written:", written)
