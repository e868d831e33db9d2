// What a disk may hold after a power cut. It is as unkind as POSIX allows: data that was not synced
// may be lost, torn, out of order or zeros; names that were not synced (files and folders made,
// renamed, removed) may be lost one by one, in any combination. Only two things are relied on: a
// rename is one step, and what a sync has returned from stays.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace accelerate::testing {

/// All that can be found on a disk, by absolute path.
struct DiskState {
  std::map<std::string, std::string> files;  ///< With their content.
  std::set<std::string> folders;             ///< Without the root.

  bool operator==(const DiskState&) const = default;
};

/// One change of the disk, or a sync. Files and folders are known by number: their names may move.
struct DiskOperation {
  enum Kind { link, unlink, rename, write, resize, sync_file, sync_folder, mark };

  Kind kind = mark;
  std::size_t node = 0;    ///< The file or folder that it is about.
  bool is_folder = false;  ///< Of link: a folder is made, not a file.
  std::size_t folder = 0;  ///< Where its name is (of rename: will be).
  std::string name = {};
  std::size_t from_folder = 0;  ///< Of rename: where its name was.
  std::string from_name = {};
  std::uint64_t at = 0;  ///< Of write: the offset; of resize: the new size.
  std::string bytes = {};
  std::string what = {};  ///< "write '/data/a'", for people.
};

class DiskModel {
 public:
  using Node = std::size_t;
  static constexpr Node kRoot = 0;

  DiskModel() : nodes_(1, Content{.is_folder = true}) {}

  /// Carries out one operation. A link's node must be nodes(), the next number.
  void apply(const DiskOperation& one);
  [[nodiscard]] std::size_t nodes() const { return nodes_.size(); }
  /// Whatever was done so far is on the disk for certain.
  void make_durable();

  // What a reader sees now.
  [[nodiscard]] std::optional<Node> find(const std::vector<std::string>& names) const;
  [[nodiscard]] bool is_folder(Node node) const { return nodes_[node].is_folder; }
  [[nodiscard]] const std::string& content(Node file) const { return nodes_[file].now; }
  [[nodiscard]] const std::map<std::string, Node>& names(Node folder) const {
    return nodes_[folder].names;
  }
  [[nodiscard]] DiskState visible() const;

  /// Calls `visit` with states in which the disk may be found if the power goes now; some may be
  /// equal. At most 2^6 or 3 times the unsynced names, times 5 and the number of unsynced files.
  void after_power_cut(const std::function<void(const DiskState&)>& visit) const;

 private:
  using Names = std::map<std::string, Node>;
  struct Write {
    std::uint64_t at;
    std::string bytes;
    bool resize;
  };
  struct Content {
    bool is_folder = false;
    Names names = {}, synced_names = {};  // Of a folder.
    std::string now = {}, synced = {};    // Of a file.
    std::vector<Write> unsynced = {};
  };
  // How much of a file's unsynced writes reached the disk.
  enum class Kept { none, half, last, zeros, all };
  using Choice = std::vector<bool>;  // Which of pending_ reached the disk.
  using Tables = std::map<Node, Names>;

  static void change(const DiskOperation& one, Names& from, Names& to);
  static void write(std::string& content, const Write& one);
  [[nodiscard]] static std::string kept(const Content& file, Kept how);
  [[nodiscard]] std::vector<Choice> choices_of_names() const;
  [[nodiscard]] Tables tables(const Choice& choice) const;
  using TextOf = std::function<std::string(Node)>;
  static void walk(const DiskModel& disk, const Tables& tables, const TextOf& text, Node folder,
                   const std::string& path, DiskState& state);

  std::vector<Content> nodes_;
  std::vector<DiskOperation> pending_;  // Changes of names that no sync has made durable.
};

inline void DiskModel::change(const DiskOperation& one, Names& from, Names& to) {
  if (one.kind == DiskOperation::rename) {
    const auto old = from.find(one.from_name);
    if (old != from.end() && old->second == one.node) from.erase(old);
  }
  if (one.kind == DiskOperation::unlink) {
    to.erase(one.name);
  } else {
    to[one.name] = one.node;
  }
}

inline void DiskModel::write(std::string& content, const Write& one) {
  if (one.resize) return content.resize(one.at);
  if (content.size() < one.at + one.bytes.size()) content.resize(one.at + one.bytes.size());
  content.replace(one.at, one.bytes.size(), one.bytes);
}

inline void DiskModel::apply(const DiskOperation& one) {
  switch (one.kind) {
    case DiskOperation::link:
      nodes_.push_back(Content{.is_folder = one.is_folder});
      [[fallthrough]];
    case DiskOperation::unlink:
    case DiskOperation::rename:
      change(one, nodes_[one.from_folder].names, nodes_[one.folder].names);
      pending_.push_back(one);
      break;
    case DiskOperation::write:
    case DiskOperation::resize:
      nodes_[one.node].unsynced.push_back({one.at, one.bytes, one.kind == DiskOperation::resize});
      write(nodes_[one.node].now, nodes_[one.node].unsynced.back());
      break;
    case DiskOperation::sync_file:
      nodes_[one.node].synced = nodes_[one.node].now;
      nodes_[one.node].unsynced.clear();
      break;
    case DiskOperation::sync_folder:
      for (const DiskOperation& old : pending_) {
        if (old.folder != one.node) continue;
        change(old, nodes_[old.from_folder].synced_names, nodes_[old.folder].synced_names);
      }
      std::erase_if(pending_, [&](const DiskOperation& old) { return old.folder == one.node; });
      break;
    case DiskOperation::mark:
      break;
  }
}

inline void DiskModel::make_durable() {
  for (Content& node : nodes_) {
    node.synced = node.now;
    node.synced_names = node.names;
    node.unsynced.clear();
  }
  pending_.clear();
}

inline std::optional<DiskModel::Node> DiskModel::find(const std::vector<std::string>& names) const {
  Node node = kRoot;
  for (const std::string& name : names) {
    const auto found = nodes_[node].names.find(name);
    if (found == nodes_[node].names.end()) return std::nullopt;
    node = found->second;
  }
  return node;
}

inline std::string DiskModel::kept(const Content& file, Kept how) {
  if (how == Kept::all || file.unsynced.empty()) return file.now;
  std::string text = file.synced;
  if (how == Kept::half) {
    const std::size_t half = file.unsynced.size() / 2;
    for (std::size_t i = 0; i < half; ++i) write(text, file.unsynced[i]);
    Write torn = file.unsynced[half];
    torn.bytes.resize(torn.bytes.size() / 2);
    write(text, torn);
  }
  if (how == Kept::last) write(text, file.unsynced.back());
  if (how == Kept::zeros) text.resize(file.now.size());  // The length came first, the data never.
  return text;
}

inline std::vector<DiskModel::Choice> DiskModel::choices_of_names() const {
  const std::size_t count = pending_.size();
  std::vector<Choice> choices;
  if (count <= 6) {
    for (std::size_t bits = 0; bits < std::size_t{1} << count; ++bits) {
      Choice choice(count);
      for (std::size_t i = 0; i < count; ++i) choice[i] = (bits >> i & 1) != 0;
      choices.push_back(choice);
    }
    return choices;
  }
  for (std::size_t i = 0; i <= count; ++i) {
    Choice first(count), without(count, true), alone(count);
    std::fill_n(first.begin(), i, true);
    choices.push_back(first);
    if (i == count) break;
    without[i] = false;
    alone[i] = true;
    choices.insert(choices.end(), {without, alone});
  }
  return choices;
}

inline DiskModel::Tables DiskModel::tables(const Choice& choice) const {
  Tables tables;
  for (Node node = 0; node < nodes_.size(); ++node) {
    if (nodes_[node].is_folder) tables[node] = nodes_[node].synced_names;
  }
  for (std::size_t i = 0; i < pending_.size(); ++i) {
    const DiskOperation& one = pending_[i];
    if (choice[i]) change(one, tables[one.from_folder], tables[one.folder]);
  }
  return tables;
}

inline void DiskModel::walk(const DiskModel& disk, const Tables& tables, const TextOf& text,
                            Node folder, const std::string& path, DiskState& state) {
  for (const auto& [name, node] : tables.at(folder)) {
    const std::string below = path + "/" + name;
    if (disk.nodes_[node].is_folder) {
      state.folders.insert(below);
      walk(disk, tables, text, node, below, state);
    } else {
      state.files[below] = text(node);
    }
  }
}

inline DiskState DiskModel::visible() const {
  Tables now;
  for (Node node = 0; node < nodes_.size(); ++node) {
    if (nodes_[node].is_folder) now[node] = nodes_[node].names;
  }
  DiskState state;
  walk(*this, now, [this](Node node) { return nodes_[node].now; }, kRoot, "", state);
  return state;
}

inline void DiskModel::after_power_cut(const std::function<void(const DiskState&)>& visit) const {
  for (const Choice& choice : choices_of_names()) {
    const Tables found = tables(choice);
    const auto visit_with = [&](const TextOf& text) {
      DiskState state;
      walk(*this, found, text, kRoot, "", state);
      visit(state);
    };
    for (const Kept how : {Kept::none, Kept::half, Kept::last, Kept::zeros, Kept::all}) {
      visit_with([&](Node node) { return kept(nodes_[node], how); });
    }
    for (Node one = 0; one < nodes_.size(); ++one) {
      if (nodes_[one].unsynced.empty()) continue;
      visit_with(
          [&](Node node) { return kept(nodes_[node], node == one ? Kept::none : Kept::all); });
    }
  }
}

}  // namespace accelerate::testing
