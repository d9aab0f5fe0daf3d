import torch
from torch import nn

from neuronal.models.registry import create_model
from neuronal.models.vit import Attention
from tests.models.networks import count, small


def test_as_many_parameters_as_timms():
    assert count("vit_tiny", num_classes=1000, img_size=224) == 5_717_416


def test_attention_is_torchs():
    ours, torchs = Attention(12, 3), nn.MultiheadAttention(12, 3, batch_first=True)
    torchs.in_proj_weight, torchs.in_proj_bias = ours.qkv.weight, ours.qkv.bias
    torchs.out_proj.weight, torchs.out_proj.bias = ours.projection.weight, ours.projection.bias
    x = torch.randn(2, 5, 12)
    torch.testing.assert_close(ours(x), torchs(x, x, x, need_weights=False)[0])


def test_patches():
    assert create_model("vit_tiny", img_size=8, depth=1).features[0].positions.shape[1] == 1 + 4
    assert create_model("vit_tiny", img_size=128, depth=1).features[0].positions.shape[1] == 1 + 64
    assert create_model("vit_tiny", img_size=8, depth=1, patch=2).features[0].positions.shape[1] == 1 + 16


def test_positions_matter():
    net = small("vit_tiny").eval()
    x = torch.randn(1, 2, 8, 8)
    assert not torch.allclose(net(x), net(x.flip(3)))
