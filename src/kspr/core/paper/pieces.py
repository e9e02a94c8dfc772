"""From one large data set to pieces: prototypes, groups of similar classes, balanced pieces."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from kspr.core.arrays import one_hot, row_blocks


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
) -> list[Pieces]:
    """Return the pieces of all groups, those of one shape together.

    With `samples_per_class` every class of a piece has that many slots, refilled from its own
    samples where a class runs out, and every sample is judged in exactly one of them. With
    None a group is one piece that holds all of its samples once.
    """
    order = rng.permutation(len(codes))
    # A stable sort of a shuffle: classes in order, samples random within each.
    order = order[np.argsort(codes[order], kind="stable")]
    counts = np.bincount(codes, minlength=1 + max(int(g.max()) for g in groups))
    first = np.cumsum(counts) - counts
    by_group = (_Members(order, first[group], counts[group], group) for group in groups)
    if samples_per_class is None:
        return _merge_equal_shapes(map(_whole, by_group))
    return _merge_equal_shapes(_balanced(members, samples_per_class) for members in by_group)


@dataclass(frozen=True)
class _Members:
    """The shuffled samples of a group's classes: class i has ``order[first[i]:][:count[i]]``."""

    order: np.ndarray
    first: np.ndarray
    count: np.ndarray
    classes: np.ndarray


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
    slots, halves = (m + 1) // 2, []
    for half in (0, 1):
        # Even positions of a window form half A, odd ones half B, so that no sample, refilled
        # or not, stands in both: the half that fits must not have seen the label it judges.
        distinct = np.maximum((window + 1 - half) // 2, 1)
        slot = np.arange((m + 1 - half) // 2)
        position = 2 * (slot % distinct[:, None]) + half
        # A window of one sample has no odd position; `valid` masks half B then.
        position = np.minimum(position, window[:, None] - 1)
        sample = (start[..., None] + position) % n[:, None]
        index = members.order[members.first[:, None] + sample]
        valid = np.broadcast_to((window > half)[:, None], index.shape)
        # Slots from `distinct` on repeat samples that earlier slots judge.
        judged = valid & (position < n_judged[..., None]) & (slot < distinct[:, None])
        # An odd m gives half A a slot more than half B.
        pad = ((0, 0), (0, 0), (0, slots - len(slot)))
        halves.append(
            (np.pad(index, pad, mode="edge"), *(np.pad(mask, pad) for mask in (valid, judged)))
        )
    shape = len(piece), 2, len(n) * slots
    index, valid, judged = (np.stack(pair, 1).reshape(shape) for pair in zip(*halves, strict=True))
    label = np.broadcast_to(np.repeat(np.arange(len(n)), slots), shape)
    classes = np.broadcast_to(members.classes, (len(piece), len(n)))
    return Pieces(index, label, valid, judged, classes)


def _whole(members: _Members) -> Pieces:
    """Put all samples of the group into one piece, its classes dealt out between the halves."""
    parts = [members.order[f : f + n] for f, n in zip(members.first, members.count, strict=True)]
    sample, label = np.concatenate(parts), np.repeat(np.arange(len(parts)), members.count)
    # Dealing across the class borders keeps the halves within one sample of each other: of an odd
    # number, the second half has a slot that repeats the first sample's last.
    shape = 1, 2, (len(sample) + 1) // 2
    index, labels = np.full(shape, sample[::2][-1]), np.full(shape, label[::2][-1])
    valid = np.zeros(shape, dtype=bool)
    for half in (0, 1):
        mine = slice(0, len(sample[half::2]))
        index[0, half, mine], labels[0, half, mine] = sample[half::2], label[half::2]
        valid[0, half, mine] = True
    return Pieces(index, labels, valid, valid, members.classes[None])


def _merge_equal_shapes(all_pieces: Iterable[Pieces]) -> list[Pieces]:
    by_shape: dict[tuple[int, ...], list[Pieces]] = {}
    for pieces in all_pieces:
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
