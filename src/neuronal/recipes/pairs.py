"""Networks whose interpolations are certified: from 30 hidden units to a convolutional one, zero-bias and biased.

The small ones are those of Geng, Xu, Ye & Si (Scalar Invariant Networks with Zero Bias), who look for pairs of images with
one activation pattern; the larger ones are where they found none.
"""

from dataclasses import replace

from neuronal.experiments.recipe import Recipe

DIGITS = Recipe(
    name="fcn 64-64",
    model="fcn",
    widths=(64, 64),
    data="digits",
    optim="adam",
    lr=3e-3,
    epochs=20,
    batch_size=64,
    holdout=0.0,
    seeds=(0, 1, 2),
    probes=(),
)
ON_DIGITS = (DIGITS, replace(DIGITS, name="fcn 128-128", widths=(128, 128)))

FASHION = replace(
    DIGITS, name="fcn 10-10-10", widths=(10, 10, 10), data="fashion_mnist", lr=1e-3, epochs=6, batch_size=128
)
ON_IMAGES = (
    FASHION,
    replace(FASHION, name="fcn 64", widths=(64,)),
    replace(FASHION, name="fcn 128-128", widths=(128, 128)),
    replace(FASHION, name="cnn 8-16", model="cnn", widths=(8, 16, 64), epochs=3),
)
NEURONS = ("zero_bias", "standard")
