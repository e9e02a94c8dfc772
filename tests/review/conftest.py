"""Runs of images, texts and tables to review, and a client that has the token."""

import io
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

pytest.importorskip("starlette")

from starlette.testclient import TestClient

from kspr import KnockoffsSPR
from kspr.review.app import make_app
from kspr.review.server import Access, Guarded
from kspr.review.session import Session, Settings
from kspr.runs.select import select_source
from kspr.sources.options import AS_SHIPPED, ReadOptions

NAMES = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])
HOST = "127.0.0.1:8765"


def png(pixels: np.ndarray) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(pixels.astype(np.uint8)).save(stream, "PNG")
    return stream.getvalue()


@pytest.fixture(scope="session")
def table(digits40) -> pa.Table:
    """600 digits: an image, 64 features, an id, and a label of which 40 % are wrong."""
    X, n = digits40.X[:600], 600
    return pa.table(
        {
            "id": [f"digit-{k:03d}" for k in range(n)],
            "image": [png(15 * row.reshape(8, 8)) for row in X],
            "label": NAMES[digits40.y[:n]],
            **{f"p{i}": X[:, i].astype(np.float32) for i in range(X.shape[1])},
        }
    )


@pytest.fixture(scope="session")
def truth(digits40) -> list[int]:
    """The codes of the true labels; classes are sorted by name."""
    return np.searchsorted(np.sort(NAMES), NAMES[digits40.y_true[:600]]).tolist()


def make_run(source, out, selector=None, **said):
    return select_source(
        source,
        out,
        selector or KnockoffsSPR(q=0.2),
        options=ReadOptions(**said),
        settings=AS_SHIPPED,
        command=("kspr", "select"),
    )


@pytest.fixture
def run(table, tmp_path):
    """A run of images."""
    pq.write_table(table, tmp_path / "digits.parquet")
    return make_run(tmp_path / "digits.parquet", tmp_path / "run", features="p*").folder


@pytest.fixture
def opened():
    """Open sessions; they are closed at the end."""
    made = []

    def _open(folder, **settings) -> Session:
        made.append(Session(folder, Settings(**settings)))
        return made[-1]

    yield _open
    for session in made:
        session.close()


class Client(TestClient):
    """A browser that has opened the printed address, as one reviewer."""

    def __init__(self, session: Session, reviewer: str = "Anna") -> None:
        self.session, self.access = session, Access("127.0.0.1", 8765)
        super().__init__(Guarded(make_app(session), self.access), base_url=f"http://{HOST}")
        self.reviewer = reviewer
        found = re.sub(r"^http://[^/]+", "", self.access.address)
        assert self.get(found).status_code == 200

    def ask(self, path: str, **query):
        found = self.get(path, params={"reviewer": self.reviewer, **query})
        assert found.status_code == 200, found.text
        return found.json()

    def submit(self, path: str, origin: str = f"http://{HOST}", **body):
        return self.post(path, json={"reviewer": self.reviewer, **body}, headers={"origin": origin})

    def answer(self, queue: str, *answers):
        return self.submit("/api/answer", queue=queue, answers=[list(pair) for pair in answers])

    def check(self, count: int, said) -> None:
        """Answer the next rows with `said(row)`, `count` of them or as many as there are."""
        for _ in range(count):
            rows = self.ask("/api/rows")["rows"]
            if not rows:
                return
            row = rows[0]
            found = self.answer(row["queue"], (row["position"], said(row)))
            assert found.status_code == 200, found.text


@pytest.fixture
def client(run, opened):
    return Client(opened(run))
