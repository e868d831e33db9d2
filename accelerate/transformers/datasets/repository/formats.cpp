#include "accelerate/transformers/datasets/repository/formats.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/base/untrusted_text.h"
#include "accelerate/transformers/datasets/repository/listing.h"

namespace accelerate::detail {
namespace {

struct Module {
  std::string_view name;
  std::string_view extensions;  // Separated by blanks.
  bool has_upper_case = false;  // Whether the module knows ".JPG" besides ".jpg".
};

// Source: datasets/packaged_modules/__init__.py.
constexpr std::array<Module, 26> kModules = {{
    {"csv", " csv tsv "},
    {"json", " json jsonl ndjson "},
    {"parquet", " parquet geoparquet gpq "},
    {"arrow", " arrow "},
    {"text", " txt "},
    {"conll", " conll conllu "},
    {"webdataset", " tar "},
    {"xml", " xml "},
    {"hdf5", " hdf5 h5 "},
    {"eval", " eval "},
    {"harbor", " toml md "},
    {"lance", " lance "},
    {"tsfile", " tsfile "},
    {"vortex", " vortex "},
    {"fasta", " fa fasta fna ffn faa frn afa "},
    {"genbank", " gb gbk genbank "},
    {"fastq", " fq fastq "},
    {"pdb", " pdb ent ", true},
    {"mmcif", " cif mmcif "},
    {"imagefolder",
     " blp bmp dib bufr cur pcx dcx dds ps eps fit fits fli flc ftc ftu gbr gif grib png apng jp2 "
     "j2k jpc jpf jpx j2c icns ico im iim tif tiff jfif jpe jpg jpeg msp pcd pxr pbm pgm ppm pnm "
     "psd bw rgb rgba sgi ras tga icb vda vst webp wmf emf xbm xpm ",
     true},
    {"audiofolder",
     " mpg aiff au avr caf flac htk svx mat4 mat5 mpc2k ogg paf pvf raw rf64 sd2 sds ircam voc w64 "
     "wav nist wavex wve xi mp3 opus 3gp 3g2 asf flv m4v webm f4v wmv wma ogm mxf nut ",
     true},
    {"videofolder", " mpeg avi mp4 mov mkv ", true},
    {"meshfolder", " glb gltf ply stl ", true},
    {"pdffolder", " pdf ", true},
    {"niftifolder", " nii ", true},
    // Data files without a module: archives, whose content tells their format, and parts of lance.
    {"", " zip idx txn manifest "},
}};
constexpr std::array<std::string_view, 6> kMetadataNames = {
    "instruction.md", "latest_version_hint.json", "metadata.csv",
    "metadata.jsonl", "metadata.parquet",         "task.toml"};
constexpr std::array<std::string_view, 4> kReadable = {"csv", "json", "parquet", "text"};
constexpr std::string_view kReadableExtensions =
    ".csv, .tsv, .json, .jsonl, .ndjson, .parquet and .txt";
constexpr std::string_view kCompressed = " gz tgz zst zstd bz2 xz lz4 br lzma zip 7z rar tar ";

bool has_word(std::string_view words, std::string_view word) {
  return words.find(" " + std::string(word) + " ") != std::string_view::npos;
}

const Module* module_of(std::string_view extension) {
  for (const Module& module : kModules) {
    if (has_word(module.extensions, extension)) return &module;
  }
  return nullptr;
}

// Returns what follows each dot of the file's name.
std::vector<std::string> suffixes_of(std::string_view path) {
  auto parts = split(base_name(path), '.');
  parts.erase(parts.begin());
  return parts;
}

bool is_data_suffix(const std::string& suffix) {
  if (suffix.empty() || suffix.find(' ') != std::string::npos) return false;
  const std::string small = lower(suffix);
  const Module* module = module_of(small);
  if (module == nullptr) return false;
  const bool is_upper =
      std::none_of(suffix.begin(), suffix.end(), [](char c) { return c >= 'a' && c <= 'z'; });
  return small == suffix || (module->has_upper_case && is_upper);
}

using Key = std::pair<std::string, bool>;  // An extension, and whether the file is metadata.
using Counts = std::map<Key, std::size_t>;

Counts count_extensions(const std::vector<std::string>& files) {
  Counts counts;
  for (const std::string& file : files) {
    const auto name = base_name(file);
    const bool is_metadata =
        std::find(kMetadataNames.begin(), kMetadataNames.end(), name) != kMetadataNames.end();
    for (const std::string& suffix : suffixes_of(file)) ++counts[{lower(suffix), is_metadata}];
  }
  return counts;
}

// Greater is better: most files first, then the favourite formats, then the last in the alphabet.
auto rank_of(const std::pair<Key, std::size_t>& entry) {
  constexpr std::array<std::string_view, 7> kFavourites = {"csv",    "json",  "jsonl",  "arrow",
                                                           "vortex", "lance", "parquet"};
  const auto& [key, count] = entry;
  const auto* place = std::find(kFavourites.begin(), kFavourites.end(), key.first);
  const auto favour = place == kFavourites.end() ? 0 : place - kFavourites.begin() + 1;
  return std::make_tuple(!key.second, count, favour, key.first);
}

// Returns nullopt if no extension tells the format. Archives count as a format, because their
// content is unknown.
std::optional<FileFormat> format_of(const std::vector<std::string>& files) {
  const Counts counts = count_extensions(files);
  std::vector<std::pair<Key, std::size_t>> entries(counts.begin(), counts.end());
  std::sort(entries.begin(), entries.end(),
            [](const auto& a, const auto& b) { return rank_of(a) > rank_of(b); });
  for (const auto& [key, count] : entries) {
    const std::string& extension = key.first;
    if (extension == "zip") return FileFormat{.name = "zip"};
    const Module* module =
        extension.find(' ') == std::string::npos ? module_of(extension) : nullptr;
    if (module != nullptr && !module->name.empty())
      return FileFormat{std::string(module->name), extension == "tsv" ? '\t' : ','};
  }
  return std::nullopt;
}

// Lists extensions, most frequent first, at most eight: ".jpg (2 files), .txt (1 file)".
std::string describe_extensions(const RepositorySplits& splits) {
  std::map<std::string, std::size_t> counts;
  for (const auto& [split, files] : splits) {
    for (const std::string& file : files) {
      const auto suffixes = suffixes_of(file);
      ++counts[suffixes.empty() ? "no extension" : "." + suffixes.back()];
    }
  }
  std::vector<std::pair<std::string, std::size_t>> entries(counts.begin(), counts.end());
  std::stable_sort(entries.begin(), entries.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::vector<std::string> texts;
  for (const auto& [extension, count] : entries) {
    if (texts.size() == 8) break;
    texts.push_back(extension + " (" + count_of(count, "file") + ")");
  }
  return texts.empty() ? "none" : join(texts, ", ");
}

[[noreturn]] void refuse(const std::string& what, const RepositorySplits& splits) {
  throw DataError(what + ". Found: " + untrusted_line(describe_extensions(splits)) +
                  "; allowed are " + std::string(kReadableExtensions) +
                  ". Name the files by .data_files");
}

}  // namespace

bool has_data_extension(std::string_view path) {
  const auto suffixes = suffixes_of(path);
  return std::any_of(suffixes.begin(), suffixes.end(), is_data_suffix);
}

// Same as the regular expression ".*(\.csv|\.tsv|\.zip)(\..+)?$" of `datasets`, which also sees
// folders.
bool is_of_format(std::string_view path, const std::string& format) {
  const auto* module = std::find_if(kModules.begin(), kModules.end(),
                                    [&](const Module& m) { return m.name == format; });
  for (std::size_t dot = path.find('.'); dot != std::string_view::npos;
       dot = path.find('.', dot + 1)) {
    const std::size_t end = std::min(path.find('.', dot + 1), path.size());
    const std::string_view suffix = path.substr(dot + 1, end - dot - 1);
    const bool is_known = suffix.find(' ') == std::string_view::npos && !suffix.empty() &&
                          (has_word(module->extensions, suffix) || suffix == "zip");
    if (is_known && end + 1 != path.size()) return true;
  }
  return false;
}

FileFormat common_format(const RepositorySplits& splits) {
  std::optional<FileFormat> common;
  for (const auto& [split, files] : splits) {
    const auto format = format_of(files);
    if (&files == &splits.front().second) {
      common = format;
    } else if (format != common) {
      refuse("the splits '" + splits.front().first + "' and '" + split +
                 "' have files of different formats",
             splits);
    }
  }
  if (!common) refuse("the repository has no data files of a known format", splits);
  if (std::find(kReadable.begin(), kReadable.end(), common->name) == kReadable.end())
    refuse("the files of the repository have the format '" + common->name + "'", splits);
  return *common;
}

void check_readable(const RepositorySplits& splits, const std::string& format) {
  for (const auto& [split, files] : splits) {
    if (files.empty())
      throw DataError("no file belongs to the split '" + untrusted_line(split) + "'");
    for (const std::string& file : files) {
      const auto suffixes = suffixes_of(file);
      if (!suffixes.empty() && has_word(kCompressed, lower(suffixes.back()))) {
        throw DataError("'" + untrusted_line(file) +
                        "' is compressed, which is not supported; allowed are " +
                        std::string(kReadableExtensions));
      }
      if (!is_of_format(file, format)) {
        throw DataError("'" + untrusted_line(file) + "' would be read as " + format +
                        ", the format of the repository, but its extension is of another one");
      }
    }
  }
}

}  // namespace accelerate::detail
