"""Where each page stands on the site. A page that no section names joins LATER_PAGES' section by itself."""
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Each section and its pages: files of the repository, or names of pages made at build ("made:…").
SECTIONS = [
    ("Start", [
        "docs/install.md", "docs/first_program.md", "made:names", "docs/migrating_from_python.md",
        "docs/from_libtorch.md", "examples/README.md", "docs/cookbook.md"]),
    ("The loop", [
        "docs/training_loop.md", "docs/trainer.md", "docs/data_loading.md", "docs/optimizers.md", "docs/schedules.md",
        "docs/checkpoints.md", "docs/memory.md", "docs/gpu.md", "docs/utilities.md"]),
    ("Text and models", [
        "docs/datasets.md", "docs/tokenizers.md", "docs/models.md", "docs/metrics.md", "docs/hub.md", "docs/big_models.md",
        "docs/converting_weights.md"]),
    ("Several processes", [
        "docs/launching.md", "docs/configuring.md", "docs/machines.md", "docs/ddp.md", "docs/fsdp.md", "docs/deepspeed.md",
        "docs/merge_weights.md", "docs/convert_state.md"]),
    ("Tools", ["docs/report.md", "docs/tracking.md", "docs/profiling.md", "docs/packages.md"]),
    ("Reference", [
        "made:api", "docs/trainer_reference.md", "docs/training_arguments.md", "docs/command_line.md",
        "docs/flags.md", "docs/config_keys.md", "docs/environment.md", "made:exit_codes",
        "docs/errors.md"]),
    ("How it works", [
        "docs/concepts.md", "docs/communication.md", "docs/costs.md", "made:formats", "docs/decisions/README.md",
        "docs/features.md"]),
    ("Benchmarks", ["docs/benchmarks.md"]),
    ("Project", ["docs/README.md", "HACKING.md", "CHANGELOG.md"]),
    ("中文", []),  # docs/zh/*.md, in the order of CHINESE, then of their names.
]
GUIDES = ("The loop", "Text and models", "Several processes", "Tools")
LATER_PAGES = "Tools"
CHINESE = ["README", "install", "first_program", "training_loop", "launching", "trainer", "glossary"]
# Pages that stand under another one in the list at the left: the folder, and the page above it.
CHILDREN = {"docs/formats": "made:formats", "docs/decisions": "docs/decisions/README.md",
            "benchmarks/results": "docs/benchmarks.md"}
# What the list at the left calls a page whose title is long.
SHORT = {
    "docs/migrating_from_python.md": "Migrating from Python", "docs/README.md": "All pages",
    "docs/trainer_reference.md": "The Trainer in C++", "HACKING.md": "Working on it", "docs/configuring.md": "Configuring",
    "docs/deepspeed.md": "DeepSpeed's files", "docs/report.md": "Reports", "examples/README.md": "Examples",
}
# The README is the home page of GitHub; the site has one of its own.
LEFT_OUT = {"benchmarks/results/README.md"}


def children(folder):
    return [f"{folder}/{path.name}" for path in sorted((ROOT / folder).glob("*.md"))
            if path.name != "README.md" and f"{folder}/{path.name}" not in LEFT_OUT]


def chinese():
    names = [path.stem for path in sorted((ROOT / "docs/zh").glob("*.md"))]
    names.sort(key=lambda name: CHINESE.index(name) if name in CHINESE else len(CHINESE))
    return [f"docs/zh/{name}.md" for name in names]


def sections():
    """Each section that has pages, and its pages."""
    named = {page for _, pages in SECTIONS for page in pages}
    later = [f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")) if f"docs/{path.name}" not in named]
    for name, pages in SECTIONS:
        pages = [page for page in pages if page.startswith("made:") or (ROOT / page).exists()]
        pages += later if name == LATER_PAGES else []
        pages += chinese() if name == "中文" else []
        if pages:
            yield name, pages


def all_pages():
    """Every file that becomes a page, besides the home page."""
    for _, pages in sections():
        for page in pages:
            if not page.startswith("made:"):
                yield page
    for folder in CHILDREN:
        yield from children(folder)


def document(page):
    """Where a page lies on the site, without its ending: docs/models.md is "models", docs/zh/README.md "zh/index"."""
    if page.startswith("made:"):
        return {"made:api": "api/index", "made:names": "coming_from_python"}.get(page, page[len("made:"):])
    name = page.removesuffix(".md")
    if name in ("README", "docs/README", "examples/README"):
        return {"README": "index", "docs/README": "pages", "examples/README": "examples"}[name]
    if name.startswith("benchmarks/results/"):
        return "benchmarks/" + name.rsplit("/", 1)[1]
    if "/" not in name:
        return name.lower()
    name = name.removeprefix("docs/")
    return name.removesuffix("README") + "index" if name.endswith("/README") else name
