"""The shape every image model here has: features, then a linear head, named as timm names them."""

from __future__ import annotations

from torch import Tensor, nn

from neuronal.core.decay import no_weight_decay
from neuronal.core.records import Json
from neuronal.nn.families import Family


class Classifier(nn.Module):
    """``features`` (images to vectors of ``num_features``) followed by the family's linear head.

    ``zero_head`` starts the head at zero, as Fixup asks for.
    """

    recipe: Json
    """Arguments of ``create_model`` that build the same network again."""
    no_weight_decay = no_weight_decay
    """What timm's optimisers spare the weight decay."""

    def __init__(
        self,
        layers: Family,
        features: nn.Module,
        num_features: int,
        num_classes: int,
        in_chans: int,
        *,
        zero_head: bool = False,
    ) -> None:
        super().__init__()
        self.layers = layers
        self.num_features = num_features
        self.in_chans = in_chans
        self.zero_head = zero_head
        self.recipe = {}
        self.features = features
        self.reset_classifier(num_classes)

    def reset_classifier(self, num_classes: int) -> None:
        """A new head for ``num_classes`` classes; 0 leaves the features as output."""
        self.num_classes = num_classes
        self.head = self.layers.Head(self.num_features, num_classes) if num_classes else nn.Identity()
        if self.zero_head:
            for parameter in self.head.parameters():
                nn.init.zeros_(parameter)
        if self.recipe:
            self.recipe["num_classes"] = num_classes

    def get_classifier(self) -> nn.Module:
        return self.head

    def forward_features(self, x: Tensor) -> Tensor:
        features: Tensor = self.features(x)
        return features

    def forward_head(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(x)
        return logits

    def forward(self, x: Tensor) -> Tensor:
        return self.forward_head(self.forward_features(x))
