"""The layer check finds each fault that it promises to find, and none in a sound tree."""
import unittest

from trees import check

SOUND = {
    "accelerate/accelerate.h": '#pragma once\n#include "accelerate/comm/a.h"\n',
    "accelerate/base/a.h": "#pragma once\n#include <string>\n",
    "accelerate/base/c.h": '#pragma once\n#include "accelerate/base/a.h"\n',
    "accelerate/comm/a.h": '#pragma once\n#include <ATen/core/Tensor.h>\n#include "accelerate/base/a.h"\n',
    "accelerate/comm/a.cpp": '#include <torch/torch.h>\n#include "accelerate/comm/a.h"\n',
    "accelerate/transformers/hub/a.h": '#pragma once\n#include "accelerate/base/a.h"\n',
    "accelerate/transformers/tokenizers/text/a.h": '#pragma once\n#include "accelerate/transformers/hub/a.h"\n',
    "accelerate/transformers/models/a.h": '#pragma once\n#include "accelerate/transformers/tokenizers/text/a.h"\n',
    "accelerate/parallel/gradients/a.h": "#pragma once\n",
    "accelerate/parallel/replicated/a.h": '#pragma once\n#include "accelerate/parallel/gradients/a.h"\n',
    "cli/main.cpp": '#include "accelerate/base/a.h"\n#include "cli/commands/a.h"\n',
}
# What is written where, and the words in which it must be found.
FAULTS = [
    ("accelerate/base/b.cpp", '#include "accelerate/comm/a.h"', "base/ may not include comm/"),
    ("accelerate/base/b.cpp", "#include <c10/core/Device.h>", "base/ builds without LibTorch"),
    ("accelerate/comm/b.cpp", '#include "accelerate/comm/missing.h"', "does not exist"),
    ("accelerate/comm/b.cpp", '#include "accelerate/accelerate.h"', "front door"),
    ("accelerate/comm/b.cpp", '#include "tests/support/support.h"', "the library includes tests/"),
    ("accelerate/comm/b.h", "#include <vector>", "no #pragma once"),
    ("accelerate/comm/b.h", "#pragma once\n#include <torch/torch.h>", "a header includes torch/torch.h"),
    ("accelerate/parallel/gradients/b.cpp", '#include "accelerate/parallel/replicated/a.h"', "parallel/gradients may not"),
    ("accelerate/transformers/hub/b.cpp", '#include "accelerate/transformers/models/a.h"', "transformers/hub may not include transformers/models"),
    ("accelerate/transformers/hub/b.cpp", '#include "accelerate/comm/a.h"', "transformers/hub/ builds without LibTorch but includes accelerate/comm/a.h"),
    ("accelerate/transformers/tokenizers/unicode/b.cpp", '#include "accelerate/transformers/tokenizers/text/a.h"', "tokenizers/unicode may not include"),
    ("accelerate/stray/b.cpp", "", "stray/ is not in ROOMS"),
    ("cli/commands/b.cpp", '#include "accelerate/comm/a.h"', "the command line starts without LibTorch"),
    ("cli/commands/b.cpp", "#include <torch/types.h>", "the command line starts without LibTorch"),
]


class CheckLayers(unittest.TestCase):
    def test_passes_a_sound_tree(self):
        result = check("check_layers.py", SOUND)
        self.assertEqual((result.returncode, result.stdout), (0, f"{len(SOUND)} files checked, 0 faults\n"))

    def test_names_file_and_fault(self):
        for name, text, words in FAULTS:
            with self.subTest(name=name, words=words):
                result = check("check_layers.py", SOUND | {name: text})
                self.assertEqual(result.returncode, 1)
                self.assertIn(words, result.stdout)
                self.assertIn(name, result.stdout)
                self.assertIn(" 1 faults", result.stdout)

    def test_shows_the_way_around_a_circle_of_files(self):
        result = check("check_layers.py", SOUND | {"accelerate/base/a_impl.h": '#pragma once\n#include "accelerate/base/c.h"'})
        self.assertEqual(result.returncode, 1)
        self.assertIn("include one another: accelerate/base/a -> accelerate/base/c -> accelerate/base/a;", result.stdout)


if __name__ == "__main__":
    unittest.main()
