"""Where each page stands on the site. A page that no section names joins LATER_PAGES' section by itself."""
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]

CHINESE_CAPTION = "中文"
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
        "docs/launching.md", "docs/configuring.md", "docs/machines.md", "docs/when_it_hangs.md", "docs/ddp.md",
        "docs/fsdp.md", "docs/deepspeed.md", "docs/merge_weights.md", "docs/convert_state.md"]),
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
    (CHINESE_CAPTION, []),  # docs/zh/*.md, in the order of CHINESE, then of their names.
]
# What the list at the left says on Chinese pages, besides the Chinese pages themselves.
CAPTIONS_IN_CHINESE = {
    "Start": "入门（英文）", "The loop": "训练循环（英文）", "Text and models": "文本与模型（英文）",
    "Several processes": "多进程（英文）", "Tools": "工具（英文）", "Reference": "参考（英文）", "How it works": "原理（英文）",
    "Benchmarks": "性能测试（英文）", "Project": "项目（英文）",
}
LATER_PAGES = "Tools"
CHINESE = ["README", "install", "first_program", "from_libtorch", "concepts", "training_loop", "launching", "trainer", "glossary"]
# Pages that stand under another one in the list at the left: the folder, and the page above it.
CHILDREN = {"docs/formats": "made:formats", "docs/decisions": "docs/decisions/README.md",
            "benchmarks/results": "docs/benchmarks.md"}
# What the list at the left calls a page whose title is long.
SHORT = {
    "docs/migrating_from_python.md": "Migrating from Python", "docs/README.md": "All pages",
    "docs/trainer_reference.md": "The Trainer in C++", "HACKING.md": "Working on it", "docs/configuring.md": "Configuring",
    "docs/deepspeed.md": "DeepSpeed's files", "docs/report.md": "Reports", "examples/README.md": "Examples",
}
# What newcomers ask in words that the page does not have in its headings. The search reads them as if they stood there.
ASKED_AS = {
    "install": "set up download get started pip apt",
    "cookbook#classify-the-rows-of-a-csv-file": "table tabular my",
    "coming_from_python": "what replaces equivalent of python name hugging face accelerate function method",
    "machines": "use two machines multiple several nodes multi-node cluster computers",
    "machines#when-machines-do-not-meet": "connection refused timed out firewall rendezvous",
    "when_it_hangs": "hang stuck freezes deadlock nothing happens waits for ever timeout",
    "training_loop#mixed-precision": "use bf16 fp16 bfloat16 float16 half precision autocast amp",
    "training_loop#accumulating-gradients": "gradient accumulation larger batch",
    "memory": "save memory out of memory oom too large reduce usage",
    "utilities#a-batch-size-that-fits": "out of memory oom batch size",
    "fsdp": "shard a model sharding zero divide parameters",
    "models": "load a hugging face model pretrained weights transformers bert llama open",
    "gpu": "use a gpu cuda device",
    "tracking": "track with tensorboard log loss metrics wandb mlflow experiment",
    "checkpoints": "resume go on save load state continue training",
    "launching": "several processes run on cores number of processes distributed start",
    "data_loading": "dataloader batches collate shuffle",
    "zh/index": "chinese 中文 文档",
    "zh/install": "如何安装 下载",
    "zh/launching": "多进程 多机训练 两台机器 多卡",
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
        pages += chinese() if name == CHINESE_CAPTION else []
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
