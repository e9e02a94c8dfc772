"""The core answers in kind: torch tensors in, the same numbers as NumPy's out."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, fields
from pathlib import Path

import numpy as np
import pytest

import kspr.core
from kspr.core.knockoffs import STATISTICS, closed_form_times, most_confident
from kspr.core.penalties import PENALTIES, Penalty, shrink
from kspr.core.procedure import Procedure, judge, keep_smallest, spr_times
from kspr.core.reduction import Solver, fit_pca
from kspr.core.regression import Targets, fit_basis, gamma_path, selection_times
from kspr.core.splitting import prototypes
from kspr.core.theory import irrepresentable_values, recovery_conditions

torch = pytest.importorskip("torch")

PRECISION = {np.float64: 1e-9, np.float32: 2e-4}
dtypes = pytest.mark.parametrize("dtype", PRECISION)
penalties = pytest.mark.parametrize("penalty", PENALTIES.values(), ids=PENALTIES.keys())
intercepts = pytest.mark.parametrize("intercept", [False, True])


def assert_parity(function: Callable[..., object], *arrays: np.ndarray, atol: float = 1e-9) -> None:
    """Call `function` on arrays and on tensors; hold that it answers in kind and alike."""
    answers = function(*arrays)
    tensors = function(*(torch.from_numpy(np.ascontiguousarray(a)) for a in arrays))
    for answer, tensor in zip(unpack(answers), unpack(tensors), strict=True):
        assert isinstance(answer, np.ndarray)
        assert isinstance(tensor, torch.Tensor)
        found = tensor.numpy()
        assert found.shape == answer.shape
        assert found.dtype == answer.dtype
        if answer.dtype.kind == "f":
            np.testing.assert_allclose(found, answer, atol=atol, rtol=atol)
        else:
            np.testing.assert_array_equal(found, answer)


def unpack(answer: object) -> list[object]:
    if isinstance(answer, tuple):
        return list(answer)
    if hasattr(answer, "__dataclass_fields__"):
        values = [getattr(answer, field.name) for field in fields(answer)]
        return [value for value in values if value is not None]
    return [answer]


def blobs(seed: int, *shape: int, p: int = 5, c: int = 4) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    true = rng.integers(0, c, shape)
    X = 2 * np.eye(c, p)[true] + 0.6 * rng.standard_normal((*shape, p))
    return X, np.where(rng.random(shape) < 0.2, rng.integers(0, c, shape), true)


def some_valid(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(9).random(shape) < 0.9


# --- Regression and reduction -----------------------------------------------------------------


@dtypes
@penalties
@intercepts
def test_selection_times_are_alike(dtype: type, penalty: Penalty, intercept: bool) -> None:
    X, label = blobs(0, 3, 60)
    valid = some_valid(label.shape)

    def times(X: object, label: object, valid: object) -> object:
        basis = fit_basis(X, valid, intercept, 5)
        targets = Targets.from_labels(label, 4, X.dtype)
        return selection_times(basis.transform(X), targets, valid, penalty)

    assert_parity(times, X.astype(dtype), label, valid, atol=PRECISION[dtype])


@dtypes
@penalties
@intercepts
def test_paths_are_alike(dtype: type, penalty: Penalty, intercept: bool) -> None:
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((40, 3)).astype(dtype), rng.standard_normal((40, 2)).astype(dtype)
    assert_parity(
        lambda X, Y, lams: gamma_path(X, Y, lams, penalty, intercept=intercept, tol=1e-8),
        *(X, Y, np.array([1.5, 0.8], dtype=dtype)),
        atol=1e-5 if dtype == np.float64 else 1e-3,
    )


@penalties
def test_shrinking_is_alike(penalty: Penalty) -> None:
    residuals = np.random.default_rng(0).standard_normal((30, 4))
    assert_parity(lambda residuals: shrink(residuals, 0.7, penalty), residuals)


@dtypes
@pytest.mark.parametrize("solver", ["auto", "exact", "randomised"])
def test_components_are_alike(dtype: type, solver: Solver) -> None:
    """Up to their sign, which no eigensolver promises."""
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((2, 200, 12)) * 0.6 ** np.arange(12) + 1).astype(dtype)

    def projector(X: object) -> object:
        pca = fit_pca(lambda: [X], 3, solver=solver, rng=np.random.default_rng(1))
        turned = pca.components @ pca.components.swapaxes(1, 2)
        return pca.mean, turned, abs(pca.transform(X))

    assert_parity(projector, X, atol=1e-7 if dtype == np.float64 else 1e-3)


# --- Alg. 1 -----------------------------------------------------------------------------------


@dtypes
@penalties
@intercepts
@pytest.mark.parametrize("first_step", ["spr", "least_squares"])
def test_judgements_are_alike(
    dtype: type, penalty: Penalty, intercept: bool, first_step: str
) -> None:
    X, label = blobs(1, 3, 2, 48)
    valid = some_valid(label.shape)
    procedure = Procedure(penalty=penalty, intercept=intercept, first_step=first_step)
    assert_parity(
        lambda X, label, valid: judge(X, label, valid, 4, procedure, predictions=True),
        X.astype(dtype),
        label,
        valid,
        atol=PRECISION[dtype],
    )


def test_judgements_by_scores_and_given_knockoffs_are_alike() -> None:
    X, label = blobs(2, 2, 2, 40)
    rng = np.random.default_rng(0)
    scores, other = rng.standard_normal((*label.shape, 4)), (label + 1) % 4
    valid = np.ones(label.shape, dtype=bool)
    assert_parity(
        lambda X, label, valid, scores: judge(X, label, valid, 4, Procedure(), scores=scores),
        *(X, label, valid, scores),
    )
    assert_parity(
        lambda X, label, valid, other: judge(X, label, valid, 4, Procedure(), knockoff=other),
        *(X, label, valid, other),
    )


@dtypes
@penalties
def test_spr_is_alike(dtype: type, penalty: Penalty) -> None:
    X, label = blobs(3, 3, 60)
    procedure = Procedure(penalty=penalty)
    assert_parity(
        lambda X, label, valid: spr_times(X, label, valid, 4, procedure),
        *(X.astype(dtype), label, some_valid(label.shape)),
        atol=PRECISION[dtype],
    )


@pytest.mark.parametrize("ties", [False, True])
def test_kept_rows_are_alike(ties: bool) -> None:
    rng = np.random.default_rng(0)
    Z = rng.integers(0, 4, (3, 50)) / 4 if ties else rng.random((3, 50))
    label = rng.integers(0, 4, (3, 50))
    assert_parity(
        lambda Z, label, valid: keep_smallest(Z, label, valid, 5, 0.4),
        *(Z, label, some_valid(Z.shape)),
    )


# --- Labels -----------------------------------------------------------------------------------


@dtypes
@penalties
def test_times_and_knockoffs_of_step_ii_are_alike(dtype: type, penalty: Penalty) -> None:
    rng = np.random.default_rng(0)
    prediction, label = rng.standard_normal((2, 30, 4)).astype(dtype), rng.integers(0, 4, (2, 30))
    assert_parity(
        lambda prediction, label: closed_form_times(prediction, label, penalty), prediction, label
    )
    assert_parity(most_confident, prediction, label)
    for statistic in STATISTICS.values():
        assert_parity(statistic, prediction[0, :, 0], prediction[0, :, 1])


@dtypes
def test_prototypes_are_alike(dtype: type) -> None:
    """They go back to the host, where classes are grouped."""
    X, codes = blobs(4, 200)
    X = X.astype(dtype)
    clean = some_valid(codes.shape)
    tensor = torch.from_numpy(X)
    found = prototypes([tensor[:70], tensor[70:]], codes, 4, clean)
    assert isinstance(found, np.ndarray)
    np.testing.assert_allclose(
        found, prototypes([X[:70], X[70:]], codes, 4, clean), atol=PRECISION[dtype]
    )


def test_conditions_of_theorem_1_are_alike() -> None:
    rng = np.random.default_rng(0)
    X, gamma = rng.standard_normal((40, 3)), np.zeros((40, 2))
    gamma[:4, 0], gamma[2:6, 1] = 1.0, -2.0
    assert_parity(irrepresentable_values, X, gamma.any(axis=1))
    found = recovery_conditions(torch.from_numpy(X), torch.from_numpy(gamma), 0.1)
    expected = recovery_conditions(X, gamma, 0.1)
    assert asdict(found) == pytest.approx(asdict(expected))


# --- Without torch ----------------------------------------------------------------------------


def test_core_does_not_import_torch() -> None:
    folder = Path(next(iter(kspr.core.__path__)))
    modules = sorted(f"kspr.core.{path.stem}" for path in folder.glob("*.py"))
    assert "kspr.core.procedure" in modules
    names = ", ".join(name.removesuffix(".__init__") for name in modules)
    script = f"import sys, {names}; sys.exit('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], check=False, timeout=120)
    assert done.returncode == 0
