"""The campaign against certificates: ten seconds of it here, an hour with ``-m slow``."""

from dataclasses import replace

import pytest

from neuronal.certify import certify_ball
from tests.soundness.campaign import Counts, attack, campaign, network


def seen_by(numbers):
    counts = Counts()
    for number in numbers:
        counts.add(attack(number))
    return counts


# Networks of every kind, among the first 24 those that take least time for their samples.
SHORT = (0, 2, 4, 5, 7, 8, 10, 11, 14, 17, 19, 23)


def test_a_short_campaign_finds_nothing_false():
    counts = seen_by(SHORT)
    assert counts.false == []
    assert counts.samples > 300_000
    assert not counts.unconfirmed
    kinds = {network(number)[2] for number in SHORT}
    assert {"one row", "cnn float64", "mlp float64", "mlp"} <= kinds


def test_the_campaign_finds_what_is_false(monkeypatch):
    """A maker that says the opposite of what holds is found at once."""

    def enlarged(*given, **options):
        ball = certify_ball(*given, **options)
        if ball.evidence is None:
            return ball
        return replace(ball, evidence=replace(ball.evidence, radius=1e4 * ball.evidence.radius))

    monkeypatch.setattr("tests.soundness.campaign.certify_ball", enlarged)
    assert any("ball" in line for number in range(6) for line in attack(number).false)


@pytest.mark.slow
@pytest.mark.timeout(2 * 3600)
def test_an_hour_finds_nothing_false():
    counts, _ = campaign(60.0, first=100_000)
    assert counts.false == []
