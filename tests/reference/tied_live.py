#!/usr/bin/env python3
"""Trains the tied net of tests/accelerator/tied_weights_test.cpp with torch.optim and prints its weights as JSON.

{"SGD": [numbers, …], …}: the elements of `embedding`, then of `bias`, fp64, after ten steps.
"""
import json

import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Parameter((torch.arange(12, dtype=torch.double) + 1).sin().view(3, 4) * 0.5)
        self.bias = torch.nn.Parameter(torch.zeros(3, dtype=torch.double))
        self.head = self.embedding

    def forward(self, x):
        return torch.tanh(x @ self.embedding) @ self.head.T + self.bias


OPTIMIZERS = {
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=0.01),
    "AdamW": lambda parameters: torch.optim.AdamW(parameters, lr=0.05, weight_decay=0.1),
    "Adagrad": lambda parameters: torch.optim.Adagrad(parameters, lr=0.1),
    "RMSprop": lambda parameters: torch.optim.RMSprop(parameters, lr=0.01, momentum=0.5),
}


def trained(make):
    net = Net()
    optimizer = make(net.parameters())
    for step in range(10):
        x = (torch.arange(24, dtype=torch.double) * 0.7 + step).sin().view(8, 3)
        (net(x) - x.flip(1)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return torch.cat([net.embedding.flatten(), net.bias]).tolist()


print(json.dumps({name: trained(make) for name, make in OPTIMIZERS.items()}))
