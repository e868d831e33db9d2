"""What newcomers ask, and where the site answers.

Each question has what somebody types into the search, the places of which one is among the first three hits, and a way
of at most three clicks from the home page. site_browser.py asks the search in Chromium, site_test.py follows the clicks.
"""
import typing


class Question(typing.NamedTuple):
    asked: str
    query: str
    answers: list  # Pages, or pages with an anchor.
    clicks: list  # The page or place that each click leads to; the last is an answer.


QUESTIONS = [
    Question("How do I install it?", "how do I install", ["install.html"], ["install.html"]),
    Question("How do I classify my CSV file?", "classify my CSV", ["cookbook.html#classify-the-rows-of-a-csv-file"],
             ["cookbook.html", "cookbook.html#classify-the-rows-of-a-csv-file"]),
    Question("My job was killed. How does it go on?", "resume after a kill", ["cookbook.html#resume-after-a-kill", "checkpoints.html"],
             ["checkpoints.html"]),
    Question("How do I use two machines?", "use two machines", ["machines.html"], ["machines.html"]),
    Question("Why does it say that the connection is refused?", "why does it say connection refused",
             ["machines.html#when-machines-do-not-meet"], ["machines.html", "machines.html#when-machines-do-not-meet"]),
    Question("Why does it hang?", "my training hangs", ["when_it_hangs.html"], ["when_it_hangs.html"]),
    Question("What replaces accelerator.gather_for_metrics?", "what replaces accelerator.gather_for_metrics",
             ["api/accelerator/rank_calls.html#gather-for-metrics"],
             ["coming_from_python.html", "api/accelerator/rank_calls.html#gather-for-metrics"]),
    Question("How do I train in bf16?", "use bf16", ["training_loop.html#mixed-precision"],
             ["training_loop.html", "training_loop.html#mixed-precision"]),
    Question("How do I save memory?", "save memory", ["memory.html"], ["memory.html"]),
    Question("How do I shard a model?", "shard a model", ["fsdp.html"], ["memory.html", "fsdp.html"]),
    Question("How do I load a model of Hugging Face?", "load a Hugging Face model", ["models.html"], ["models.html"]),
    Question("How do I use a GPU?", "use a GPU", ["gpu.html"], ["gpu.html"]),
    Question("How do I see the loss in TensorBoard?", "track with TensorBoard", ["tracking.html"], ["tracking.html"]),
    Question("Is there something in Chinese?", "中文", ["zh/index.html"], ["zh/index.html"]),
    Question("如何安装？", "如何安装", ["zh/install.html"], ["zh/index.html", "zh/install.html"]),
    Question("如何用多台机器训练？", "多机训练", ["zh/launching.html"], ["zh/index.html", "zh/launching.html"]),
]
