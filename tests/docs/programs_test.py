#!/usr/bin/env python3
"""Compiles every C++ program and fragment of the pages.

usage: programs_test.py [--page NAME] [--keep FOLDER] -- COMPILER [FLAGS]...

A block with an #include is compiled with its own includes alone. The other blocks are fragments: they come with
accelerate/transformers.h and torch/torch.h. A comment before a block gives what the block presumes:

    <!-- given: accelerator net adamw
         DatasetDict reviews; -->

The words of its first line are names of GIVEN below, and what follows is C++. In a block, `…` stands for statements that
the page leaves out.
"""
import argparse
import concurrent.futures
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BLOCK = re.compile(r"(?:<!-- given:(?P<given>.*?)-->\s*)?^```cpp\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE)
FUNCTION = re.compile(r'^(?!for |if |while |switch )\w[^=;\n\[]*\([^;\n"\[]*\)(?: try)? \{', re.MULTILINE)
FRAGMENT_INCLUDES = ("#include <torch/torch.h>", "#include <accelerate/transformers.h>", "#include <iostream>")

# What pages presume, by the names that they use. Nothing of this runs.
GIVEN = {
    "accelerator": "Accelerator accelerator;",
    "net": "torch::nn::Linear net(4, 2);",
    "adamw": "torch::optim::AdamW adamw(net->parameters());",
    "dataset": "torch::data::datasets::TensorDataset dataset(std::vector<at::Tensor>{});",
    "examples": "auto dataset = torch::data::datasets::MNIST(\"\").map(torch::data::transforms::Stack<>());",
    "batches": "auto batches = make_data_loader(torch::data::datasets::MNIST(\"\").map(torch::data::transforms::Stack<>()), DataLoaderOptions());",
    "linear": "auto linear = get_scheduler(\"linear\", adamw, {.num_warmup_steps = 0, .num_training_steps = 10});",
    "prepared": "auto [model, optimizer, loader, scheduler] = accelerator.prepare(net, adamw, batches, linear);",
    "tokenizer": "const auto tokenizer = AutoTokenizer::from_pretrained(\"x\");",
}


class Block:
    def __init__(self, page, text, match):
        self.place = f"{page}:{text[:match.start('code')].count(chr(10))}"
        names, _, declarations = (match["given"] or "").partition("\n")
        self.unknown = [name for name in names.split() if name not in GIVEN]
        self.given = [GIVEN.get(name, "") for name in names.split()] + [declarations]
        lines = match["code"].splitlines()
        self.includes = tuple(line for line in lines if line.startswith("#include"))
        self.code = "\n".join("" if line.startswith(("#include", "using namespace")) else line for line in lines)

    def definitions(self):
        """Whether the block cannot stand in a function, because it defines functions."""
        return FUNCTION.search(self.code) is not None

    def source(self, number):
        code = re.sub(r"for \(…\)", "for (;;)", self.code)
        code = "\n".join(re.sub(r"…", ";", line.split("//")[0]) for line in code.splitlines())
        code = re.sub(r"\bint main\(", "int main_of_page(", code)
        page, line = self.place.rsplit(":", 1)
        body = f'#line {int(line) + 1} "{page}"\n{code}\n'
        given = "\n".join(self.given)
        if self.definitions():
            body = f"{given}\n{body}"
        else:
            body = f'[[maybe_unused]] void block() {{\n#line 1 "given {self.place}"\n{given}\n{{\n{body}}}\n}}\n'
        return f"namespace block_{number} {{\nusing namespace accelerate;\n{body}}}\n"


def pages(only):
    # .venv-cuda too; the code of Chinese pages is that of the English ones (tools/check_translations.py).
    hidden = ("build/", ".venv", ".cache/", "docs/zh/", "README.zh.md")
    for page in sorted(ROOT.rglob("*.md")):
        name = str(page.relative_to(ROOT))
        if not name.startswith(hidden) and (only is None or name == only):
            yield name, page.read_text(encoding="utf-8")


def blocks(only):
    return [Block(name, text, match) for name, text in pages(only) for match in BLOCK.finditer(text)]


def units(found):
    """Source texts, each of the blocks with the same includes."""
    by_includes = {}
    for number, block in enumerate(found):
        by_includes.setdefault(block.includes, []).append(block.source(number))
    for includes, sources in by_includes.items():
        yield "\n".join([*(includes or FRAGMENT_INCLUDES), *sources])


def compiled(command, folder, number, text):
    """What the compiler says of a source; empty if it is fine with it."""
    path = pathlib.Path(folder) / f"unit_{number}.cpp"
    path.write_text(text, encoding="utf-8")
    result = subprocess.run([*command, "-fsyntax-only", "-Wno-unused", str(path)], capture_output=True, text=True)
    return "" if result.returncode == 0 else result.stderr


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--page", help="one page alone, as docs/models.md")
    parser.add_argument("--keep", help="where to leave the sources")
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    found = blocks(arguments.page)
    faults = [f"{block.place}: {', '.join(block.unknown)}: no such name in GIVEN" for block in found if block.unknown]
    with tempfile.TemporaryDirectory() as scratch, concurrent.futures.ThreadPoolExecutor(2) as pool:
        folder = arguments.keep or scratch
        jobs = [pool.submit(compiled, arguments.command, folder, i, text) for i, text in enumerate(units(found))]
        faults += [job.result() for job in jobs if job.result()]
    print("\n".join(faults))
    print(f"{len(found)} blocks compiled, {len(faults)} sources with faults")
    return 1 if faults or (arguments.page is None and len(found) < 38) else 0


if __name__ == "__main__":
    sys.exit(main())
