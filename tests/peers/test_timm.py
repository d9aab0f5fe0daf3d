"""timm's tests with ``torch.fx``, after ``convert``: the graph computes the same and has a gradient for every parameter."""

import pytest
import torch
from torch import fx

import neuronal
from neuronal.nn.families import FAMILIES
from tests.peers.conftest import COUPLED, case, expected, reason
from tests.vision import vision

ROW = "timm fx"
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(300)]
# Small networks of every architecture; a layer that is solved takes longer, and runs on the first of them.
NAMES = """
test_byobnet test_convnext test_convnext2 test_convnext3 test_efficientnet test_efficientnet_evos test_efficientnet_gn
test_efficientnet_ln test_mambaout test_nfnet test_resnet test_vit test_vit2 test_vit3 test_vit4 botnet26t_256
coat_lite_tiny convit_tiny convnext_atto convnextv2_atto crossvit_tiny_240 cs3darknet_focus_s dla46_c
edgenext_xx_small efficientvit_b0 efficientvit_m0 ese_vovnet19b_slim_dw fasternet_t0 fastvit_t8 ghostnet_050
gmlp_ti16_224 hgnetv2_b0 lcnet_035 levit_128s mambaout_femto maxvit_rmlp_pico_rw_256 mixer_s32_224 mobilenetv2_035
mobilenetv3_small_050 mobileone_s0 mobilevit_xxs mobilevitv2_050 mvitv2_tiny nf_regnet_b0 pit_ti_224 poolformer_s12
pvt_v2_b0 regnetx_002 regnety_002 repghostnet_050 repvgg_a0 repvit_m0_9 resmlp_12_224 resnet10t resnet18 rexnet_100
shvit_s1 skresnet18 starnet_s1 swiftformer_xs tf_efficientnet_lite0 tiny_vit_5m_224 tinynet_e vit_tiny_patch16_224
xcit_nano_12_p8_224
""".split()  # noqa: SIM905
SOLVED = 13
# See tests/peers/test_torch_modules.py; the kinds are names of networks.
LEAF = "a layer of a constant of the model is traced itself"
EXPECTED = expected(("forward backward", "geometric farkas", LEAF, "maxvit_rmlp_pico_rw_256"))


def made(name, family):
    """A converted network, an image of the smallest size it takes, and timm's way to record it."""
    vision()
    import timm
    from timm.models._features_fx import get_notrace_functions, get_notrace_modules

    class Tracer(fx.Tracer):
        def is_leaf_module(self, module, path):
            return isinstance(module, tuple(get_notrace_modules())) or super().is_leaf_module(module, path)

    model = timm.create_model(name, num_classes=10).eval()
    config = model.pretrained_cfg
    size = config["input_size"] if config.get("fixed_input_size") else config.get("min_input_size") or (3, 96, 96)
    x = torch.randn(2, *size)
    if family != "standard":
        options = {"example": x} if family == "zero_bias" else COUPLED.get(family, {})
        model = neuronal.convert(model, family, **options).model

    def record(model):
        tracer = Tracer(autowrap_functions=get_notrace_functions(), param_shapes_constant=True)
        return fx.GraphModule(model, tracer.trace(model))

    return model, x, record


def forward(name, family):
    model, x, record = made(name, family)
    with torch.no_grad():
        assert torch.equal(record(model)(x), model(x))


def backward(name, family):
    model, x, record = made(name, family)
    graph = record(model.train())
    y = graph(x)
    (y if isinstance(y, torch.Tensor) else torch.cat(y)).mean().backward()
    assert not [name for name, parameter in graph.named_parameters() if parameter.grad is None]


def cases():
    for family in FAMILIES:
        for name in NAMES[:SOLVED] if family == "implicit_bias" else NAMES:
            for check in (forward, backward):
                yield case(check, name, family, expected=reason(EXPECTED, check.__name__, family, name), slow=True)


@pytest.mark.parametrize(("check", "name", "family"), list(cases()))
def test_fx(check, name, family):
    check(name, family)
