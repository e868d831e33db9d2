"""examples/text as a user runs it: the table beside what Python `tokenizers` says, and what it says to bad input.

usage: text_test.py BUILD [unittest arguments]; BUILD is the build folder. Needs tokenizers.
"""
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else pathlib.Path("build/dev").resolve()
PROGRAM = BUILD / "examples" / "text"
LINE = "Ein Bäckerhund, 漢字 & unseen!"
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "ein", "back", "##er", "##hund", ",", "漢", "字", "!"]


def run(*words, text=None, locale="C.UTF-8"):
    return subprocess.run([str(word) for word in (PROGRAM, *words)], capture_output=True, input=text, timeout=60, check=False,
                          env={**os.environ, "LC_ALL": locale, "HF_HUB_CACHE": "/nonexistent", "HF_HUB_OFFLINE": "1"})


def make_tokenizer():
    """A tokenizer as BERT has one, with a few words."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
    tokenizer = Tokenizer(models.WordPiece({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer.add_special_tokens(["[CLS]", "[SEP]", "[UNK]"])
    return tokenizer


class Shown(unittest.TestCase):
    def setUp(self):
        if importlib.util.find_spec("tokenizers") is None:
            self.skipTest(f"{sys.executable} has no tokenizers; scripts/setup makes a .venv with it")
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.tokenizer = make_tokenizer()
        self.tokenizer.save(str(self.folder / "tokenizer.json"))

    def shown(self, *words, **more):
        result = run(self.folder, *words, **more)
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        return result.stdout.decode()

    def expected_rows(self):
        encoding = self.tokenizer.encode(LINE)
        for i, (begin, end) in enumerate(encoding.offsets):
            word = encoding.word_ids[i]
            special = encoding.special_tokens_mask[i]
            yield [str(i), encoding.tokens[i], str(encoding.ids[i]), "special" if special else f"{begin}-{end}",
                   "" if word is None else str(word), "" if special else f"'{LINE[begin:end]}'"]

    def test_each_token_with_what_python_says_of_it(self):
        lines = self.shown(LINE).splitlines()
        rows = [[cell.strip() for cell in line.strip("│").split("│")] for line in lines if line.startswith("│")]
        self.assertEqual(rows[0], ["", "token", "id", "offsets", "word", "covers"])
        self.assertEqual(rows[1:], list(self.expected_rows()))
        self.assertEqual(lines[-2], "decoded: [CLS] ein backerhund, 漢 字 [UNK] [UNK]! [SEP]")
        self.assertEqual(lines[-1], "without special tokens: ein backerhund, 漢 字!")

    def test_lines_of_standard_input_have_a_table_each(self):
        self.assertEqual(self.shown(text=b"ein\nback\n\n").count("decoded: "), 3)

    def test_lines_are_drawn_in_ascii_where_the_locale_has_no_others(self):
        self.assertIn("| token |", self.shown("ein", locale="C"))


class BadInput(unittest.TestCase):
    def refused(self, pattern, *words, **more):
        result = run(*words, **more)
        error = result.stderr.decode()
        self.assertEqual(result.returncode, 1, error)
        self.assertTrue(error.startswith("text: "), error)
        self.assertRegex(error, pattern)

    def test_names_what_is_wrong(self):
        with tempfile.TemporaryDirectory() as folder:
            self.refused(r"usage: text NAME_OR_FOLDER")
            self.refused(r"usage: text NAME_OR_FOLDER", folder, "a", "b")
            self.refused(r"no-such/model", "no-such/model", "a")
            self.refused(r"tokenizer\.json", folder, "a")
            file = pathlib.Path(folder, "tokenizer.json")
            file.write_text('{"model"', encoding="utf-8")
            self.refused(r"tokenizer\.json", folder, "a")
            file.write_text(json.dumps({"model": {"type": "WordLevel", "vocab": {"a": 0, "[UNK]": 1}, "unk_token": "[UNK]"}}),
                            encoding="utf-8")
            self.refused(r"UTF-8", folder, text=b"a \xff\n")


if __name__ == "__main__":
    unittest.main(verbosity=2)
