"""The comparison of Chinese pages with English ones finds each kind of difference."""
import json
import unittest

from trees import check

ENGLISH = """# Launching
One process or 202 million.

- A flag `--tee` is in [the list](keys.md#flags) and in [other](other.md#a-part).

## Two ranks
| a | b |
|---|---|
| checkpoint | `0` |

```sh
run --now    # at once
```
"""
CHINESE = """# 启动
[English](../launching.md)

一个进程，或 2.02 亿个。

- 选项 `--tee` 见[列表](../keys.md#flags)和[其他](other.md#一部分)。

## 两个 rank
| 甲 | 乙 |
|---|---|
| 检查点 | `0` |

```sh
run --now    # 立即
```
"""
GLOSSARY = """# 术语表
| 中文 | English | 名字 | 不写作 |
|---|---|---|---|
| 进程 | process | `RANK` | 行程、程序实例 |
| 选项 | flag, option | | 旗标 |
| 检查点 | checkpoint | | 断点 |
"""
OTHER = ("# Other\n## A part\nText.\n", "# 其他\n[English](../other.md)\n## 一部分\n文字。\n")
# What --write says of these pages.
REVISIONS = {
    "docs/launching.md": [["# Launching", "3cf480398ef0"], ["## Two ranks", "c957e57156fa"]],
    "docs/other.md": [["# Other", "e3b0c44298fc"], ["## A part", "8bd25a7c2681"]],
}
# What is replaced in which page, by what, and the fault that is then named.
CHANGES = [
    ("zh", "2.02 亿", "2.03 亿", "numbers missing in Chinese: 202,000,000"),
    ("zh", "`--tee`", "`--tea`", "code missing in Chinese: --tee"),
    ("zh", "run --now", "run --later", "a block of code differs, at: run --later"),
    ("zh", "```sh", "```bash", "a block of code differs, at: run --now"),
    ("zh", "../keys.md#flags", "../keys.md#flag", "links missing in Chinese: docs/keys.md#flags"),
    ("zh", "#一部分", "#部分", "links not in English: docs/other.md#部分, which is no heading"),
    ("zh", "(other.md", "(../other.md", "../other.md#一部分 has a Chinese page, docs/zh/other.md"),
    ("zh", "(../launching.md)", "(../other.md)", "docs/zh/launching.md: has no line that leads to docs/launching.md"),
    ("zh", "| 检查点 | `0` |\n", "", "3 rows of tables in English, 2 in Chinese"),
    ("zh", "| 检查点 | `0` |", "| 检查点 | `0` | |", "9 cells of tables in English, 10 in Chinese"),
    ("zh", "- 选项", "选项", "1 list items in English, 0 in Chinese"),
    ("zh", "## 两个", "### 两个", "headings # ###, in English # ##"),
    ("zh", "一个进程", "一个程序", "启动: 'process' is not translated by 进程"),
    ("zh", "| 检查点", "| 断点", "11: '断点' is written 检查点 ('checkpoint')"),
    ("en", "One process", "Each process", "'Launching' has changed since it was translated"),
    ("en", "# Launching", "# Starting", "'Starting' has changed since it was translated"),
]


def tree(english=ENGLISH, chinese=CHINESE):
    return {"docs/launching.md": english, "docs/zh/launching.md": chinese, "docs/zh/glossary.md": GLOSSARY, "docs/keys.md": "",
            "docs/other.md": OTHER[0], "docs/zh/other.md": OTHER[1], "docs/zh/revisions.json": json.dumps(REVISIONS)}


class CheckTranslations(unittest.TestCase):
    def test_equal_pages_have_no_fault_once_written(self):
        result = check("check_translations.py", {**tree(), "docs/zh/revisions.json": "{}"}, "--write")
        self.assertIn("2 translated pages, 3 terms, 0 faults", result.stdout)
        self.assertEqual(result.returncode, 0)

    def test_pages_equal_to_the_written_ones_have_no_fault(self):
        result = check("check_translations.py", tree())
        self.assertIn("2 translated pages, 3 terms, 0 faults", result.stdout)
        self.assertEqual(result.returncode, 0)

    def test_each_difference_is_named(self):
        for side, old, new, fault in CHANGES:
            with self.subTest(fault=fault):
                texts = {"en": ENGLISH, "zh": CHINESE}
                self.assertIn(old, texts[side])
                texts[side] = texts[side].replace(old, new)
                result = check("check_translations.py", tree(texts["en"], texts["zh"]))
                self.assertIn(fault, result.stdout)
                self.assertEqual("has changed since" in result.stdout, side == "en")
                self.assertEqual(result.returncode, 1)


if __name__ == "__main__":
    unittest.main()
