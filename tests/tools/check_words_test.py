"""The check of words counts what is prose, and nothing else."""
import unittest

from trees import check

LONG = " ".join(["A", *["b"] * 25]) + "."
WIDE = "A line. " * 16
# A page, and what is said of it: sentences, share over 25 words, longest, and whether --check passes.
PAGES = [
    ("Two are here. `One word` ends it.\n", "2 sentences   0.0% over 25 words, longest 3 (line 1)", True),
    (f"One.\n\n{LONG}\n", "2 sentences  50.0% over 25 words, longest 26 (line 3)", False),
    (f"{'One. ' * 9}\n{'Two. ' * 10}\n{LONG}\n", "20 sentences   5.0% over 25 words, longest 26 (line 3)", True),
    (f"One.\n```sh\n{LONG}\n```\n| {LONG} {WIDE} |\n<!-- {LONG}\n{WIDE} -->\n## {LONG}\n", "1 sentences   0.0%", True),
    (f"[One](https://x.y/{'z' * 90}). By e.g. `two`, or 1.5 of [three](t.md).\n", "2 sentences   0.0% over 25 words, longest 7 (", False),
    ("- **Bold.** An item\n  of two lines\n- no full stop\n1. Third.\n", "4 sentences   0.0% over 25 words, longest 5", True),
    ("**Bold.** An end.\n> A quote\n> in two lines.\n", "3 sentences   0.0% over 25 words, longest 5", True),
    (f"One.\n\n{WIDE}\n", "  3: 128 columns", False),
    ("两个进程运行 `train`。每个 rank 都有权重！\n", "2 sentences   0.0% over 25 words, longest 4 (line 1)", True),
    (f"{'中文' * 25}。{'好。' * 30}\n", "31 sentences   0.0% over 25 words, longest 25 (line 1)", True),
    (f"{'中文' * 26}。\n", "1 sentences 100.0% over 25 words, longest 26 (line 1)", False),
    ("一行，\n两行。\n", "  1: a line break between Chinese characters", False),
    ("- 一项\n- 两项 train\n  其余\n", "2 sentences   0.0% over 25 words", True),
]


class CheckWords(unittest.TestCase):
    def test_counts_the_sentences_of_prose(self):
        for text, words, passes in PAGES:
            with self.subTest(text=text):
                result = check("check_words.py", {"page.md": text}, "--check")
                self.assertIn(words, result.stdout)
                self.assertEqual(result.returncode, 0 if passes else 1)


if __name__ == "__main__":
    unittest.main()
