from dataclasses import replace

from neuronal.experiments.cost import Costs
from neuronal.experiments.record import Failure
from neuronal.probes.contrast import Contrast
from neuronal.probes.zero_image import ZeroImage
from neuronal.report.comparison import Comparison
from neuronal.train.timing import StepTime


def planted(records, accuracies):
    """The records with other accuracies, in order."""
    return [replace(r, metrics={**r.metrics, "accuracy": a}) for r, a in zip(records, accuracies, strict=True)]


def say(records, times=None):
    steps = {record.recipe.fingerprint(): (times or {}).get(record.recipe.family) for record in records}
    found = {key: time for key, time in steps.items() if time}
    return Comparison.from_records(records, step_times=Costs(found, {})).findings


def test_a_clear_difference_is_called_one_and_noise_is_not(quick_records):
    clear = say(planted(quick_records, [0.80, 0.90, 0.81, 0.911]))
    assert clear[0] == "Highest mean test accuracy: zero_bias, 90.5 ± 0.6% (2 seeds)."
    assert "zero_bias +10.0 (+9.4 to +10.7): a difference is shown for zero_bias." in clear[1]
    costs = {"standard": StepTime(1, 1, 1, 1), "zero_bias": StepTime(1, 0.971, 0.95, 1.02)}
    assert say(quick_records, costs)[-1].endswith("zero_bias 0.97 (0.95–1.02).")
    noise = say(planted(quick_records, [0.80, 0.90, 0.92, 0.90]))
    assert noise[1].endswith("no difference is shown with these seeds.")
    alone = say(planted(quick_records, [0.8, 0.9, 0.8, 0.9])[:2])
    assert alone[0].endswith("90.0% (1 seed).")
    assert "zero_bias +10.0 (no interval): no difference is shown" in alone[1]


def test_neurons_without_a_common_seed_are_not_compared(quick_records):
    said = say([quick_records[0], quick_records[3]])
    assert "against" not in "".join(said[:2])


def test_contrast_and_zero_image_come_from_the_probes(quick_records):
    text = "\n".join(say(quick_records))
    zero_bias = [r for r in quick_records if r.recipe.family == "zero_bias"]
    mean = sum(r.metrics["accuracy"] for r in zero_bias) / 2
    assert f"The same accuracy at every contrast, for every seed: zero_bias ({100 * mean:.1f}%)." in text
    assert "Every class equally likely at the zero image: zero_bias." in text
    probes = {"zero_image": ZeroImage((0.01,) * 7 + (0.93, 0, 0), 0, 1)}
    changed = [replace(r, probes={**r.probes, **probes}) if r.seed == 1 else r for r in quick_records]
    assert "standard class 7 with 93% (seed 1)" in "\n".join(say(changed))
    one_point_off = [r.probe(Contrast) for r in zero_bias]
    one_point_off[0] = replace(one_point_off[0], accuracy=(*one_point_off[0].accuracy[:-1], 0.0))
    changed = [replace(r, probes={**r.probes, "contrast": c}) for r, c in zip(zero_bias, one_point_off, strict=True)]
    assert "at 0.0001" in "\n".join(say(changed))
    assert "The same accuracy" not in "\n".join(say(changed))


def test_failures_come_first(quick_records):
    failed = replace(quick_records[0], metrics={}, probes={}, failure=Failure(7, 0.1, "the loss became nan at step 7"))
    said = say([failed, *quick_records[1:]])
    assert said[0].startswith("standard failed with seed 0: the loss became nan at step 7.")
    assert say([failed])[-1] == "No cell finished, so there is nothing to compare."
    assert "remaining" not in say([failed])[0]
