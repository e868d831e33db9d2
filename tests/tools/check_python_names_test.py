"""The check of the migrating page finds names that are missing, that are nobody's, and rows that say nothing.

Needs the Python that has Accelerate installed for the page itself; without it that test is skipped.
"""
import importlib.util
import pathlib
import subprocess
import sys
import unittest

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools"
sys.dont_write_bytecode = True
sys.path.insert(0, str(TOOLS))
import check_docs  # noqa: E402
import check_python_names  # noqa: E402

ORIGINALS = {"free": {"set_seed", "load"}, "argument": {"cpu"}, "member": {"device", "print"}}
SOUND = """
## Arguments of `Accelerator`
| Python | C++ |
|---|---|
| `cpu` | `cpu` |

## Methods of `Accelerator`
| `device`, `print` | `device`, `print` |

## Other names
| `set_seed` | `set_seed` |
| `load`, `inner` | later |

## Command line
| `accelerate` | the same |
"""
BROKEN = [
    ("`set_seed` | `set_seed`", "`inner` | `set_seed`", "the free name set_seed of Python Accelerate is in no table"),
    ("`cpu` | `cpu`", "`device` | `cpu`", "the argument name cpu of Python Accelerate is in no table"),
    ("`device`, `print` | ", "`device` | ", "the member name print of Python Accelerate is in no table"),
    ("`load`, `inner`", "`load`, `lode`", "line 12: Python Accelerate has no lode"),
    ("| later |", "| some day |", "line 12: neither a name of ours nor why there is none: `load`, `inner`"),
]


class CheckPythonNames(unittest.TestCase):
    def faults(self, text):
        return list(check_python_names.faults(text, ORIGINALS, {"inner"}))

    def test_passes_a_page_with_every_name(self):
        self.assertEqual(self.faults(SOUND), [])

    def test_names_each_fault(self):
        for old, new, fault in BROKEN:
            with self.subTest(fault):
                self.assertEqual(SOUND.count(old), 1)
                self.assertIn(fault, self.faults(SOUND.replace(old, new)))

    def test_names_what_our_headers_do_not_bring(self):
        page = "| `set_seed` | `set_seeds` |\n| `load` | later: `loads` |\n"
        self.assertEqual([fault.split(": ")[-1] for fault in check_docs.unknown_names(page)],
                         ["accelerate/accelerate.h does not bring set_seeds"])

    @unittest.skipUnless(importlib.util.find_spec("accelerate"), "no Accelerate in this Python (scripts/setup)")
    def test_the_page_has_every_public_name_of_the_original(self):
        result = subprocess.run([sys.executable, TOOLS / "check_python_names.py"], capture_output=True, text=True,
                                check=False)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertGreater(int(result.stdout.split()[-5]), 450, result.stdout)


if __name__ == "__main__":
    unittest.main()
