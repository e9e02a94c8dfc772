"""Rules that judge rows by features, against literal forms; and the generative classifier."""

import numpy as np
import pytest
import torch
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.neighbors import LocalOutlierFactor
from torch.nn import functional

from kspr.experiments.baselines import make_method
from kspr.experiments.baselines.filters import (
    Graded,
    IterativeCV,
    IterNLD,
    TopoFilter,
    contrastive,
    discriminant,
    local_outlier_factor,
    outlier_probability,
    prototype_probabilities,
    robust_rows,
    wrong_among_agreeing,
)
from kspr.experiments.baselines.losses import generalised
from kspr.experiments.baselines.method import KEPT, fit_method
from kspr.experiments.compare.peers import PEERS, Shared
from kspr.noise import symmetric
from kspr.train import TrainSettings
from tests.experiments.baselines.rules import small_run


def test_topofilter_keeps_what_the_filter_of_compare_keeps():
    run, _ = small_run(n=80)
    run.epoch = 2
    TopoFilter(dimensions=512).after_epoch(run)
    features = run.outputs().features.numpy()
    shared = Shared(features - features.mean(axis=0), run.task.label.numpy(), 4)
    expected = PEERS["topofilter"].judge(shared, seed=0).clean
    assert run.memory[KEPT].tolist() == expected.tolist()


def test_rows_are_judged_from_the_beginning_on_and_not_after_the_last_epoch():
    judged = []
    for epoch in range(1, 11):
        run, _ = small_run(n=80)
        run.epoch = epoch
        TopoFilter().after_epoch(run)
        judged.append(KEPT in run.memory)
    assert [epoch for epoch, found in enumerate(judged, start=1) if found] == [2, 6]


def test_the_outlier_factor_is_that_of_scikit_learn():
    rows = torch.randn(60, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    rows[0] += 10
    known = LocalOutlierFactor(n_neighbors=7).fit(rows.numpy())
    found = local_outlier_factor(rows, 7)
    np.testing.assert_allclose(found, -known.negative_outlier_factor_, rtol=1e-6)
    doubt = outlier_probability(found)
    assert int(doubt.argmax()) == 0
    assert float(doubt[0]) > 0.99
    assert float(doubt.min()) == 0


def test_clean_pairs_of_a_class_attract_and_doubtful_ones_repel():
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(10, 3, generator=generator, dtype=torch.float64) / 3
    label, clean = torch.arange(10) % 2, torch.arange(10) < 7
    terms = []
    for i in range(10):
        for j in range(i + 1, 10):
            if label[i] != label[j] or not (clean[i] or clean[j]):
                continue
            distance = float((features[i] - features[j]).norm())
            both = clean[i] and clean[j]
            terms.append(distance**2 if both else max(1 - distance, 0) ** 2)
    found = contrastive(features, label, clean, 1.0)
    assert float(found) == pytest.approx(sum(terms) / len(terms))
    assert float(contrastive(features, label, torch.zeros(10, dtype=torch.bool), 1.0)) == 0


def test_outliers_of_a_class_lose_weight_in_the_loss():
    run, batch = small_run(n=80)
    method = IterNLD()
    method.begin(run)
    run.epoch = 2
    method.after_epoch(run)
    weight = run.memory["weight"]
    assert 0 < int((weight < 1).sum()) < 40
    (found,) = method.losses(run, batch)
    outputs = run.training_outputs(batch)
    own = functional.cross_entropy(outputs.logits, batch.label, reduction="none")
    expected = sum(float(w * v) for w, v in zip(weight, own.detach(), strict=True)) / float(
        weight.sum()
    )
    term = contrastive(functional.normalize(outputs.features), batch.label, weight == 1, 1.0)
    assert float(found.detach()) == pytest.approx(expected + 0.1 * float(term.detach()), rel=1e-4)


def test_the_noise_among_agreeing_labels_follows_from_how_many_agree():
    for rate in (0.0, 0.2, 0.5):
        share = (1 - rate) ** 2 + rate**2 / 9
        expected = rate**2 / 9 / share
        assert wrong_among_agreeing(share, 10) == pytest.approx(expected, abs=1e-12)
    # Fewer than any rate explains: the rate at which fewest agree.
    assert wrong_among_agreeing(0.01, 10) == pytest.approx(0.9)


def test_each_half_is_judged_by_the_network_of_the_other():
    run, batch = small_run(n_learners=2, epochs=2)
    method = IterativeCV()
    assert method.n_stages == 3
    method.begin(run)
    half = run.memory["half"].clone()
    own = [
        functional.cross_entropy(logits, batch.label, reduction="none")
        for logits in run.logits(batch)
    ]
    for k, loss in enumerate(method.losses(run, batch)):
        torch.testing.assert_close(loss, own[k][half == k].mean())
    predicted = [run.outputs(k).logits.argmax(dim=1).tolist() for k in range(2)]
    run.epoch = 2
    method.after_epoch(run)
    expected = [predicted[1 - int(half[i])][i] == int(batch.label[i]) for i in range(24)]
    assert run.memory["selected"].tolist() == expected
    assert KEPT not in run.memory
    run.epoch = 4
    method.after_epoch(run)
    assert torch.equal(run.memory[KEPT], run.memory["selected"])
    assert run.memory["selected"].sum() >= sum(expected)


def test_prototypes_are_class_means_compared_by_cosine():
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(12, 3, generator=generator)
    label = torch.arange(12) % 3
    rows = [row / np.linalg.norm(row) for row in (features - features.mean(dim=0)).numpy()]
    means = [np.mean([r for r, y in zip(rows, label, strict=True) if y == k], 0) for k in range(3)]
    cosines = np.array([[r @ m / np.linalg.norm(m) for m in means] for r in rows])
    expected = np.exp(cosines / 0.1) / np.exp(cosines / 0.1).sum(axis=1, keepdims=True)
    found = prototype_probabilities(features, label, 0.1)
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_a_label_is_graded_by_its_place_among_the_prototypes():
    run, batch = small_run()
    method = Graded()
    method.begin(run)
    soft, grade = run.memory["soft"], run.memory["grade"]
    for row in range(24):
        order = soft[row].argsort(descending=True).tolist()
        assert int(grade[row]) == min(order.index(int(batch.label[row])), 2)
    run.memory["grade"] = torch.arange(24) % 3
    (logits,) = run.logits(batch)
    parts = []
    for row in range(24):
        one = logits[row : row + 1], batch.label[row : row + 1]
        if row % 3 == 0:
            parts.append(functional.cross_entropy(*one))
        elif row % 3 == 1:
            parts.append(generalised(*one).mean())
        else:
            parts.append(-(soft[row] * one[0].log_softmax(dim=1)[0]).sum())
    torch.testing.assert_close(method.losses(run, batch)[0], torch.stack(parts).mean())


def gaussians(n=300, wrong=0.0, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    X = rng.standard_normal((n, 4)) @ rng.standard_normal((4, 4)) + 3 * np.eye(3, 4)[y]
    label = symmetric(y, wrong, seed) if wrong else y
    return torch.from_numpy(X), torch.from_numpy(label), torch.from_numpy(y)


def test_without_concentration_it_is_linear_discriminant_analysis_with_equal_priors():
    X, y, _ = gaussians()
    weight, bias = discriminant(X, y, 3, steps=0)
    found = (X @ weight.T + bias).argmax(dim=1)
    known = LinearDiscriminantAnalysis(priors=[1 / 3] * 3).fit(X.numpy(), y.numpy())
    assert (found.numpy() == known.predict(X.numpy())).mean() > 0.995


def test_each_step_keeps_the_half_that_lies_nearest_to_the_rows_kept_before():
    X, _, _ = gaussians(90)
    kept = np.arange(90)
    for steps in (1, 2):
        centre, covariance = X[kept].mean(dim=0).numpy(), np.cov(X[kept].numpy().T, ddof=0)
        covariance += 1e-4 * np.diag(covariance).mean() * np.eye(4)
        distance = [
            float((row - centre) @ np.linalg.inv(covariance) @ (row - centre)) for row in X.numpy()
        ]
        kept = np.argsort(distance, kind="stable")[: (90 + 4 + 1) // 2]
        assert sorted(robust_rows(X, steps).tolist()) == sorted(kept.tolist())


def test_wrong_labels_disturb_the_robust_means_less():
    X, label, y = gaussians(3000, wrong=0.3)
    true = torch.stack([X[y == k].mean(dim=0) for k in range(3)])

    def off(rows):
        return sum(float((rows(X[label == k]) - true[k]).norm()) for k in range(3))

    plain = off(lambda own: own.mean(dim=0))
    robust = off(lambda own: own[robust_rows(own, 2)].mean(dim=0))
    assert robust < 0.6 * plain


def test_a_class_without_rows_is_no_error():
    X, y, _ = gaussians()
    weight, bias = discriminant(X, y, 4)
    assert torch.isfinite(weight).all()
    assert torch.isfinite(bias).all()


@pytest.mark.slow
def test_rog_beats_plain_training_on_rows_that_are_many_for_their_dimension():
    """Gaussian classes, 40 % symmetric noise, 1000 rows a class; seeded."""
    rng = np.random.default_rng(0)
    y = np.arange(6000) % 5
    X = (rng.standard_normal((6000, 20)) + 1.2 * rng.standard_normal((5, 20))[y]).astype("f4")
    train = np.arange(6000) < 5000
    settings = TrainSettings.from_preset("cpu", epochs=15, batch_size=64)
    found = {
        name: fit_method(
            X[train],
            symmetric(y[train], 0.4, 0),
            make_method(name),
            settings=settings,
            test=(X[~train], y[~train]),
        ).test_accuracy
        for name in ("standard", "rog")
    }
    assert found["rog"] > found["standard"]
