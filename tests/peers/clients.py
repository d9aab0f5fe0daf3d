"""Programs people write, in small: each is given the namespace it takes its layers from.

In the manner of pytorch/examples (mnist, vae, dcgan, siamese, super_resolution), nanoGPT, bias_free_denoising and cleanrl
(ppo, dqn): the networks, the code that fills their weights, and a few training steps on random numbers.
"""

import torch
from torch import nn as plain
from torch.nn import functional as F


def check_std(weight, expected):
    """Init code had an effect: as far as a computed weight can hold what was asked for, all rows but the last."""
    assert abs(weight[:-1].std().item() / expected - 1) < 0.25, f"std {weight[:-1].std():.3g}, asked for {expected:.3g}"


def train(model, loss, steps=3, rate=1e-3):
    optimiser = torch.optim.Adam(model.parameters(), rate)
    for _ in range(steps):
        optimiser.zero_grad()
        value = loss()
        value.backward()
        optimiser.step()
    assert value.isfinite()
    assert all(p.grad is not None for p in model.parameters())


def stack(*layers):
    return plain.Sequential(*layers)


def mnist(nn, convert):
    """Two convolutions, two linear layers, dropout."""
    body = (
        nn.Conv2d(1, 8, 3),
        plain.ReLU(),
        nn.Conv2d(8, 16, 3),
        plain.ReLU(),
        plain.MaxPool2d(2),
        plain.Dropout(0.25),
    )
    head = (plain.Flatten(), nn.Linear(16 * 4, 32), plain.ReLU(), nn.Linear(32, 10), plain.LogSoftmax(1))
    model = convert(stack(*body, *head), torch.randn(8, 1, 8, 8))
    x, y = torch.randn(8, 1, 8, 8), torch.randint(10, (8,))
    train(model, lambda: F.nll_loss(model(x), y))


class VAE(plain.Module):
    def __init__(self, nn):
        super().__init__()
        self.hidden, self.mean, self.spread = nn.Linear(64, 32), nn.Linear(32, 4), nn.Linear(32, 4)
        self.decoder = stack(nn.Linear(4, 32), plain.ReLU(), nn.Linear(32, 64), plain.Sigmoid())

    def forward(self, x):
        hidden = self.hidden(x).relu()
        mean, log_variance = self.mean(hidden), self.spread(hidden)
        return self.decoder(mean + torch.randn_like(mean) * (log_variance / 2).exp()), mean, log_variance


def vae(nn, convert):
    x = torch.rand(8, 64)
    model = convert(VAE(nn), x)

    def loss():
        y, mean, log_variance = model(x)
        return F.binary_cross_entropy(y, x) - 0.5 * (1 + log_variance - mean**2 - log_variance.exp()).mean()

    train(model, loss)


def dcgan(nn, convert):
    """The critic, whose weights are filled by the names of classes."""
    layers = (nn.Conv2d(3, 16, 4, 2, 1, bias=False), plain.LeakyReLU(0.2), nn.Conv2d(16, 32, 4, 2, 1, bias=False))
    head = (plain.BatchNorm2d(32), plain.LeakyReLU(0.2), nn.Conv2d(32, 1, 4, 1, 0, bias=False))
    x = torch.randn(4, 3, 16, 16)
    model = convert(stack(*layers, *head, plain.Flatten(), plain.Sigmoid()), x)

    def init(module):
        if "Conv" in type(module).__name__:
            plain.init.normal_(module.weight, 0.0, 0.02)

    model.apply(init)
    for layer in (model[0], model[2]):
        check_std(layer.weight, 0.02)
    train(model, lambda: F.binary_cross_entropy(model(x).mean(1), torch.ones(4)))


def siamese(nn, convert):
    """A network of two images, and weights filled by the kinds of layers that are torch's own."""
    x, other = torch.randn(8, 1, 8, 8), torch.randn(8, 1, 8, 8)
    body = convert(stack(nn.Conv2d(1, 8, 3), plain.ReLU(), plain.Flatten(), nn.Linear(8 * 36, 16)), x)
    head = convert(stack(nn.Linear(32, 16), plain.ReLU(), nn.Linear(16, 1)), torch.randn(2, 32))

    def init(module):
        if isinstance(module, nn.Linear):
            plain.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                module.bias.data.fill_(0.01)

    model = plain.ModuleList([body, head]).apply(init)
    labels = torch.ones(8, 1)
    train(model, lambda: F.binary_cross_entropy_with_logits(head(torch.cat([body(x), body(other)], 1)), labels))


def super_resolution(nn, convert):
    """Orthogonal weights, three of them with the gain of ReLU."""
    x, y = torch.randn(2, 1, 8, 8), torch.randn(2, 1, 16, 16)
    convs = [nn.Conv2d(1, 16, 5, 1, 2), nn.Conv2d(16, 16, 3, 1, 1), nn.Conv2d(16, 8, 3, 1, 1), nn.Conv2d(8, 4, 3, 1, 1)]
    layers = [layer for conv in convs for layer in (conv, plain.ReLU())]
    model = convert(stack(*layers[:-1], plain.PixelShuffle(2)), x)
    for i, gain in ((0, 2**0.5), (2, 2**0.5), (4, 2**0.5), (6, 1.0)):
        plain.init.orthogonal_(model[i].weight, gain)
        rows = model[i].weight.flatten(1)[:-1]
        torch.testing.assert_close(rows @ rows.mT, gain**2 * torch.eye(len(rows)), atol=1e-4, rtol=1e-4)
    train(model, lambda: F.mse_loss(model(x), y))


class Block(plain.Module):
    def __init__(self, nn, width, bias):
        super().__init__()
        self.norms = plain.ModuleList([plain.LayerNorm(width, bias=bias) for _ in range(2)])
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width, bias=bias), nn.Linear(width, width, bias=bias)
        self.mlp = stack(nn.Linear(width, 4 * width, bias=bias), plain.GELU(), nn.Linear(4 * width, width, bias=bias))

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (2, -1)).transpose(1, 2) for part in self.c_attn(self.norms[0](x)).chunk(3, -1))
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        x = x + self.c_proj(attended)
        return x + self.mlp(self.norms[1](x))


class GPT(plain.Module):
    def __init__(self, nn, words=12, width=16, context=8, bias=True):
        super().__init__()
        self.tokens, self.places = plain.Embedding(words, width), plain.Embedding(context, width)
        self.blocks = stack(*(Block(nn, width, bias) for _ in range(2)))
        self.head = nn.Linear(width, words, bias=False)
        self.tokens.weight = self.head.weight
        for module in self.modules():
            if isinstance(module, nn.Linear | plain.Embedding):
                plain.init.normal_(module.weight, 0.0, 0.02)
        for name, parameter in self.named_parameters():
            if name.endswith("c_proj.weight"):
                plain.init.normal_(parameter, 0.0, 0.02 / 2)

    def forward(self, words):
        return self.head(self.blocks(self.tokens(words) + self.places.weight[: words.shape[1]]))


def gpt(nn, convert):
    """Trains, crops its context and generates; the head's weight is the embedding's."""
    words = torch.randint(12, (4, 8))
    model = convert(GPT(nn), None)
    assert torch.equal(model.tokens.weight, model.head.weight)
    check_std(model.head.weight, 0.02)
    train(model, lambda: F.cross_entropy(model(words)[:, :-1].flatten(0, 1), words[:, 1:].flatten()))
    for _ in range(4):
        words = torch.cat([words, model(words[:, -8:])[:, -1:].argmax(-1)], 1)
    assert words.shape == (4, 12)


class UNet(plain.Module):
    def __init__(self, nn):
        super().__init__()
        self.down, self.inner = nn.Conv2d(1, 8, 3, padding=1, bias=False), nn.Conv2d(8, 8, 3, padding=1, bias=False)
        self.up = plain.ConvTranspose2d(8, 8, 2, 2, bias=False)
        self.last = nn.Conv2d(16, 1, 3, padding=1, bias=False)

    def forward(self, x):
        high = self.down(x).relu()
        low = self.inner(F.avg_pool2d(high, 2)).relu()
        return self.last(torch.cat([high, self.up(low)], 1))


def denoising(nn, convert):
    """DnCNN and UNet without biases; scaled noise is removed to scale unless a neuron brings biases of its own."""
    x = torch.randn(2, 1, 8, 8)
    convs = [nn.Conv2d(sizes[0], sizes[1], 3, padding=1, bias=False) for sizes in ((1, 8), (8, 8), (8, 1))]
    for made in (stack(convs[0], plain.ReLU(), convs[1], plain.ReLU(), convs[2]), UNet(nn)):
        model = convert(made, x)
        train(model, lambda model=model: F.mse_loss(x - model(x), torch.zeros_like(x)))
        if not any(name.endswith("coupling") for name, _ in model.named_parameters()):
            torch.testing.assert_close(model(4 * x), 4 * model(x))


class Walk:
    """A point is to stay in the middle of a line; it is seen with its last three places."""

    def __init__(self):
        self.seen = torch.zeros(4)

    def step(self, action):
        place = self.seen[0] + (0.1 if action else -0.1) + 0.05 * torch.randn(())
        self.seen = torch.cat([place.view(1), self.seen[:-1]])
        return self.seen, -place.abs()


def ppo(nn, convert):
    """Orthogonal weights with a small last layer, constant biases; clipped policy gradients."""

    def layer_init(layer, std=2**0.5, bias=0.0):
        plain.init.orthogonal_(layer.weight, std)
        plain.init.constant_(layer.bias, bias)
        return layer

    def agent(outputs, std):
        hidden = layer_init(nn.Linear(4, 16)), plain.Tanh(), layer_init(nn.Linear(16, 16)), plain.Tanh()
        return convert(stack(*hidden, layer_init(nn.Linear(16, outputs), std)), torch.randn(2, 4))

    actor, critic, walk = agent(3, 0.01), agent(1, 1.0), Walk()
    rows = actor[-1].weight[:-1]
    torch.testing.assert_close(rows @ rows.mT, 1e-4 * torch.eye(2), atol=1e-6, rtol=1e-3)
    states, actions, rewards, before = [], [], [], []
    for _ in range(16):
        states.append(walk.seen)
        policy = torch.distributions.Categorical(logits=actor(walk.seen).detach())
        actions.append(policy.sample())
        before.append(policy.log_prob(actions[-1]))
        rewards.append(walk.step(actions[-1] > 0)[1])
    states, actions, rewards, before = (torch.stack(one) for one in (states, actions, rewards, before))

    def loss():
        policy, values = torch.distributions.Categorical(logits=actor(states)), critic(states).squeeze(-1)
        ratio, advantage = (policy.log_prob(actions) - before).exp(), rewards - values.detach()
        clipped = torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)
        return F.mse_loss(values, rewards) - clipped.mean() - 0.01 * policy.entropy().mean()

    train(plain.ModuleList([actor, critic]), loss)


def dqn(nn, convert):
    """A network and a slow copy of it, to which its parameters are moved."""
    network = [convert(stack(nn.Linear(4, 16), plain.ReLU(), nn.Linear(16, 2)), torch.randn(2, 4)) for _ in range(2)]
    values, target = network
    target.load_state_dict(values.state_dict())
    walk = Walk()
    steps = [(walk.seen, action, *walk.step(action)) for action in (0, 1, 1, 0) * 4]
    states, actions, following, rewards = zip(*steps, strict=True)
    states, following, rewards = torch.stack(states), torch.stack(following), torch.stack(rewards)
    expected = rewards + 0.9 * target(following).max(1).values.detach()
    train(values, lambda: F.mse_loss(values(states).gather(1, torch.tensor(actions).view(-1, 1)).squeeze(1), expected))
    for slow, fast in zip(target.parameters(), values.parameters(), strict=True):
        slow.data.copy_(0.5 * fast.data + 0.5 * slow.data)
    assert target(states).isfinite().all()


CLIENTS = (mnist, vae, dcgan, siamese, super_resolution, gpt, denoising, ppo, dqn)
