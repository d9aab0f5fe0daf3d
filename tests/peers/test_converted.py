"""Converted networks under packages that train, explain, export and quantise networks: 41 checks of each family."""

import copy
import pickle
from functools import partial, partialmethod
from itertools import product

import pytest
import torch
from torch import fx, nn
from torch.ao import quantization
from torch.nn import functional as F
from torch.nn.utils import parametrizations
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.flop_counter import FlopCounterMode

import neuronal
from neuronal.nn.families import FAMILIES
from tests.peers.conftest import COUPLED, OURS, case, checks, close, expected, reason
from tests.vision import vision

ROW = "ecosystem, converted"
# Of other packages, and of what they use.
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(300)]
# See tests/peers/test_torch_modules.py.
EXPECTED = expected(
    # Seen below: subclasses of torch's own layers that change nothing fail alike.
    ("dynamic_int8 ptflops", OURS, "looks the exact class up in a table of torch's own"),
    ("fused_norm", "zero_bias", "convert has folded the norm, so there is none to fuse"),
    ("fused_norm", "geometric farkas implicit_bias", "looks the exact class up in a table of torch's own"),
    ("torchinfo", "geometric farkas", "counts parameters called weight, and none of a parametrised layer"),
    # They take instances of nn.Linear, which a layer with a ReLU within, a last unit that is not free, or a coupling is not.
    ("torchao lora", "geometric farkas implicit_bias", "takes subclasses of nn.Linear"),
    ("deeplift", "implicit_bias", "a coupling is no rule of DeepLift, which has rules for single units"),
)
# Of torch and the dev extra alone, and quick.
FAST = ("flop_counter", "fx", "fused_norm", "transformer", "attention", "init", "repr", "dynamic_int8", "safetensors")
FAST += ("dynamic_int8_of_standard", "timm_averages", "hub", "features")
package = partial(pytest.importorskip, reason="it is in the extra: pip install 'neuronal[peers]'")


def network():
    """Two convolutions and a linear layer."""
    layers = [nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5))


def dense(inputs=6, hidden=8, outputs=3):
    layers = [nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, outputs)]
    return nn.Sequential(*layers)


class NetworkChecks:
    """A small convolutional network and a small dense one, converted, and what packages do to them."""

    def __init__(self, family, folder):
        self.family, self.folder = family, folder
        self.net, self.dense = self.convert(network()), self.convert(dense())
        plain = network()
        plain[1] = nn.Identity()
        self.unnormed, self.plain = self.convert(plain), plain
        self.x, self.rows, self.labels = torch.randn(4, 3, 8, 8), torch.randn(4, 6), torch.tensor([0, 1, 2, 0])
        self.loader = DataLoader(TensorDataset(torch.randn(16, 3, 8, 8), torch.randint(5, (16,))), batch_size=4)

    def convert(self, model):
        if self.family == "standard":
            return model
        return neuronal.convert(model, self.family, **COUPLED.get(self.family, {})).model

    def train(self, model, optimiser, backward=torch.Tensor.backward):
        for x, y in self.loader:
            optimiser.zero_grad()
            backward(F.cross_entropy(model(x), y))
            optimiser.step()
        assert all(p.isfinite().all() for p in model.parameters())

    def check_inductor(self):
        torch._dynamo.reset()
        compiled = torch.compile(self.net.eval(), fullgraph=True, dynamic=True)
        for x in (self.x, torch.randn(2, 3, 8, 8)):
            close(compiled(x), self.net(x), 1e-3)

    def check_compiled_training(self):
        torch._dynamo.reset()
        self.train(torch.compile(self.net, fullgraph=True), torch.optim.SGD(self.net.parameters(), 0.1))

    def check_ahead_of_time(self):
        program = torch.export.export(self.net.eval(), (self.x,))
        path = torch._inductor.aoti_compile_and_package(program, package_path=f"{self.folder}/model.pt2")
        close(torch._inductor.aoti_load_package(path)(self.x), self.net(self.x), 1e-3)

    def onnx(self, is_dynamic=True, is_standard=False):
        onnxruntime = package("onnxruntime")
        model = (neuronal.to_standard(self.net) if is_standard else self.net).eval()
        y, path = torch.randn(7, 3, 8, 8) if is_dynamic else self.x, f"{self.folder}/model.onnx"
        dims = {"dynamic_shapes": ({0: torch.export.Dim("batch", min=1, max=64)},)} if is_dynamic else {}
        torch.onnx.export(model, (self.x,), path, dynamo=True, verbose=False, **dims)
        session = onnxruntime.InferenceSession(path)
        found = session.run(None, {session.get_inputs()[0].name: y.numpy()})[0]
        close(torch.from_numpy(found), model(y).detach(), 1e-3)

    check_onnx = partialmethod(onnx, is_dynamic=False)
    check_onnx_dynamic = partialmethod(onnx)
    check_onnx_of_standard = partialmethod(onnx, is_standard=True)

    def opacus(self, **options):
        model = package("opacus").GradSampleModule(self.unnormed, loss_reduction="sum", **options)
        F.cross_entropy(model(self.x), self.labels, reduction="sum").backward()
        for parameter in model.parameters():
            close(parameter.grad_sample.sum(0), parameter.grad, 1e-3)

    check_opacus = partialmethod(opacus)
    check_opacus_functorch = partialmethod(opacus, force_functorch=True)

    def check_private_training(self):
        sgd = torch.optim.SGD(self.unnormed.parameters(), 0.1)
        model, sgd, self.loader = (
            package("opacus")
            .PrivacyEngine()
            .make_private(
                module=self.unnormed, optimizer=sgd, data_loader=self.loader, noise_multiplier=1.0, max_grad_norm=1.0
            )
        )
        self.train(model, sgd)

    def quantised(self, model):
        """All three layers, not some of them in silence."""
        small = quantization.quantize_dynamic(model.eval(), {nn.Linear}, dtype=torch.qint8)
        close(small(self.rows), model(self.rows), 0.1)
        kinds = [type(layer) for layer in small.modules()]
        assert sum("quantized" in kind.__module__ and kind.__name__ == "Linear" for kind in kinds) == 3

    def check_dynamic_int8(self):
        self.quantised(self.dense)

    def check_dynamic_int8_of_standard(self):
        self.quantised(neuronal.to_standard(self.dense))

    def check_torchao(self):
        torchao = package("torchao.quantization")
        model, x = self.convert(dense(32, 32, 32)).eval(), torch.randn(4, 32)
        expected = model(x)
        torchao.quantize_(model, torchao.Int8WeightOnlyConfig())
        close(model(x), expected, 0.1)
        assert all("torchao" in type(model[i].weight).__module__ for i in (0, 2, 4))

    def check_pt2e(self):
        pt2e = package("torchao.quantization.pt2e.quantize_pt2e")
        x86 = package("torchao.quantization.pt2e.quantizer.x86_inductor_quantizer")
        program = torch.export.export(self.unnormed.eval(), (self.x,)).module()
        config = x86.X86InductorQuantizer().set_global(x86.get_default_x86_inductor_quantization_config())
        prepared = pt2e.prepare_pt2e(program, config)
        prepared(self.x)
        close(pt2e.convert_pt2e(prepared)(self.x), self.unnormed(self.x), 0.1)

    def check_rate_finder(self):
        adam = torch.optim.AdamW(self.net.parameters(), 1e-5)
        finder = package("torch_lr_finder").LRFinder(self.net, adam, nn.CrossEntropyLoss(), device="cpu")
        finder.range_test(self.loader, end_lr=1, num_iter=5)
        finder.reset()

    def check_accelerate(self):
        accelerate = package("accelerate")
        accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
        accelerator = accelerate.Accelerator(cpu=True, mixed_precision="bf16")
        adam = torch.optim.AdamW(self.net.parameters())
        model, adam, self.loader = accelerator.prepare(self.net, adam, self.loader)
        self.train(model, adam, accelerator.backward)
        accelerator.save_state(self.folder)
        accelerator.load_state(self.folder)
        accelerator.save_model(model, self.folder)

    def check_trainer(self):
        hub = package("transformers")
        rows = [{"x": row, "labels": label} for row, label in zip(self.rows, self.labels, strict=True)]
        words = hub.TrainingArguments(self.folder, max_steps=3, use_cpu=True, report_to=[], weight_decay=0.1)
        trainer = hub.Trainer(WithLoss(self.dense), words, train_dataset=rows, eval_dataset=rows)
        trainer.train()
        assert trainer.evaluate()["eval_loss"] < 10

    def check_bert(self):
        hub = package("transformers")
        sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
        model = hub.BertForSequenceClassification(hub.BertConfig(vocab_size=50, **sizes)).eval()
        converted, words = self.convert(copy.deepcopy(model)).eval(), torch.randint(50, (2, 7))
        if self.family == "geometric":
            close(converted(words).logits, model(words).logits)
        converted.train()(input_ids=words, labels=torch.tensor([0, 1])).loss.backward()
        converted.save_pretrained(self.folder)

    def check_lightning(self):
        lightning = package("lightning")

        class Module(lightning.LightningModule):
            def __init__(self, net):
                super().__init__()
                self.net = net

            def training_step(self, batch, _):
                return F.cross_entropy(self.net(batch[0]), batch[1])

            def configure_optimizers(self):
                return torch.optim.AdamW(self.parameters())

        quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
        where = {"accelerator": "cpu", "precision": "bf16-mixed", "default_root_dir": self.folder}
        average = lightning.pytorch.callbacks.StochasticWeightAveraging(1e-3)
        trainer = lightning.Trainer(max_epochs=2, callbacks=[average], **where, **quiet)
        trainer.fit(Module(self.net), self.loader)

    def check_skorch(self):
        words = {"criterion": nn.CrossEntropyLoss, "max_epochs": 2, "train_split": None, "verbose": 0}
        classifier = package("skorch").NeuralNetClassifier(self.dense, **words)
        classifier.fit(self.rows.numpy(), self.labels.numpy())
        again = pickle.loads(pickle.dumps(package("sklearn").clone(classifier)))
        assert again.fit(self.rows.numpy(), self.labels.numpy()).predict(self.rows.numpy()).shape == (4,)

    def check_timm_optimisers(self):
        for name in ("adamw", "lamb", "muon", "adafactor", "lion"):
            self.train(self.net, package("timm.optim").create_optimizer_v2(self.net, name, lr=1e-3, weight_decay=0.05))

    def check_timm_layer_decay(self):
        timm = package("timm")
        model = self.convert(timm.create_model("test_vit", num_classes=3))
        adam = timm.optim.create_optimizer_v2(model, "adamw", lr=1e-3, weight_decay=0.05, layer_decay=0.7)
        assert sum(len(group["params"]) for group in adam.param_groups) == len(list(model.parameters()))

    def check_timm_averages(self):
        utils = package("timm.utils")
        for average in (utils.ModelEmaV2(self.net), utils.ModelEmaV3(self.net)):
            average.update(self.net)
            close(average.module.eval()(self.x), self.net.eval()(self.x))

    def check_lora(self):
        peft = package("peft")
        peft.get_peft_model(self.dense, peft.LoraConfig(target_modules=["0", "2"], r=2))(self.rows).sum().backward()

    def check_captum(self):
        attr = package("captum.attr")
        model = self.unnormed.eval()
        words = {"target": 1, "n_steps": 100, "return_convergence_delta": True}
        assert attr.IntegratedGradients(model).attribute(self.x, **words)[1].abs().max() < 2e-2
        for method in (attr.Saliency(model), attr.InputXGradient(model), attr.LayerGradCam(model, model[0])):
            assert method.attribute(self.x, target=1).isfinite().all()
        groups = torch.arange(3).view(1, 3, 1, 1)
        assert attr.FeatureAblation(model).attribute(self.x, target=1, feature_mask=groups).isfinite().all()

    def check_deeplift(self):
        model = self.convert(nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))).eval()
        found = package("captum.attr").DeepLift(model).attribute(self.rows, target=1, return_convergence_delta=True)
        assert found[1].abs().max() < 1e-3

    def counts(self, count):
        """As many operations as in the plain network, and a few for reading weights."""
        assert 0.9 < count(self.unnormed.eval()) / count(self.plain.eval()) < 1.2

    def check_fvcore(self):
        fvcore = package("fvcore.nn")
        self.counts(lambda model: fvcore.FlopCountAnalysis(model, self.x).total())

    def check_ptflops(self):
        ptflops = package("ptflops")
        quiet = {"as_strings": False, "print_per_layer_stat": False, "backend": "pytorch"}
        self.counts(lambda model: ptflops.get_model_complexity_info(model, (3, 8, 8), **quiet)[0])

    def check_torchinfo(self):
        torchinfo = package("torchinfo")
        self.counts(lambda model: torchinfo.summary(model, (1, 3, 8, 8), verbose=0).total_mult_adds)

    def check_flop_counter(self):
        def count(model):
            with FlopCounterMode(display=False) as counter:
                model(self.x)
            return counter.get_total_flops()

        self.counts(count)

    def check_torchmetrics(self):
        metric = package("torchmetrics").Accuracy("multiclass", num_classes=5)
        metric(self.net(self.x), self.labels)
        assert 0 <= float(metric.compute()) <= 1

    def bounds(self, model):
        lirpa = pytest.importorskip("auto_LiRPA", reason="for this torch it comes from its repository only")
        box = lirpa.BoundedTensor(self.rows, lirpa.PerturbationLpNorm(norm=float("inf"), eps=0.1))
        low, high = lirpa.BoundedModule(model.eval(), self.rows, device="cpu").compute_bounds(x=(box,), method="CROWN")
        assert ((low <= model(self.rows) + 1e-5) & (model(self.rows) <= high + 1e-5)).all()

    def check_lirpa(self):
        self.bounds(self.dense)

    def check_lirpa_of_standard(self):
        self.bounds(neuronal.to_standard(self.dense))

    def check_fx(self):
        close(fx.symbolic_trace(self.net.eval())(self.x), self.net(self.x))

    def check_features(self):
        models = package("torchvision.models")
        model = self.convert(models.resnet18(num_classes=4)).eval()
        found = models.feature_extraction.create_feature_extractor(model, {"layer1": "first"})(
            torch.randn(1, 3, 32, 32)
        )
        assert found["first"].shape == (1, 64, 8, 8)

    def check_fused_norm(self):
        fused = quantization.fuse_modules(self.net.eval(), [["0", "1"]])
        close(fused(self.x), self.net(self.x), 1e-3)

    def check_safetensors(self):
        safetensors = package("safetensors.torch")
        other = self.convert(network()).eval()
        safetensors.save_model(self.net, f"{self.folder}/model.safetensors")
        safetensors.load_model(other, f"{self.folder}/model.safetensors")
        close(other(self.x), self.net.eval()(self.x))

    def check_hub(self):
        convert, hub = self.convert, package("huggingface_hub")

        class Model(nn.Module, hub.PyTorchModelHubMixin):
            def __init__(self, hidden: int = 8):
                super().__init__()
                self.net = convert(dense(6, hidden))

        model = Model(12)
        model.save_pretrained(self.folder)
        close(Model.from_pretrained(self.folder).net(self.rows), model.net(self.rows))

    def check_transformer(self):
        """Also on torch's fast path, which reads weights itself."""
        block = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.0)
        model, x = self.convert(nn.TransformerEncoder(block, 2)).eval(), torch.randn(2, 5, 16)
        expected = model(x)
        with torch.no_grad():
            close(model(x), expected)

    def check_attention(self):
        model, x = self.convert(nn.MultiheadAttention(16, 2, batch_first=True)).eval(), torch.randn(2, 5, 16)
        expected = model(x, x, x)[0]
        with torch.no_grad():
            close(model(x, x, x)[0], expected)

    def check_init(self):
        """As most repositories write it; nothing is ignored in silence."""

        def init(module):
            if getattr(module, "weight", None) is not None and module.weight.dim() > 1:
                nn.init.kaiming_normal_(module.weight)

        before = [p.clone() for p in self.net.parameters() if p.dim() > 1]
        self.net.apply(init)
        after = [p for p in self.net.parameters() if p.dim() > 1]
        assert not any(torch.equal(a, b) for a, b in zip(before, after, strict=True))

    def check_repr(self):
        assert repr(self.net).count("\n") >= 8


class WithLoss(nn.Module):
    """A network that returns its loss, as transformers' Trainer wants it."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x, labels=None):
        logits = self.net(x)
        return {"loss": F.cross_entropy(logits, labels), "logits": logits}


def cases():
    for family, check in product(FAMILIES, checks(NetworkChecks)):
        yield case(check, family, expected=reason(EXPECTED, check, family), slow=check not in FAST)


class Bare(NetworkChecks):
    """Not a neuron of ours: every layer is of a subclass of torch's that adds nothing."""

    def convert(self, model):
        for layer in model.modules():
            if type(layer) in (nn.Linear, nn.Conv2d):
                layer.__class__ = type("Bare", (type(layer),), {})
        return model


class WeightNorm(NetworkChecks):
    """Every layer is one of torch's parametrised ones."""

    def convert(self, model):
        for layer in model.modules():
            if type(layer) in (nn.Linear, nn.Conv2d):
                parametrizations.weight_norm(layer)
        return model


@pytest.mark.slow
@pytest.mark.parametrize(
    ("check", "kind"), [("dynamic_int8", Bare), ("ptflops", Bare), ("fused_norm", Bare), ("torchinfo", WeightNorm)]
)
def test_what_no_layer_but_torchs_own_passes(check, kind, tmp_path):
    """Each passes with plain layers, and fails with layers of the same function that are torch's but for their class."""
    vision()
    checks = kind("standard", str(tmp_path))
    checks.plain = network()
    checks.plain[1] = nn.Identity()
    with pytest.raises(AssertionError):
        getattr(checks, f"check_{check}")()


@pytest.mark.parametrize(("check", "family"), list(cases()))
def test_networks(check, family, tmp_path):
    vision()
    getattr(NetworkChecks(family, str(tmp_path)), f"check_{check}")()
