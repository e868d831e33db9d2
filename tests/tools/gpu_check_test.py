"""What tools/gpu_check and scripts/setup --cuda refuse, and what a bundle is made of."""
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(*words):
    return subprocess.run([ROOT / words[0], *words[1:]], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=120, check=False)


class Refusals(unittest.TestCase):
    def test_wrong_words_are_refused_with_a_sentence(self):
        with tempfile.TemporaryDirectory() as folder:
            for words, message in [
                    (("tools/gpu_check", "--bundel"), "'--bundel' is not an option."),
                    (("tools/gpu_check", "--bundle"), "--bundle needs the folder to make."),
                    (("tools/gpu_check", "--bundle", folder), f"'{folder}' exists already; remove it"),
                    (("tools/gpu_check", "--build-only", folder), f"there is no LibTorch in '{folder}'"),
                    (("scripts/setup", "--cuda", "1.13.1"), "'1.13.1' is not a version of torch that accelerate.cpp "
                                                            "builds with: 2.11.0 or newer.")]:
                with self.subTest(words=words):
                    result = run(*words)
                    self.assertEqual(result.returncode, 1)
                    self.assertIn(message, result.stderr)


class Bundle(unittest.TestCase):
    def test_it_has_the_tree_and_the_packages_and_no_dangling_link(self):
        if subprocess.run(["git", "rev-parse"], cwd=ROOT, capture_output=True, check=False).returncode != 0:
            self.skipTest("not a checkout")
        with tempfile.TemporaryDirectory() as folder:
            bundle = pathlib.Path(folder) / "bundle"
            result = run("tools/gpu_check", "--bundle", str(bundle))
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            for name in ("CMakeLists.txt", "tools/gpu_check", "tests/gpu/gpu.h", "packages/usr/include/xxhash.h",
                         "packages/usr/include/nlohmann/json.hpp"):
                self.assertTrue((bundle / name).is_file(), name)
            for name in ("libyaml-cpp.so", "libpng16.so", "libsimdjson.so", "libpcre2-8.so", "libcsv.so", "libgtest.a"):
                self.assertEqual(len(list((bundle / "packages").rglob(name))), 1, name)
            files = [path for path in bundle.rglob("*") if not path.is_dir()]
            self.assertEqual([path for path in files if not path.exists()], [])
            self.assertLess(sum(path.stat().st_size for path in files if not path.is_symlink()), 60 << 20)


if __name__ == "__main__":
    unittest.main()
