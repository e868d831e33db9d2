"""The archive of a fuzzer's inputs depends on the inputs alone, and takes each of them once."""
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import unittest

FUZZ = pathlib.Path(__file__).resolve().parent.parent / "fuzz"
sys.dont_write_bytecode = True
sys.path.insert(0, str(FUZZ))
import add_to_corpus  # noqa: E402


class AddToCorpus(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.findings = self.folder / "findings"
        self.findings.mkdir()
        for name, data in (("crash-1", b"one"), ("crash-2", b"two"), ("oom-3", b"one")):
            (self.findings / name).write_bytes(data)

    def test_equal_inputs_give_an_equal_archive_in_any_order(self):
        first, second = self.folder / "a.tar.xz", self.folder / "b.tar.xz"
        self.assertEqual(add_to_corpus.add(first, [self.findings]), (2, 2))
        for name, counts in (("crash-2", (1, 1)), ("oom-3", (1, 2)), ("crash-1", (0, 2))):
            self.assertEqual(add_to_corpus.add(second, [self.findings / name]), counts)
        self.assertEqual(first.read_bytes(), second.read_bytes())
        self.assertEqual(sorted(add_to_corpus.read(first).values()), [b"one", b"two"])
        with tarfile.open(first) as tar:
            self.assertEqual({(entry.mtime, entry.uid, entry.gid, entry.mode) for entry in tar}, {(0, 0, 0, 0o644)})

    def test_every_fuzzer_has_a_corpus_and_every_corpus_a_fuzzer(self):
        corpora = {file.name.removesuffix(".tar.xz"): add_to_corpus.read(file) for file in add_to_corpus.CORPORA.iterdir()}
        self.assertEqual(sorted(corpora), sorted(source.stem for source in FUZZ.glob("*.cpp")))
        self.assertTrue(all(corpora.values()))

    def test_a_wrong_name_is_told_which_there_are(self):
        result = subprocess.run([sys.executable, FUZZ / "add_to_corpus.py", "gufg", self.findings], capture_output=True, text=True)
        self.assertEqual(result.returncode, 1)
        self.assertIn("'gufg' is not a fuzzer; there are dataset_files, ", result.stderr)


if __name__ == "__main__":
    unittest.main()
