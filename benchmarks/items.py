"""What texts in other languages and sounds give: wrong labels among them, and what is kept.

    python benchmarks/items.py     # measures what is missing, then two pages of docs/how-to

Texts are the descriptions of Debian's packages in one language, as its translators wrote them; the
label is the section that a package is in, for eight sections. Sounds are ten words spoken by 48
English voices of espeak-ng, which must be installed (`apt-get install espeak-ng`). A fifth of the
labels is made wrong, and the default selector is asked for 10 %.
"""

import os
import re
import subprocess
from collections.abc import Sequence
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from sklearn.metrics import roc_auc_score

from _common import SMOKE, WORK, Bench, Store, either, markdown_table
from kspr import KnockoffsSPR
from kspr.features.embedders import load_embedder
from kspr.noise import symmetric
from kspr.sources.options import EmbedSettings
from kspr.sources.records import SoundFiles

COMMAND = "python benchmarks/items.py"
TEXTS, SOUNDS = Store("languages"), Store("sounds")
EMBEDDERS = either(("minilm", "use-multilingual"), ("use-multilingual",))
LANGUAGES = {
    "en": "English",
    "de": "German",
    "pl": "Polish",
    "ja": "Japanese",
    "ru": "Russian",
    "uk": "Ukrainian, which the encoder has not learnt",
}
SECTIONS = ("games", "graphics", "mail", "math", "net", "science", "sound", "web")
WORDS = ("cat", "down", "go", "house", "left", "no", "right", "stop", "up", "yes")
ACCENTS = ("en-us", "en-gb", "en-gb-scotland", "en-gb-x-rp", "en-029", "en-gb-x-gbclan")
VOICES = ("m1", "m3", "m7", "f1", "f2", "f4", "f5", "croak")
MOST, CHARACTERS, SEEDS = either(800, 60), 400, either(3, 1)


def descriptions(language: str) -> tuple[list[str], list[str]]:
    """Return texts and sections, from the lists of Debian that apt fetches."""
    if SMOKE:
        return [f"word{k % 3} " * 4 for k in range(MOST)], [f"s{k % 3}" for k in range(MOST)]
    lists = WORK / "debian"
    if not lists.exists():
        (lists / "partial").mkdir(parents=True)
        wanted = [f"Dir::State::lists={lists}", f"Acquire::Languages={','.join(LANGUAGES)}"]
        options = [word for option in wanted for word in ("-o", option)]
        command = ["apt-get", "-q", *options, "update"]
        subprocess.run(command, check=True)

    def stanzas(name: str) -> list[str]:
        # The largest: updates have lists of their own.
        path = max(lists.glob(f"*_main_{name}.lz4"), key=lambda file: file.stat().st_size)
        command = ["/usr/lib/apt/apt-helper", "cat-file", str(path)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split(
            "\n\n"
        )

    section = {}
    for stanza in stanzas("binary-amd64_Packages"):
        fields = dict(re.findall(r"^(Package|Section): (.*)$", stanza, re.MULTILINE))
        section[fields.get("Package")] = fields.get("Section")
    texts = {}
    for stanza in stanzas(f"i18n_Translation-{language}"):
        package = re.search(r"^Package: (.*)$", stanza, re.MULTILINE)
        text = re.search(r"^Description-(?!md5)\w+: (.*(?:\n .*)*)", stanza, re.MULTILINE)
        if package and text and section.get(package[1]) in SECTIONS:
            texts[package[1]] = re.sub(r"\n \.?", " ", text[1])[:CHARACTERS]
    names = sorted(texts)
    drawn = sorted(np.random.default_rng(0).permutation(len(names))[:MOST].tolist())
    return [texts[names[k]] for k in drawn], [section[names[k]] for k in drawn]


def spoken() -> tuple[list[np.ndarray], list[str]]:
    """Return ten words by all voices, as arrays."""
    if SMOKE:
        rng = np.random.default_rng(0)
        noise = [rng.random(8000, np.float32) for _ in range(MOST)]
        return noise, [f"s{k % 3}" for k in range(MOST)]
    folder = WORK / "words"
    folder.mkdir(parents=True, exist_ok=True)
    names, number = [], 0
    for word in WORDS:
        for voice in (f"{accent}+{kind}" for accent in ACCENTS for kind in VOICES):
            names.append(f"{word}-{voice}.wav")
            number += 1
            how = ["-s", str(130 + 37 * number % 60), "-p", str(30 + 53 * number % 45)]
            command = ["espeak-ng", "-v", voice, *how, "-w", str(folder / names[-1]), word]
            subprocess.run(command, check=True)
    items = SoundFiles(folder, names)
    return [items[row] for row in range(len(names))], [name.partition("-")[0] for name in names]


def measure(embedder: str, kind: Any, items: Sequence[Any], label: list[str]) -> dict[str, Any]:
    run = load_embedder(EmbedSettings(embedder, device="cpu"), kind)
    X = np.concatenate([run(items[start : start + 64]) for start in range(0, len(items), 64)])
    y, rows = np.array(label), []
    for seed in range(SEEDS):
        given = symmetric(y, rate=0.2, seed=seed)
        selection = KnockoffsSPR(q=0.1, random_state=seed).fit(X, given).selection_
        kept, wrong = selection.clean_mask, given != y
        rows.append(
            {
                "auroc": float(roc_auc_score(wrong, selection.doubt)),
                "fsr": float(wrong[kept].sum() / max(1, kept.sum())),
                "recall": float(kept[~wrong].mean()),
                "f1": float(2 * (wrong & ~kept).sum() / (wrong.sum() + (~kept).sum())),
            }
        )
    mean = {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}
    return {"embedder": embedder, "rows": len(y), "classes": len(set(label)), "seeds": SEEDS} | mean


def measure_texts() -> None:
    known = TEXTS.done("language", "embedder")
    for code, language in LANGUAGES.items():
        for name in EMBEDDERS:
            if (language, name) not in known:
                found = measure(name, "text", *descriptions(code))
                TEXTS.add({"language": language, **found})


def measure_sounds() -> None:
    if not SOUNDS.trials():
        SOUNDS.add(measure("speech-embedding", "sound", *spoken()))


def table(store: Store, *named: str) -> str:
    rows = [
        [str(trial[name]) for name in (*named, "rows")]
        + [f"{trial[name]:.3f}" for name in ("auroc", "f1", "fsr", "recall")]
        for trial in store.trials()
    ]
    return markdown_table([*named, "rows", "AUROC", "F1", "FSR", "recall"], rows)


FILES = ("src/kspr/features/embedders", "src/kspr/core", "src/kspr/selectors")
LANGUAGE = Bench(
    *(COMMAND, "how-to/texts.md", (TEXTS,), lambda: table(TEXTS, "language", "embedder")),
    *(lambda _: measure_texts(), FILES, False),
)
SPOKEN = Bench(
    *(COMMAND, "how-to/audio.md", (SOUNDS,), lambda: table(SOUNDS, "classes")),
    *(lambda _: measure_sounds(), FILES, False),
)

if __name__ == "__main__":
    LANGUAGE.run(__doc__)
    SPOKEN.run(__doc__)
