"""From one large data set to pieces: prototypes, groups of similar classes, balanced pieces."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from kspr.core.arrays import one_hot, row_blocks
from kspr.core.halves import HalfRows, halves_of_sets

__all__ = [
    "Pieces",
    "group_classes",
    "make_pieces",
    "one_piece",
    "prototypes",
    "similarity",
]


@dataclass(frozen=True)
class Pieces:
    """Regression problems of one shape, each in two halves.

    `index` has the sample of each slot. A slot that is not `valid` is padding; one that is not
    `judged` completes its piece, and the sample is judged in another piece.
    """

    index: np.ndarray  # (pieces, 2, slots), sample numbers
    label: np.ndarray  # (pieces, 2, slots), positions in `classes`
    valid: np.ndarray  # (pieces, 2, slots)
    judged: np.ndarray  # (pieces, 2, slots), at most once per sample over all pieces
    classes: np.ndarray  # (pieces, classes), codes of the classes in the piece

    @property
    def n_pieces(self) -> int:
        """How many pieces there are."""
        return int(self.index.shape[0])

    def __getitem__(self, chosen: slice) -> "Pieces":
        return Pieces(
            self.index[chosen],
            self.label[chosen],
            self.valid[chosen],
            self.judged[chosen],
            self.classes[chosen],
        )


def prototypes(
    blocks: Iterable[np.ndarray], codes: np.ndarray, n_classes: int, clean: np.ndarray | None = None
) -> np.ndarray:
    """Return the mean feature of each class, over its `clean` samples where these are known.

    `blocks` yields the rows in order, as ``(rows, p)``. A class without a clean sample uses
    all of its own.
    """
    counted = np.ones(len(codes), dtype=bool) if clean is None else clean.copy()
    bare = np.bincount(codes[counted], minlength=n_classes) == 0
    # Eq. prototype would divide by 0 for a class without a clean sample.
    counted |= bare[codes]
    total: np.ndarray | float = 0.0
    start = 0
    for block in blocks:
        # Small steps: the indicators are as wide as there are classes.
        for rows in row_blocks(block.shape[0], n_classes):
            part = block[rows]
            here = slice(start, start + part.shape[0])
            member = one_hot(codes[here], n_classes, part.dtype)
            member *= counted[here, None]
            total = total + (np.matrix_transpose(member) @ part).astype(np.float64)
            start += part.shape[0]
    counts = np.bincount(codes[counted], minlength=n_classes)
    return np.asarray(total / counts[:, None])


def similarity(prototype: np.ndarray) -> np.ndarray:
    """Return ``s(i, j) = p_i . p_j`` for all pairs of classes."""
    return np.asarray(prototype @ prototype.T)


def group_classes(similar: np.ndarray, size: int) -> list[np.ndarray]:
    """Put the most similar classes together, `size` at a time.

    The first class not yet placed takes its most similar companions. A remainder forms a
    smaller group, but never a group of one, in which nothing could be compared: its neighbour
    gives up a class or, where groups are pairs, takes it in.
    """
    left = list(range(len(similar)))
    groups: list[np.ndarray] = []
    while left:
        # With size + 1 classes left, a full group would leave one class alone.
        take = size if len(left) != size + 1 else (size - 1 if size > 2 else size + 1)
        seed = left[0]
        nearest = sorted(left[1:], key=lambda k: (-similar[seed, k], k))[: take - 1]
        group = np.array(sorted([seed, *nearest]))
        groups.append(group)
        left = [k for k in left if k not in set(group.tolist())]
    return groups


def make_pieces(
    codes: np.ndarray,
    groups: list[np.ndarray],
    samples_per_class: int | None,
    rng: np.random.Generator,
    together: np.ndarray | None = None,
) -> list[Pieces]:
    """Return the pieces of all groups, those of one shape together.

    With `samples_per_class` every class of a piece has that many slots, refilled from its own
    samples where a class runs out, and every sample is judged in exactly one of them. With
    None a group is one piece that holds all of its samples once.

    `together` numbers sets of samples, -1 for none: no piece has samples of one set in both of
    its halves. Raise `InputError` where one half would be empty then.
    """
    order = rng.permutation(len(codes))
    # A stable sort of a shuffle: classes in order, samples random within each.
    order = order[np.argsort(codes[order], kind="stable")]
    counts = np.bincount(codes, minlength=1 + max(int(g.max()) for g in groups))
    first = np.cumsum(counts) - counts
    made = []
    for group in groups:
        members = _Members(order, first[group], counts[group], group)
        half = None if together is None else _halves(members, together)
        if samples_per_class is None:
            made.append(_whole(members, half))
        elif half is None:
            made.append(_balanced(members, samples_per_class))
        else:
            made.append(_divided(members, half, samples_per_class))
    return _merge_equal_shapes(made)


@dataclass(frozen=True)
class _Members:
    """The shuffled samples of a group's classes: class i has ``order[first[i]:][:count[i]]``."""

    order: np.ndarray
    first: np.ndarray
    count: np.ndarray
    classes: np.ndarray

    def listed(self) -> tuple[np.ndarray, np.ndarray]:
        """Return all samples, class by class, and the positions of their classes."""
        parts = [self.order[f : f + n] for f, n in zip(self.first, self.count, strict=True)]
        return np.concatenate(parts), np.repeat(np.arange(len(self.count)), self.count)


def _balanced(members: _Members, m: int) -> Pieces:
    """Cut each class into windows of `m` of its samples, one window a piece.

    A class's samples are spread evenly over as few pieces as hold them, so that its cut groups are
    as large as they can be; the pieces beyond draw on the class again.
    """
    n = members.count
    used = -(-n // m)
    piece = np.arange(int(used.max()))[:, None]
    # (pieces, classes). A class that has shown all of its windows starts over: over-sampling.
    turn = piece % used
    start = turn * n // used
    n_judged = np.where(piece < used, (turn + 1) * n // used - start, 0)
    window = np.minimum(n, m)
    halves = []
    for half, slots in enumerate(((m + 1) // 2, m // 2)):
        # Even positions of a window form half A, odd ones half B, so that no sample, refilled
        # or not, stands in both: the half that fits must not have seen the label it judges.
        distinct = np.maximum((window + 1 - half) // 2, 1)
        slot = np.arange(slots)
        position = 2 * (slot % distinct[:, None]) + half
        # A window of one sample has no odd position; `valid` masks half B then.
        position = np.minimum(position, window[:, None] - 1)
        sample = (start[..., None] + position) % n[:, None]
        # Slots from `distinct` on repeat samples that earlier slots judge.
        judged = (position < n_judged[..., None]) & (slot < distinct[:, None])
        halves.append((members.order[members.first[:, None] + sample], window > half, judged))
    return _joined(members, m, halves)


def _divided(members: _Members, half: np.ndarray, m: int) -> Pieces:
    """Cut each class into pieces as `_balanced` does, the samples of each `half` by themselves.

    A sample is then in the same half of all pieces that it is used in, and so is its set.
    """
    sample, label = members.listed()
    slots = ((m + 1) // 2, m // 2)
    counts = [np.bincount(label[half == side], minlength=len(members.count)) for side in (0, 1)]
    piece = np.arange(max(int((-(-n // s)).max()) for n, s in zip(counts, slots, strict=True)))
    halves = []
    for side, (n, s) in enumerate(zip(counts, slots, strict=True)):
        mine, first, some = sample[half == side], np.cumsum(n) - n, np.maximum(n, 1)
        used = -(-some // s)
        turn = piece[:, None] % used
        start = turn * n // used
        n_judged = np.where(piece[:, None] < used, (turn + 1) * n // used - start, 0)
        slot = np.arange(s)
        position = slot % np.minimum(some, s)[:, None]
        index = first[:, None] + (start[..., None] + position) % some[:, None]
        # A class without samples in this half points past the end; `valid` masks it.
        index = mine[np.minimum(index, len(mine) - 1)]
        judged = (slot < n_judged[..., None]) & (slot < np.minimum(some, s)[:, None])
        halves.append((index, n > 0, judged))
    return _joined(members, m, halves)


def _joined(
    members: _Members, m: int, halves: list[tuple[np.ndarray, np.ndarray, np.ndarray]]
) -> Pieces:
    """Return pieces from the slots of both halves: samples, classes that are there, judged."""
    slots, filled = (m + 1) // 2, []
    for index, there, judged in halves:
        valid = np.broadcast_to(there[:, None], index.shape)
        # An odd m gives half A a slot more than half B.
        pad = ((0, 0), (0, 0), (0, slots - index.shape[2]))
        masks = [np.pad(mask, pad) for mask in (valid, judged & valid)]
        filled.append([np.pad(index, pad, mode="edge"), *masks])
    stacked = [np.stack(pair, axis=1) for pair in zip(*filled, strict=True)]
    n_pieces = len(halves[0][0])
    index, valid, judged = (a.reshape(n_pieces, 2, -1) for a in stacked)
    label = np.broadcast_to(np.repeat(np.arange(len(members.count)), slots), index.shape)
    classes = np.broadcast_to(members.classes, (n_pieces, len(members.count)))
    return Pieces(index, label, valid, judged, classes)


def _halves(members: _Members, together: np.ndarray) -> np.ndarray | None:
    """Return the half of each listed sample, 0 or 1; None where no two of them belong together."""
    sample, label = members.listed()
    return halves_of_sets(label, together[sample])


def _whole(members: _Members, half: np.ndarray | None) -> Pieces:
    """Put all samples of the group into one piece, its classes dealt out between the halves."""
    sample, label = members.listed()
    if half is None:
        # Dealing across the class borders keeps the halves within one sample of each other.
        half = np.arange(len(sample)) % 2
    halves = tuple(HalfRows(sample[half == side], label[half == side]) for side in (0, 1))
    return one_piece(halves, members.classes)


def one_piece(halves: tuple[HalfRows, ...], classes: np.ndarray) -> Pieces:
    """Return the piece whose halves have these samples, with the positions of their classes."""
    slots = max(len(half.index) for half in halves)
    last_sample, last_label = halves[0].index[-1], halves[0].label[-1]
    index = np.full((1, 2, slots), last_sample, dtype=np.int64)
    labels = np.full((1, 2, slots), last_label, dtype=np.int64)
    valid = np.zeros((1, 2, slots), dtype=bool)
    for side, half in enumerate(halves):
        filled = slice(0, len(half.index))
        index[0, side, filled], labels[0, side, filled] = half.index, half.label
        valid[0, side, filled] = True
    return Pieces(index, labels, valid, valid, classes[None])


def _merge_equal_shapes(made: list[Pieces]) -> list[Pieces]:
    by_shape: dict[tuple[int, ...], list[Pieces]] = {}
    for pieces in made:
        # Only pieces of one shape fit into one array; groups can differ in their number of classes.
        key = (*pieces.index.shape[1:], pieces.classes.shape[1])
        by_shape.setdefault(key, []).append(pieces)
    return [
        Pieces(
            *(
                np.concatenate([getattr(pieces, name) for pieces in alike])
                for name in ("index", "label", "valid", "judged", "classes")
            )
        )
        for alike in by_shape.values()
    ]
