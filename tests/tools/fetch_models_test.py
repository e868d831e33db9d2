"""tools/fetch_models.py without the network: what it leaves alone, what it makes again, what it says offline."""
import base64
import io
import json
import pathlib
import sys
import tempfile
import unittest
import zipfile
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import fetch_models  # noqa: E402

RANKS = [b"a", b"b", b"c", b"ab", b"abc", b" ", b" abc"]


def wheel():
    lines = "".join(f"{base64.b64encode(token).decode()} {rank}\n" for rank, token in enumerate(RANKS))
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as content:
        content.writestr("dashscope/resources/qwen.tiktoken", lines)
    return archive


class Folders(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.root = pathlib.Path(temporary.name)

    def fetch(self):
        """How often a wheel was downloaded."""
        with mock.patch.object(fetch_models, "download", side_effect=lambda *_: wheel()) as download:
            self.assertEqual(fetch_models.fetch(self.root, ["qwen"]), [])
            return download.call_count

    def test_ranks_become_a_vocabulary_and_its_merges(self):
        self.fetch()
        vocabulary = json.loads((self.root / "qwen" / "vocab.json").read_text(encoding="utf-8"))
        self.assertEqual(vocabulary, {"a": 0, "b": 1, "c": 2, "ab": 3, "abc": 4, "Ġ": 5, "Ġabc": 6})
        self.assertEqual((self.root / "qwen" / "merges.txt").read_text(encoding="utf-8"),
                         "#version: 0.2\na b\nab c\nĠ abc\n")

    def test_a_complete_folder_is_left_alone_and_a_changed_one_made_again(self):
        self.assertEqual([self.fetch(), self.fetch()], [1, 0])
        merges = self.root / "qwen" / "merges.txt"
        merges.write_text("changed", encoding="utf-8")
        self.assertEqual(self.fetch(), 1)
        self.assertNotEqual(merges.read_text(encoding="utf-8"), "changed")
        merges.unlink()
        self.assertEqual(self.fetch(), 1)
        self.assertEqual([path.name for path in self.root.iterdir()], ["qwen"])

    def test_what_cannot_be_had_is_said_in_one_sentence_and_leaves_nothing(self):
        missing = fetch_models.Missing("dashscope==2.0.2 of PyPI could not be downloaded: no network")
        with mock.patch.object(fetch_models, "download", side_effect=missing):
            faults = fetch_models.fetch(self.root, ["qwen"])
        self.assertEqual(faults, [f"qwen missing: {missing}"])
        self.assertEqual(list(self.root.iterdir()), [])


if __name__ == "__main__":
    unittest.main()
