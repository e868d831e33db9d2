"""The language model of programs/language_model.h; as it stands by itself, of 27 million weights."""
from torch import nn


class Block(nn.Module):
    def __init__(self, width, heads, causal):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.attention_norm, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        rows, tokens, width = x.shape
        heads = self.qkv(self.attention_norm(x)).view(rows, tokens, 3, self.heads, width // self.heads)
        attended = nn.functional.scaled_dot_product_attention(*heads.permute(2, 0, 3, 1, 4), is_causal=self.causal)
        x = x + self.out(attended.transpose(1, 2).reshape(rows, tokens, width))
        return x + self.down(nn.functional.gelu(self.up(self.norm_2(x))))


class Net(nn.Module):
    def __init__(self, vocabulary=8000, width=512, heads=8, layers=6, causal=False):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Block(width, heads, causal) for _ in range(layers))
        self.head = nn.Linear(width, vocabulary)

    def forward(self, x):
        x = self.embedding(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)
